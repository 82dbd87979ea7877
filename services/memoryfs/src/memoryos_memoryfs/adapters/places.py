"""Where a call may look, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from memoryos_core.paths import MemoryPath
from memoryos_postgres import queries
from memoryos_vectors.adapters.pgvector_routes import CUSTOM

from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain.place_keys import path_key, subtree_end

_PLAIN: Final = dict.fromkeys(CUSTOM)
_QUERIES = queries.load("memoryos_memoryfs", "sql/items.sql")


@dataclass(frozen=True, slots=True)
class Place:
    """The caller's principals, the places at or below the paths, and whether an item there lacks its vector."""

    reader_ids: tuple[int, ...]
    path_ids: tuple[int, ...]
    pending: bool


def plan_once(session: Session) -> None:
    """Let the statements that follow keep their plan: those that find rows by name are answered alike for all."""
    session.tx.set_next(_PLAIN)


async def place_of(session: Session, *paths: MemoryPath) -> Place:
    """Give the numbers for all of `paths` together; both sets are empty where nothing was ever written.

    What follows in the transaction is planned for its own values: tenants differ too much for one plan of
    recall and lists. `plan_once` ends that.
    """
    key = (await session.keys()).tokens
    starts = [path_key(key, path) for path in paths]
    params = {"tenant": session.tenant, "starts": starts, "ends": [subtree_end(start) for start in starts]}
    row = await session.tx.fetch_one(_QUERIES["place"], params, binary=True)
    assert row is not None
    session.tx.set_next(CUSTOM)
    return Place(tuple(row["reader_ids"]), tuple(row["path_ids"]), row["pending"])
