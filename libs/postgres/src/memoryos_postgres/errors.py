"""Driver errors become ours here, by class and SQLSTATE, never by text.

Nothing of the driver's message goes on: it can name tables or hold values.
The original stays as `__cause__` for logs.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from memoryos_core.errors import DeadlineExceeded, DependencyUnavailable, InternalError, MemoryOSError
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

SCOPE_MISSING_SQLSTATE = "MO001"
"""Raised by core.tenant() and its sisters when the transaction has no scope."""

# Connection, resources, operator intervention, system: nothing was committed, a retry may succeed.
_UNAVAILABLE_CLASSES = frozenset({"08", "53", "58"})
_UNAVAILABLE_STATES = frozenset({
    "57P01",  # admin shutdown
    "57P02",  # crash shutdown
    "57P03",  # cannot connect now
    "57P05",  # idle session timeout
    "25P03",  # idle in transaction timeout
    "25P04",  # transaction timeout
    "40001",  # serialization failure
    "40P01",  # deadlock
    "55P03",  # lock not available
})  # fmt: skip


class DatabaseUnavailable(DependencyUnavailable):
    """The database does not answer, or gave up this transaction.

    Nothing of it was committed, unless the answer to COMMIT was lost: repeat with the same request_id.
    """


class ScopeMissing(InternalError):
    """A row guarded by scope was touched in a transaction without one."""


class AccessRefused(InternalError):
    """The role has no right to this, or the row belongs to another tenant than the transaction."""


class ConstraintViolation(InternalError):
    """A row breaks a constraint.

    Operations that expect one catch it by `constraint`.
    """

    def __init__(self, constraint: str, sqlstate: str) -> None:
        super().__init__()
        self.constraint = constraint
        self.sqlstate = sqlstate


class UniqueViolation(ConstraintViolation):
    """A row with this key exists."""


class DatabaseFault(InternalError):
    """A statement of ours is wrong for this database."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(metadata={"sqlstate": sqlstate} if sqlstate else None)
        self.sqlstate = sqlstate


def translate(error: Exception) -> MemoryOSError:
    """Give our error for a driver or pool error."""
    if isinstance(error, PoolTimeout | PoolClosed | TooManyRequests):
        return DatabaseUnavailable()
    state = (error.sqlstate if isinstance(error, psycopg.Error) else None) or ""
    if state == SCOPE_MISSING_SQLSTATE:
        return ScopeMissing()
    if state == "57014":  # statement_timeout; a cancelled task raises CancelledError instead
        return DeadlineExceeded()
    if state[:2] in _UNAVAILABLE_CLASSES or state in _UNAVAILABLE_STATES:
        return DatabaseUnavailable()
    if isinstance(error, psycopg.Error) and state[:2] == "23":
        kind = UniqueViolation if state == "23505" else ConstraintViolation
        return kind(error.diag.constraint_name or "", state)
    if state == "42501":
        return AccessRefused()
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return DatabaseUnavailable()  # the connection broke
    return DatabaseFault(state)


@contextmanager
def translated() -> Iterator[None]:
    """Translate what the driver raises inside the block."""
    try:
        yield
    except (psycopg.Error, PoolTimeout, PoolClosed, TooManyRequests) as error:
        raise translate(error) from error
