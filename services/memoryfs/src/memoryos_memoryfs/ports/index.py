"""What the copy of the dense index asks of storage. Adapters live in adapters/.

The tables behind it hold names and vectors, no content, and are read across
tenants: whoever copies, compares or counts acts for no reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Protocol

from memoryos_vectors.models import IndexedModels
from memoryos_vectors.ports import DerivedIndex, IndexScope, VectorAnswer, VectorEntry, VectorQuery


class Backend(StrEnum):
    """Where vectors are searched."""

    PGVECTOR = "pgvector"
    QDRANT = "qdrant"


class Phase(IntEnum):
    """How far a move has come; numbers of the proto's MigrationPhase."""

    NONE = 0
    DUAL_WRITE = 1
    BACKFILL = 2
    VERIFY = 3
    READY = 4
    CUT_OVER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """Which index answers searches, and which is written beside it; one state for the installation."""

    configured: Backend
    serving: Backend
    feeding: bool
    """Changes are copied to Qdrant."""
    phase: Phase = Phase.NONE
    target: Backend | None = None
    """Where a move leads to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits to be copied."""

    pending_count: int
    oldest_time: datetime | None
    dead_count: int
    unembedded_count: int


@dataclass(frozen=True, slots=True)
class NamedChange:
    """An item that changed, and the rows of the outbox that say so."""

    tenant: str
    item_id: str
    seqs: tuple[int, ...]
    attempts: int


class ClaimedChanges(Protocol):
    """Changes that are this worker's until the block ends."""

    @property
    def changes(self) -> Sequence[NamedChange]:
        """What was claimed; several tenants have their share."""

    async def truth(self, tenant: str, item_ids: Sequence[str]) -> Mapping[str, Sequence[VectorEntry]]:
        """Give the current vectors of the items by model, at least as new as the changes."""

    async def done(self, changes: Sequence[NamedChange]) -> None:
        """Forget the rows that were claimed; a change made since stays."""

    async def put_off(self, change: NamedChange, reason: str) -> bool:
        """Try again later, each time after twice as long; tell whether it is given up."""


class IndexOutbox(Protocol):
    """The changes that are not copied yet."""

    def claim(self, limit: int) -> AbstractAsyncContextManager[ClaimedChanges]:
        """Claim some; what another worker holds is passed over. What is not `done` stays."""

    async def name_all(self, after: tuple[str, str], limit: int) -> tuple[str, str] | None:
        """Name the next `limit` items that have vectors, as if they had changed; give the last one, None at the end."""

    async def pending(self, tenant: str, item_ids: Sequence[str]) -> frozenset[str]:
        """Give those of the items that wait and are not given up."""

    async def name(self, tenant: str, item_ids: Sequence[str]) -> None:
        """Name these items, as if they had changed."""

    async def backlog(self, tenant: str | None) -> Backlog:
        """Give what waits, of one tenant or of all."""


class BackendState(Protocol):
    """The row that says which index answers."""

    async def get(self) -> Backends:
        """Give the state."""

    async def change(self, before: Backends, after: Backends) -> bool:
        """Replace the state, unless it is no longer `before`; forget what waits where nothing is fed any more.

        Whatever was written to the vectors before is committed by then, and whatever follows sees the new state.
        """


class TruthVectors(Protocol):
    """What PostgreSQL keeps, for comparing the copy with it."""

    async def counts(self, model_id: str) -> Mapping[str, int]:
        """Give the number of entries of every tenant that has any."""

    async def page(self, tenant: str, model_id: str, after_id: str, limit: int) -> Sequence[VectorEntry]:
        """Give the next entries in order of item."""

    async def of(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, VectorEntry]:
        """Give the entries of these items."""

    async def search(self, scope: IndexScope, query: VectorQuery) -> VectorAnswer:
        """Give the exact answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexParts:
    """What moves, checks and erases the copy are given by the composition root."""

    state: BackendState
    outbox: IndexOutbox
    truth: TruthVectors
    models: IndexedModels
    model_id: str
    copy: DerivedIndex | None
    """None: the configuration names no Qdrant."""
    answers: Callable[[], bool]
    """Tells whether the copy answered when it was last asked."""
    settle_s: float
    """How long a change that was sent may still arrive."""
