"""Import: items of an export, with their ids, one part at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from itertools import pairwise
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import NotAllowed
from memoryos_core.ids import is_id
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_core.search_words import text_tokens
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.drafts import etag_of
from memoryos_memoryfs.domain.item_lines import line_of
from memoryos_memoryfs.domain.items import ITEM_ID_PREFIX, Cause, EmbedState, Item, State, Trust
from memoryos_memoryfs.domain.settings import Holding
from memoryos_memoryfs.errors import AlreadyExists, ImportCorrupt, NotOwner
from memoryos_memoryfs.operations.embed_texts import given_vectors
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import IdTaken, Revised, Work, Written
from memoryos_memoryfs.ports.transfer import PastItem

_TURN_LINES: Final = 200
"""Lines of which the words are taken between two turns of other calls, some 5 ms."""
_RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Import"


class Conflict(IntEnum):
    """What becomes of an id that is there; numbers of the proto."""

    SKIP_EQUAL = 1
    REPLACE = 2


@dataclass(frozen=True, slots=True)
class ImportLine:
    """A line of the part: an item as its file has it, and its vector."""

    item: Item
    vector: Vector | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCommand:
    """A parsed part. `body` is the request as sent, for comparing retries."""

    path: MemoryPath
    from_path: MemoryPath
    conflict: Conflict
    embedding_model: str
    request_id: str
    body: bytes
    lines: Sequence[ImportLine]
    """Several of one id are its revisions, oldest first."""


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """What became of the items of a part."""

    created: int = 0
    replaced: int = 0
    skipped: int = 0
    pending: int = 0


async def import_items(parts: Parts, scope: Scope, command: ImportCommand) -> ImportCounts:
    """Give what became of the items, once the whole part is kept.

    A person imports what is its own, a tenant-admin also for other owners; an
    agent never does. Ids, revisions, times and states stay; places move from
    below the exported path to below the command's. Vectors of another model
    than the index's are made anew. Raises `ImportCorrupt`, `NotOwner`,
    `ReadersTooWide`, `AlreadyExists` (an id is there as another item); nothing
    of the part is kept then.
    """
    access.check_write(scope, command.path)
    if scope.chain:
        raise NotAllowed("Agents do not import.")
    lines = [_moved(command, line) for line in command.lines]
    await _check(parts, scope, [line.item for line in lines])
    writer = _writer(scope, {line.item.owner for line in lines})
    await _prepare(parts, writer, [line.item for line in lines])
    try:
        return await _import(parts, scope, writer, command, lines)
    except IdTaken:
        pass  # by another import in this instant: then it is seen now; or by an item of others
    try:
        return await _import(parts, scope, writer, command, lines)
    except IdTaken:
        raise AlreadyExists from None


async def _import(
    parts: Parts, scope: Scope, writer: Scope, command: ImportCommand, lines: Sequence[ImportLine]
) -> ImportCounts:
    ids = list(dict.fromkeys(line.item.id for line in lines))
    async with recorded(parts, _RPC, scope, command.path, ids), parts.storage.transaction(writer) as work:
        answer = await work.journal.replay(_RPC, command.request_id, command.body)
        if answer is not None:
            return ImportCounts(*json.loads(answer))
        counts = await _keep(parts, work, command, await _written(parts, command, lines))
        await work.journal.audit(_RPC, command.path, ids)
        values = [counts.created, counts.replaced, counts.skipped, counts.pending]
        await work.journal.keep(_RPC, command.request_id, json.dumps(values).encode())
        crash_point("memoryfs.import.before_commit")
    return counts


def _moved(command: ImportCommand, line: ImportLine) -> ImportLine:
    item = line.item
    if not command.from_path.contains(item.path):
        raise ImportCorrupt("A line lies outside the exported path.", metadata={"id": item.id})
    if command.path == command.from_path:
        return line
    below = item.path.segments[len(command.from_path.segments) :]
    path = MemoryPath.parse("/".join((str(command.path), *below)))
    if path == item.path:
        return line
    return replace(line, item=replace(item, payload=replace(item.payload, path=path)))


async def _check(parts: Parts, scope: Scope, items: Sequence[Item]) -> None:
    """Refuse what no export holds, and what the caller could not write there; an administrator restores as it was."""
    admin = access.WIDE_ROLE in scope.roles
    holdings: dict[MemoryPath, Holding] = {}
    for item in items:
        if not is_id(item.id, ITEM_ID_PREFIX) or item.state is State.FORGOTTEN or item.revision < 1:
            raise ImportCorrupt("A line is no item that an export holds.")
        if item.owner != access.owner_of(scope) and not admin:
            raise NotOwner(metadata={"id": item.id})
        if admin:
            continue
        if item.path not in holdings:
            holdings[item.path] = await parts.storage.holding(scope, item.path)
            holdings[item.path].check_writer(scope)
        holdings[item.path].check_readers(scope, item.readers)


def _writer(scope: Scope, owners: set[str]) -> Scope:
    """Give the scope in which rows are made: a tenant-admin's reaches the owners of this part, and no one else."""
    missing = sorted(owners - set(scope.principals))
    return replace(scope, principals=(*scope.principals, *missing)) if missing else scope


