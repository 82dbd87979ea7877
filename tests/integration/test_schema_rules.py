"""DESIGN §2 holds for every schema of the installation at once."""

import pytest
from memoryos_testing import assert_columns_classified, assert_row_security, assert_tenant_first

pytestmark = pytest.mark.integration

# Derived indexes and due-queues: they hold ids and take the tenant as an argument (DESIGN §2).
WITHOUT_ROW_SECURITY = (
    "harness.due_tasks",
    "harness.sweeps",
    "memoryfs.cold_tokens",
    "memoryfs.index_outbox",
    "memoryfs.item_access",
    "memoryfs.item_claims",
    "memoryfs.item_embeds",
    "memoryfs.item_tokens",
    "memoryfs.item_vectors",
    "memoryfs.parked_vectors",
    "memoryfs.vector_indexes",
    "memoryfs.revision_vectors",
    "memoryfs.due_bindings",
    "memoryfs.upkeep_runs",
    "memoryfs.working_items",
    "toolgateway.dispatched",
    "toolgateway.doubts",
    "toolgateway.due_notices",
)


async def test_every_column_has_a_class_and_content_is_sealed(database):
    await assert_columns_classified(database.admin_dsn)


async def test_tenant_is_first_in_every_key(database):
    await assert_tenant_first(database.admin_dsn)


async def test_every_table_of_truth_forces_row_security(database):
    await assert_row_security(database.admin_dsn, without=WITHOUT_ROW_SECURITY)
