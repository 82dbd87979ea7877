"""Watch reviews as they open, are voted on and end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Final

from memoryos_core.clock import Clock
from memoryos_core.errors import InvalidPageToken
from memoryos_core.feed import NoNews, follow
from memoryos_core.paging import PageTokens, Position
from memoryos_core.scope import Scope

from memoryos_policy.domain.reviews import Review, seen_by, visible
from memoryos_policy.ports import ReviewLog, ReviewPosition

PAGE_SIZE: Final = 100
QUIET_S: Final = 0.5
"""How often a quiet feed is asked; each asking is one short transaction."""
HEARTBEAT_S: Final = 15.0
_METHOD: Final = "memoryos.policy.v1.Reviews/WatchReviews"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def watch_reviews(
    log: ReviewLog, clock: Clock, scope: Scope, position: str
) -> AsyncGenerator[tuple[Review | None, str], None]:
    """Give reviews that the reader may know of as they change, each with the position behind it, until it leaves.

    Without a position: first what is pending now. No review: the feed says how
    far it has come. Each comes as it stands, so two votes in one moment may be
    told once; whoever comes back with the last position misses no change. A
    position is good for its caller only.
    """
    tokens = PageTokens(await log.page_secret(scope))
    start = _position(tokens.decode(scope, _METHOD, b"", position)) or await log.now(scope)

    def token(at: ReviewPosition) -> str:
        return tokens.encode(scope, _METHOD, b"", _encoded(at))

    yield None, token(start)
    told = clock.monotonic()
    async for page in follow(lambda at: log.after(scope, at, PAGE_SIZE), start, news=NoNews(), quiet_s=QUIET_S):
        for at, review in page.events:
            if visible(review, scope):
                yield seen_by(review, scope), token(at)
                told = clock.monotonic()
        if clock.monotonic() - told >= HEARTBEAT_S:
            yield None, token(page.position)
            told = clock.monotonic()


def _encoded(at: ReviewPosition) -> Position:
    microseconds = (at.until - _EPOCH) // timedelta(microseconds=1)
    return (at.xid, microseconds, int(at.listing), at.review_id, at.expired_id)


def _position(decoded: Position | None) -> ReviewPosition | None:
    if decoded is None:
        return None
    match decoded:
        case (int(xid), int(microseconds), int(listing), str(review_id), str(expired_id)):
            return ReviewPosition(
                xid=xid,
                until=_EPOCH + timedelta(microseconds=microseconds),
                listing=bool(listing),
                review_id=review_id,
                expired_id=expired_id,
            )
    raise InvalidPageToken
