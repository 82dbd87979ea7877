"""Crash points, real servers, clocks and contract suites for tests."""

from memoryos_testing.crash import run_until_crash
from memoryos_testing.schema import assert_columns_classified, assert_row_security, assert_tenant_first
from memoryos_testing.scopes import scope_of

__all__ = [
    "assert_columns_classified",
    "assert_row_security",
    "assert_tenant_first",
    "run_until_crash",
    "scope_of",
]