async def _prepare(parts: Parts, scope: Scope, items: Sequence[Item]) -> None:
    principals = sorted({item.owner for item in items}.union(*(item.readers for item in items)))
    subjects = sorted({item.data_subject for item in items})
    for path in sorted({item.path for item in items}, key=str):
        await parts.storage.prepare(scope, path, principals, subjects)


async def _written(parts: Parts, command: ImportCommand, lines: Sequence[ImportLine]) -> dict[str, list[Written]]:
    """Give the revisions of every id, oldest first; a later one that is no later refuses the part."""
    usable = command.embedding_model == parts.embedder.model_id
    given = [line.vector for line in lines if line.vector is not None and usable]
    checked = iter(given_vectors(parts, [command.embedding_model] * len(given), given))
    revisions: dict[str, list[Written]] = {}
    for number, line in enumerate(lines, start=1):
        if number % _TURN_LINES == 0:
            await asyncio.sleep(0)
        vector = next(checked) if line.vector is not None and usable else None
        item = line.item
        state = EmbedState.PENDING if vector is None else EmbedState.DONE
        model = "" if vector is None else parts.embedder.model_id
        if (item.embed_state, item.embedding_model) != (state, model):
            item = replace(item, embed_state=state, embedding_model=model)
        of_item = revisions.setdefault(item.id, [])
        if of_item and of_item[-1].item.revision >= item.revision:
            raise ImportCorrupt("The revisions of an item are not in order.", metadata={"id": item.id})
        of_item.append(Written(item=item, words=text_tokens(item.payload.content), vector=vector))
    return revisions


async def _keep(
    parts: Parts, work: Work, command: ImportCommand, revisions: Mapping[str, Sequence[Written]]
) -> ImportCounts:
    if await work.seen.tainted():
        revisions = {item_id: [_untrusted(one) for one in of_item] for item_id, of_item in revisions.items()}
    newest = {item_id: of_item[-1] for item_id, of_item in revisions.items()}
    there = await work.items.lock(list(newest))
    skipped = {item_id for item_id, before in there.items() if _same(before, newest[item_id].item)}
    replaced = sorted(set(there) - skipped)
    if replaced and command.conflict is not Conflict.REPLACE:
        raise AlreadyExists(metadata={"id": replaced[0]})
    created = [item_id for item_id in newest if item_id not in there]
    await work.past.add(
        [
            (PastItem(earlier.item, earlier.vector), later.item.update_time)
            for item_id in created
            for earlier, later in pairwise(revisions[item_id])
        ]
    )
    await work.items.add([newest[item_id] for item_id in created], Cause.IMPORT)
    now = parts.clock.now()
    await work.items.revise([_next(there[item_id], newest[item_id], now) for item_id in replaced], Cause.IMPORT)
    kept = [newest[item_id] for item_id in (*created, *replaced)]
    return ImportCounts(
        created=len(created),
        replaced=len(replaced),
        skipped=len(skipped),
        pending=sum(w.vector is None and w.item.state is State.ACTIVE for w in kept),
    )


def _untrusted(written: Written) -> Written:
    return replace(written, item=replace(written.item, trust=Trust.UNTRUSTED))


def _same(before: Item, after: Item) -> bool:
    """Tell whether an item is there just as the line has it."""
    return line_of(before) == line_of(after)


def _next(before: Item, written: Written, now: datetime) -> Revised:
    revision = before.revision + 1
    item = replace(
        written.item,
        owner=before.owner,
        create_time=before.create_time,
        update_time=now,
        revision=revision,
        etag=etag_of(before.id, revision, now),
    )
    return Revised(before=before, after=replace(written, item=item), keep_vector=False)
