"""Forget by filter: first how many and a token, then exactly those."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import InvalidPageToken
from memoryos_core.paging import PageTokens
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.filters import Filter
from memoryos_memoryfs.domain.items import Cause, State
from memoryos_memoryfs.errors import PreviewStale
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import Work

_FORGET: Final = "memoryos.memoryfs.v1.MemoryFS/Forget"
PREVIEW_LIFE: Final = timedelta(hours=1)
_CHUNK: Final = 500
"""Items moved in one statement; all of them in one transaction."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingItems:
    """A parsed Forget with a filter. `binding` are path and filter, which the token is bound to."""

    path: MemoryPath
    where: Filter
    binding: bytes
    preview_token: str
    request_id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Preview:
    """How many items the filter meets, and the token to forget exactly these."""

    matched_count: int
    token: str


async def preview_forgetting(parts: Parts, scope: Scope, command: MatchingItems) -> Preview:
    """Give how many of the caller's items below the path meet the filter; nothing is changed.

    All of them count, whatever their number and state; forgotten and expired ones do not.
    """
    _check(scope, command.path)
    tokens = PageTokens(await parts.storage.page_secret(scope))
    async with parts.storage.transaction(scope) as work:
        view = await work.own.view()
        found = await work.own.matching(command.path, command.where, view)
        await work.journal.audit(_FORGET, command.path, [])
    end = int((parts.clock.now() + PREVIEW_LIFE - _EPOCH).total_seconds())
    position = (end, len(found), _digest(found), view)
    return Preview(len(found), tokens.encode(scope, _FORGET, command.binding, position))


async def forget_matching(parts: Parts, scope: Scope, command: MatchingItems) -> int:
    """Give the number of items forgotten: exactly those that were previewed.

    What was written since the preview stays. Raises `PreviewStale`, and forgets nothing, when
    one of the previewed items has changed or gone, or the token is old, another caller's, or of
    another path or filter.
    """
    _check(scope, command.path)
    secret = await parts.storage.page_secret(scope)
    async with (
        recorded(parts, _FORGET, scope, command.path, []),
        parts.storage.transaction(scope) as work,
    ):
        answer = await work.journal.replay(_FORGET, command.request_id, command.body)
        if answer is not None:
            return int(answer)
        view, previewed = _previewed(PageTokens(secret), scope, command, parts.clock.now())
        found = await work.own.matching(command.path, command.where, view)
        if _digest(found) != previewed:
            raise PreviewStale
        for start in range(0, len(found), _CHUNK):
            await _forget(work, found[start : start + _CHUNK])
        ids = [item_id for item_id, _ in found]
        await work.journal.audit(_FORGET, command.path, ids)
        await work.journal.keep(_FORGET, command.request_id, str(len(ids)).encode())
        crash_point("memoryfs.forget.before_commit")
    return len(ids)


async def _forget(work: Work, found: Sequence[tuple[str, str]]) -> None:
    """Forget these; raises PreviewStale when one of them has changed before its row was locked."""
    locked = await work.items.lock([item_id for item_id, _ in found])
    for item_id, etag in found:
        item = locked.get(item_id)
        if item is None or item.etag != etag or item.state is State.FORGOTTEN:
            raise PreviewStale
    await work.items.set_state(list(locked.values()), State.FORGOTTEN, Cause.FORGET)


def _check(scope: Scope, path: MemoryPath) -> None:
    access.check_write(scope, path)
    access.check_read(scope, path)


def _digest(found: Sequence[tuple[str, str]]) -> str:
    return hashlib.sha256("\n".join(f"{item_id} {etag}" for item_id, etag in found).encode()).hexdigest()


def _previewed(tokens: PageTokens, scope: Scope, command: MatchingItems, now: datetime) -> tuple[str, str]:
    """Give the view and the digest of the preview; raises PreviewStale where the token is no good."""
    try:
        position = tokens.decode(scope, _FORGET, command.binding, command.preview_token)
    except InvalidPageToken:
        raise PreviewStale from None
    if position is None or len(position) != 4:
        raise PreviewStale
    end, _, digest, view = position
    if not isinstance(end, int) or _EPOCH + timedelta(seconds=end) <= now:
        raise PreviewStale
    return str(view), str(digest)
