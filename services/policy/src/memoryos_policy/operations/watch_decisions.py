"""Watch decisions as they are kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from memoryos_core.clock import Clock
from memoryos_core.errors import InvalidPageToken
from memoryos_core.feed import NoNews, follow
from memoryos_core.paging import PageTokens, Position
from memoryos_core.scope import Scope

from memoryos_policy.domain.decisions import SEES_ALL, Decision
from memoryos_policy.domain.verdicts import Effect
from memoryos_policy.errors import InputsForAuditors
from memoryos_policy.ports import DecisionLog, FeedPosition

PAGE_SIZE: Final = 100
QUIET_S: Final = 0.5
"""How often a quiet feed is asked; each asking is one short transaction."""
HEARTBEAT_S: Final = 15.0
_METHOD: Final = "memoryos.policy.v1.Policy/WatchDecisions"


async def watch_decisions(
    log: DecisionLog, clock: Clock, scope: Scope, effect: Effect | None, position: str
) -> AsyncGenerator[tuple[Decision | None, str], None]:
    """Give every decision of the tenant behind a position, and the position behind it, until the caller leaves.

    Without a position: from now on. No decision: the feed says how far it has
    come. Whoever comes back with the last position misses nothing and sees
    nothing twice. A position is good for its caller and effect only.
    """
    if not scope.roles & SEES_ALL:
        raise InputsForAuditors
    tokens, binding = PageTokens(await log.page_secret(scope)), (effect or "").encode()
    start = _position(tokens.decode(scope, _METHOD, binding, position)) or await log.now(scope)

    def token(at: FeedPosition) -> str:
        return tokens.encode(scope, _METHOD, binding, tuple(at))

    yield None, token(start)
    told = clock.monotonic()
    async for page in follow(lambda at: log.after(scope, effect, at, PAGE_SIZE), start, news=NoNews(), quiet_s=QUIET_S):
        for at, decision in page.events:
            yield decision.seen_by(scope), token(at)
        if page.events:
            told = clock.monotonic()
        elif clock.monotonic() - told >= HEARTBEAT_S:
            yield None, token(page.position)
            told = clock.monotonic()


def _position(decoded: Position | None) -> FeedPosition | None:
    if decoded is None:
        return None
    match decoded:
        case (int(xid), str(decision_id)):
            return FeedPosition(xid, decision_id)
    raise InvalidPageToken
