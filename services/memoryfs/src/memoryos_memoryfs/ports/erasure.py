"""What a purge asks of storage, of the other services and of the signer. Adapters live in adapters/.

It acts for no reader: every call names the tenant, and its transactions reach
every row of that tenant (`Database.upkeep`). Every method is safe to repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memoryos_postgres.jobs import JobRun

from memoryos_memoryfs.domain.erasure import Expiry, Target


@dataclass(frozen=True, slots=True)
class Settling:
    """From when on nothing that ran before can write any more."""

    until: str
    """Instant by the database clock, RFC 3339."""
    xid: int
    """Transactions older than this one are to have ended."""


class ErasureStore(Protocol):
    """What MemoryFS and the shared tables hold."""

    async def digest(self, tenant: str, name: str) -> str:
        """Give the tenant-keyed hash by which the receipt names its target."""

    async def owned(self, tenant: str, ids: Sequence[str], owner: str) -> frozenset[str]:
        """Give those of the items that exist and are `owner`'s; empty owner: anybody's."""

    async def destroy_key(self, run: JobRun, user: str) -> None:
        """Destroy the data key of a person; other processes may hold it a little longer, see `settling`."""

    async def erase_batch(self, run: JobRun, target: Target, limit: int) -> int:
        """Remove some items, what was made from them and every row that names them; give their number.

        Its counts are kept in the checkpoint of the run, in the same transaction.
        """

    async def erase_loose(self, run: JobRun, target: Target) -> None:
        """Remove what belongs to no item: old revisions, answers to requests, jobs; give rows that stay a pseudonym."""

    async def erased_ids(self, run: JobRun, after: str, limit: int) -> list[str]:
        """Give the names of removed items after `after`, in order."""

    async def settling(self, run: JobRun, *, caches: bool = False, late_s: float = 0.0) -> Settling:
        """Give from when on every transaction of now has ended and, with `caches`, no process holds an old key.

        With `late_s` it is at least so much later than now.
        """

    async def unsettled_s(self, run: JobRun, settling: Settling) -> float:
        """Give how long that instant is away; very little when only a transaction is awaited, 0 once it has passed."""

    async def search(self, run: JobRun, target: Target) -> Mapping[str, int]:
        """Give, for every table, the number of rows that still hold something of the target."""

    async def expiring(self, run: JobRun, target: Target) -> Sequence[Expiry]:
        """Give what is gone only later."""

    async def close(self, run: JobRun, target: Target, result: Mapping[str, object]) -> None:
        """Audit the end and forget what the purge itself noted; names of the person in its own rows go, too."""


class ErasurePeers(Protocol):
    """The other services, each by its Erasure RPCs."""

    @property
    def absent(self) -> Sequence[str]:
        """Services that this installation does not have."""

    async def erase(self, run: JobRun, target: Target, ids: Sequence[str]) -> Mapping[str, int]:
        """Let every service remove what it holds of the person, or of the items `ids`; give counts by place.

        Raises DependencyUnavailable while one does not answer.
        """

    async def find(self, run: JobRun, target: Target, ids: Sequence[str]) -> tuple[Mapping[str, int], Sequence[Expiry]]:
        """Give what every service still holds, by place, and what expires later."""


class ReceiptSigner(Protocol):
    """The key that signs receipts."""

    @property
    def key_id(self) -> str:
        """Name of the key."""

    def sign(self, receipt: bytes) -> bytes:
        """Give the signature of a receipt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureParts:
    """What purges are given by the composition root."""

    store: ErasureStore
    peers: ErasurePeers
    signer: ReceiptSigner | None
    """None: the configuration names no key, and Purge is refused."""
