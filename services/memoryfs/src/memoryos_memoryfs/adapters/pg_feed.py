"""ChangeFeed on PostgreSQL: rows below the oldest running transaction, in order of transactions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from memoryos_core.feed import FeedPage
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_postgres import Database, queries
from memoryos_postgres.transaction import Row

from memoryos_memoryfs.adapters.pg_items import PgItems
from memoryos_memoryfs.adapters.places import place_of
from memoryos_memoryfs.adapters.session import Session, Shared
from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.changes import Change
from memoryos_memoryfs.domain.items import Cause, Item, State
from memoryos_memoryfs.ports.transfer import FeedPosition

_QUERIES = queries.load("memoryos_memoryfs", "sql/feed.sql")
_REVISION, _LOSS, _STATE = range(3)
_SAME_PLACE_MAX: Final = 16
"""Rows of one item in one transaction that a page reads again to pass the position."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_Rows = list[tuple[FeedPosition, Row]]


class PgFeed:
    """Feeds of one database."""

    def __init__(self, database: Database, shared: Shared) -> None:
        self._database = database
        self._shared = shared

    async def now(self, scope: Scope) -> FeedPosition:
        """See `ChangeFeed.now`."""
        async with self._database.scoped(scope) as tx:
            return FeedPosition(int(await tx.fetch_value(_QUERIES["feed_horizon"])))

    async def after(
        self, scope: Scope, path: MemoryPath, position: FeedPosition, limit: int
    ) -> FeedPage[tuple[FeedPosition, Change], FeedPosition]:
        """See `ChangeFeed.after`."""
        async with self._database.scoped(scope) as tx:
            session = Session(shared=self._shared, tx=tx, scope=scope)
            horizon = await tx.fetch_value(_QUERIES["feed_horizon"])
            rows, more = await self._rows(session, path, position, int(horizon), limit)
            changes = await self._changes(session, path, rows)
        end = rows[-1][0] if rows and more else FeedPosition(max(int(horizon), position.xid))
        if rows and not more and rows[-1][0] > end:
            end = rows[-1][0]
        return FeedPage(changes, end, more=more)

    async def _rows(
        self, session: Session, path: MemoryPath, position: FeedPosition, horizon: int, limit: int
    ) -> tuple[_Rows, bool]:
        """Give the rows after the position in order, at most `limit`, and whether there are more."""
        place = await place_of(session, path)
        size = limit + _SAME_PLACE_MAX
        params = {
            "tenant": session.tenant,
            "from_xid": str(position.xid),
            "from_id": position.item_id,
            "horizon": str(horizon),
            "path_ids": list(place.path_ids),
            "limit": size,
        }
        found: _Rows = []
        complete_to: FeedPosition | None = None
        for rank, name in ((_REVISION, "feed_revisions"), (_LOSS, "feed_losses"), (_STATE, "feed_states")):
            rows = await session.tx.fetch_all(_QUERIES[name], params)
            keyed = [(_key(rank, row), row) for row in rows]
            if len(rows) == size:  # later rows of the other kinds wait for those that this one did not give
                last = max(key for key, _ in keyed)
                complete_to = last if complete_to is None else min(complete_to, last)
            found.extend(keyed)
        found = sorted(
            ((key, row) for key, row in found if key > position and (complete_to is None or key <= complete_to)),
            key=lambda entry: entry[0],
        )
        return found[:limit], len(found) > limit or complete_to is not None

    async def _changes(self, session: Session, path: MemoryPath, rows: _Rows) -> list[tuple[FeedPosition, Change]]:
        given = [row for key, row in rows if key.rank == _REVISION and _readable_now(session.scope, row)]
        store = PgItems(session)
        items = {(item.id, item.revision): item for item in await store.opened(given)}
        restored = [key.item_id for key, row in rows if key.rank == _STATE and row["to_state"] != State.FORGOTTEN]
        current = await store.find(restored)
        changes: list[tuple[FeedPosition, Change]] = []
        for key, row in rows:
            if key.rank == _STATE:
                back = row["to_state"] != State.FORGOTTEN
                item = _served(session.scope, path, current.get(key.item_id)) if back else None
                change = _state_change(row, item) if _may_hear(session.scope, row) else None
            elif key.rank == _LOSS:
                change = _loss(row) if _shown(session.scope, row["state"], row["sensitivity"]) else None
            else:
                item = _served(session.scope, path, items.get((row["id"], row["revision"])))
                change = _revision(row, item) if item or _was_readable(session.scope, row) else None
            if change is not None:
                changes.append((key, change))
        return changes


def _key(rank: int, row: Row) -> FeedPosition:
    number = row["revision"]
    if rank == _STATE:
        number = (row["change_time"] - _EPOCH) // timedelta(microseconds=1)
    return FeedPosition(int(row["xid"]), row["id"], rank, number)


def _readable_now(scope: Scope, row: Row) -> bool:
    """Tell whether today's row, its readers, its clearance and its state, lets this revision be shown."""
    return (
        row["now_state"] not in (None, State.FORGOTTEN)
        and row["now_sensitivity"] <= scope.clearance
        and row["sensitivity"] <= scope.clearance
    )


def _was_readable(scope: Scope, row: Row) -> bool:
    """Tell whether the caller was shown the revision before, so that it must hear of this one."""
    return row["before_state"] is not None and _shown(scope, row["before_state"], row["before_sensitivity"])


def _shown(scope: Scope, state: int, sensitivity: int) -> bool:
    """Tell whether a reader was shown a revision: no candidate of others, nothing above the clearance."""
    return state in (State.ACTIVE, State.SUPERSEDED) and sensitivity <= scope.clearance


def _served(scope: Scope, path: MemoryPath, item: Item | None) -> Item | None:
    if item is None or not path.contains(item.path) or not access.visible(scope, item):
        return None
    return item


def _revision(row: Row, item: Item | None) -> Change:
    before = row["before_state"]
    return Change(
        item_id=row["id"],
        at=row["update_time"],
        cause=Cause(row["cause"]) if item else Cause.UPDATE,
        actor=row["actor"] if item else "",
        trace_id=row["trace_id"] if item else "",
        from_state=State(before) if before else None,
        to_state=State(row["state"]),
        revision=row["revision"],
        item=item,
    )


def _loss(row: Row) -> Change:
    return Change(
        item_id=row["id"],
        at=row["replace_time"],
        cause=Cause.UPDATE,
        actor="",
        trace_id="",
        from_state=State(row["state"]),
        to_state=State(row["state"]),
        revision=row["revision"],
        item=None,
    )


def _may_hear(scope: Scope, row: Row) -> bool:
    """Tell whether a change of state is the caller's to know: of an item below its clearance, a candidate's if own."""
    hidden = State.CANDIDATE in (row["from_state"], row["to_state"]) and not row["own"]
    return row["sensitivity"] <= scope.clearance and not hidden


def _state_change(row: Row, item: Item | None) -> Change:
    return Change(
        item_id=row["id"],
        at=row["change_time"],
        cause=Cause(row["cause"]),
        actor=row["actor"],
        trace_id=row["trace_id"],
        from_state=State(row["from_state"]),
        to_state=State(row["to_state"]),
        revision=row["revision"],
        item=item,
    )
