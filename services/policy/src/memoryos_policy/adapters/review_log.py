"""Reviews as they stand, and as they change, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from memoryos_core.canonical import canonical_json
from memoryos_core.feed import FeedPage
from memoryos_core.paging import PageTokens
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing
from memoryos_postgres import Database, Tx, queries
from memoryos_postgres.transaction import Row

from memoryos_policy.adapters.review_rows import review_of, whole_review
from memoryos_policy.domain.reviews import AUDITOR, Review, ReviewState, reviewer_groups
from memoryos_policy.ports import Page, ReviewPosition

_LIST_METHOD: Final = "memoryos.policy.v1.Reviews/ListReviews"
_QUERIES: Final = queries.load("memoryos_policy", "reviews.sql")
_HORIZON: Final = queries.load("memoryos_policy", "decision_log.sql")["feed_horizon"]
_Page = FeedPage[tuple[ReviewPosition, Review], ReviewPosition]


class PostgresReviewLog:
    """ReviewLog on the schema policy."""

    def __init__(self, database: Database, keyring: KeyRing[Tx]) -> None:
        self._database = database
        self._keyring = keyring

    async def page_secret(self, scope: Scope) -> bytes:
        """See ReviewLog."""
        async with self._database.scoped(scope) as tx:
            return (await self._keyring.tenant_keys(tx, scope.tenant)).pages

    async def find(self, scope: Scope, review_id: str) -> Review:
        """See ReviewLog."""
        async with self._database.scoped(scope) as tx:
            return await whole_review(self._keyring, tx, scope, review_id)

    async def newest(self, scope: Scope, state: ReviewState | None, page: Page) -> tuple[Sequence[Review], str]:
        """See ReviewLog."""
        filter_bytes = canonical_json([state.value if state else None])
        async with self._database.scoped(scope) as tx:
            tokens = PageTokens((await self._keyring.tenant_keys(tx, scope.tenant)).pages)
            position = tokens.decode(scope, _LIST_METHOD, filter_bytes, page.token)
            params = {
                **_reader(scope),
                "state": state.value if state else None,
                "before": position[0] if position else None,
                "limit": page.size + 1,
            }
            rows = await tx.fetch_all(_QUERIES["reviews_newest"], params)
        reviews = [review_of(row) for row in rows[: page.size]]
        more = len(rows) > page.size
        return reviews, tokens.encode(scope, _LIST_METHOD, filter_bytes, (reviews[-1].id,)) if more else ""

    async def now(self, scope: Scope) -> ReviewPosition:
        """See ReviewLog."""
        async with self._database.scoped(scope) as tx:
            (row,) = await tx.fetch_all(_HORIZON)
        return ReviewPosition(xid=int(row["horizon"]), until=row["now"], listing=True)

    async def after(self, scope: Scope, position: ReviewPosition, limit: int) -> _Page:
        """See ReviewLog."""
        async with self._database.scoped(scope) as tx:
            if position.listing:
                return await _pending(tx, scope, position, limit)
            (now,) = await tx.fetch_all(_HORIZON)
            horizon = int(now["horizon"])
            changed = await _changed(tx, scope, position, horizon, limit)
            if changed.more:
                return changed
            expired = await _expired(tx, scope, changed.position, (horizon, now["now"]), limit)
        return FeedPage([*changed.events, *expired.events], expired.position, more=expired.more)


async def _pending(tx: Tx, scope: Scope, position: ReviewPosition, limit: int) -> _Page:
    """Give what is pending as the feed begins, by id; then the feed itself goes on from where it began."""
    params = {
        **_reader(scope),
        "since": position.until,
        "horizon": str(position.xid),
        "from_id": position.review_id,
        "limit": limit,
    }
    rows = await tx.fetch_all(_QUERIES["reviews_pending"], params)
    events = [(replace(position, review_id=row["review_id"]), review_of(row)) for row in rows]
    if len(rows) == limit:
        return FeedPage(events, events[-1][0], more=True)
    return FeedPage(events, replace(position, review_id="", listing=False), more=True)


async def _changed(tx: Tx, scope: Scope, position: ReviewPosition, horizon: int, limit: int) -> _Page:
    params = {
        **_reader(scope),
        "from_xid": str(position.xid),
        "from_id": position.review_id,
        "horizon": str(horizon),
        "limit": limit,
    }
    rows = await tx.fetch_all(_QUERIES["reviews_changed"], params)
    events = [(replace(position, xid=int(row["xid"]), review_id=row["review_id"]), review_of(row)) for row in rows]
    if len(rows) == limit:
        return FeedPage(events, events[-1][0], more=True)
    if horizon > position.xid:
        return FeedPage(events, replace(position, xid=horizon, review_id=""))
    return FeedPage(events, position)


async def _expired(tx: Tx, scope: Scope, position: ReviewPosition, now: tuple[int, datetime], limit: int) -> _Page:
    """Give what has ended by the database clock since the position, whose changes are told by now."""
    horizon, time = now
    params = {
        **_reader(scope),
        "horizon": str(horizon),
        "since": position.until,
        "now": time,
        "from_id": position.expired_id,
        "limit": limit,
    }
    rows: list[Row] = await tx.fetch_all(_QUERIES["reviews_expired"], params)
    events = [
        (replace(position, until=row["expire_time"], expired_id=row["review_id"]), review_of(row)) for row in rows
    ]
    if len(rows) == limit:
        return FeedPage(events, events[-1][0], more=True)
    return FeedPage(events, replace(position, until=time, expired_id="") if time > position.until else position)


def _reader(scope: Scope) -> dict[str, Any]:
    """Give the parameters of `review_visible`."""
    return {
        "tenant": scope.tenant,
        "all": AUDITOR in scope.roles,
        "user": scope.user,
        "chain": list(scope.chain),
        "groups": reviewer_groups(scope),
    }
