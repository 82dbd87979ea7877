"""Settings of paths: set by a tenant-admin, seen by everyone who may read there."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import InvalidField, InvalidPageToken, LimitExceeded
from memoryos_core.paging import PageTokens
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.drafts import etag_of
from memoryos_memoryfs.domain.settings import (
    NOTHING_STATED,
    SETTINGS_MAX,
    Holding,
    PathSettings,
    decode_settings,
    encode_settings,
    merged,
)
from memoryos_memoryfs.errors import EtagMismatch
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.namespace import Stated
from memoryos_memoryfs.ports.storage import Work

SET: Final = "memoryos.memoryfs.v1.MemoryFS/SetPathSettings"
_GET: Final = "memoryos.memoryfs.v1.MemoryFS/GetPathSettings"
_LIST: Final = "memoryos.memoryfs.v1.MemoryFS/ListPathSettings"
PAGE_SIZE_DEFAULT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsCommand:
    """A parsed SetPathSettings. `body` is the request as sent, for comparing retries."""

    path: MemoryPath
    given: PathSettings
    parts: frozenset[str]
    if_match: str
    request_id: str
    body: bytes


async def set_path_settings(parts: Parts, scope: Scope, command: SettingsCommand) -> Stated:
    """Give what the path states now; it holds for the next call on every process.

    Items that are there stay as they are. Raises `PathNotAllowed`, `EtagMismatch`,
    and `LimitExceeded` beyond so many paths with settings.
    """
    access.check_write(scope, command.path)
    if not command.parts:
        raise InvalidField.of("settings", "states no part")
    async with (
        recorded(parts, SET, scope, command.path, []),
        parts.storage.transaction(scope) as work,
    ):
        answer = await work.journal.replay(SET, command.request_id, command.body)
        if answer is not None:
            return _decode(command.path, answer)
        await work.settings.lock()
        stated = await _next(parts, work, command)
        await work.settings.keep(stated)
        await work.journal.audit(SET, command.path, [])
        await work.journal.keep(SET, command.request_id, _encode(stated))
        crash_point("memoryfs.settings.before_commit")
    return stated


def _encode(stated: Stated) -> bytes:
    return json.dumps([stated.etag, stated.update_time.isoformat(), encode_settings(stated.settings)]).encode()


def _decode(path: MemoryPath, answer: bytes) -> Stated:
    etag, set_time, values = json.loads(answer)
    return Stated(path=path, settings=decode_settings(values), etag=etag, update_time=datetime.fromisoformat(set_time))


async def _next(parts: Parts, work: Work, command: SettingsCommand) -> Stated:
    before = await work.settings.stated(command.path)
    if command.if_match and (before is None or before.etag != command.if_match):
        raise EtagMismatch
    if before is None and await work.settings.count() >= SETTINGS_MAX:
        raise LimitExceeded(metadata={"limit": "settings_max", "max": str(SETTINGS_MAX)})
    now = parts.clock.now()
    settings = merged(before.settings if before else NOTHING_STATED, command.given, command.parts)
    # Two changes in one instant still have two etags.
    etag = etag_of(f"{command.path}/{before.etag if before else ''}", 0, now)
    return Stated(path=command.path, settings=settings, etag=etag, update_time=now)


async def get_path_settings(parts: Parts, scope: Scope, path: MemoryPath) -> tuple[Stated | None, Holding]:
    """Give what a path states itself, and what holds there."""
    access.check_read(scope, path)
    async with parts.storage.transaction(scope) as work:
        found = await work.settings.stated(path), await work.settings.of(path)
    await parts.trail.record(_GET, scope, path, [])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsQuery:
    """A parsed ListPathSettings. `binding` is the request without its page fields."""

    path: MemoryPath
    page_size: int
    page_token: str
    binding: bytes


async def list_path_settings(parts: Parts, scope: Scope, query: SettingsQuery) -> tuple[list[Stated], str]:
    """Give what a path and those below it state, by name, and where the next page begins."""
    access.check_read(scope, query.path)
    tokens = PageTokens(await parts.storage.page_secret(scope))
    position = tokens.decode(scope, _LIST, query.binding, query.page_token)
    size = query.page_size or PAGE_SIZE_DEFAULT
    async with parts.storage.transaction(scope) as work:
        stated = await work.settings.below(query.path)
    # Rows stay when a path states nothing any more, so that the place where a page ended is found again.
    start = 0 if position is None else _after(stated, position)
    found = [one for one in stated[start:] if not one.settings.empty and query.path.contains(one.path)]
    page = found[:size]
    token = tokens.encode(scope, _LIST, query.binding, (_name(page[-1]),)) if len(found) > size else ""
    await parts.trail.record(_LIST, scope, query.path, [])
    return page, token


def _name(stated: Stated) -> str:
    """Give what a page token says of the last path: it may be longer than a token."""
    return hashlib.blake2b(str(stated.path).encode(), digest_size=16).hexdigest()


def _after(stated: list[Stated], position: tuple[str | int, ...]) -> int:
    for n, one in enumerate(stated):
        if position == (_name(one),):
            return n + 1
    raise InvalidPageToken
