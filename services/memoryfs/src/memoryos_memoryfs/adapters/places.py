"""Where a call may look, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from memoryos_core.paths import MemoryPath
from memoryos_postgres import queries

from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain.place_keys import path_key, subtree_end

_QUERIES = queries.load("memoryos_memoryfs")


@dataclass(frozen=True, slots=True)
class Place:
    """The caller's principals, the places at or below a path, and whether an item there lacks its vector."""

    reader_ids: tuple[int, ...]
    path_ids: tuple[int, ...]
    pending: bool


async def place_of(session: Session, path: MemoryPath) -> Place:
    """Give the numbers for `path`; both sets are empty where nothing was ever written."""
    start = path_key((await session.keys()).tokens, path)
    row = await session.tx.fetch_one(
        _QUERIES["place"], {"tenant": session.tenant, "start": start, "end": subtree_end(start)}, binary=True
    )
    assert row is not None
    return Place(tuple(row["reader_ids"]), tuple(row["path_ids"]), row["pending"])
