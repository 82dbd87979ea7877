"""Merge: several items become one more abstract item; they are superseded, and the lineage is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import InvalidField
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_core.search_words import text_tokens

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.derivation import Abstract, merged_item, superseded
from memoryos_memoryfs.domain.drafts import Moment
from memoryos_memoryfs.domain.items import Cause, EmbedState, Item, State, Trust
from memoryos_memoryfs.errors import AbstractUnavailable, ItemNotFound, ItemStateForbids, NotOwner
from memoryos_memoryfs.operations.embed_texts import embed_texts
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.operations.settle_entries import note_new, plan_of
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import Revised, Work, Written

RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Merge"
JOB_KIND: Final = "memory.merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCommand:
    """A parsed Merge. `body` is the request as sent, for comparing retries."""

    path: MemoryPath
    ids: tuple[str, ...]
    abstract: Abstract
    """Without content: a model is to write it."""
    request_id: str
    body: bytes
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Merged:
    """The new item, or the job that makes it."""

    item: Item | None = None
    job_id: str = ""


async def merge_items(parts: Parts, scope: Scope, command: MergeCommand) -> Merged:
    """Give the item that stands for several, or the job that lets a model write its text.

    All sources have to be active, readable below the path and the caller's to
    change: `ItemNotFound`, `NotOwner`, `ItemStateForbids` (one was merged or
    replaced before), and nothing has changed. `AclEmpty` when nobody may read
    them all, `AbstractUnavailable` without text and without a model. See
    domain/derivation.py for what the new item takes over. One that falls below
    the gate of its path is a candidate, and its sources stay as they are.
    """
    access.check_write(scope, command.path)
    if len(set(command.ids)) < 2:
        raise InvalidField.of("ids", "at least two different items are needed")
    holding = await parts.storage.holding(scope, command.path)
    holding.check_writer(scope)
    if not command.abstract.content:
        return await _start_job(parts, scope, command)
    vectors = await embed_texts(parts, [command.abstract.content], command.deadline_s)
    await parts.storage.prepare(scope, command.path, sorted(holding.default_readers or ()), [])
    moment = Moment(scope=scope, path=command.path, now=parts.clock.now(), new_id=parts.ids.new, holding=holding)
    async with (
        recorded(parts, RPC, scope, command.path, command.ids),
        parts.storage.transaction(scope) as work,
    ):
        answer = await work.journal.replay(RPC, command.request_id, command.body)
        if answer is not None:
            return await _as_answered(work, scope, answer)
        sources = await _sources(parts, work, scope, command)
        item = merged_item(sources, command.abstract, moment)
        if await work.seen.tainted():
            item = replace(item, trust=Trust.UNTRUSTED)
        if vectors is not None:
            item = replace(item, embed_state=EmbedState.DONE, embedding_model=parts.embedder.model_id)
        words = text_tokens(item.payload.content)
        await work.items.add([Written(item=item, words=words, vector=vectors[0] if vectors else None)], Cause.MERGE)
        await note_new(work, plan_of({0: item}, merge=True), {0: item}, {0: None})
        if item.state is State.ACTIVE:
            await work.items.revise([_superseded(source, item) for source in sources], Cause.SUPERSEDE)
        await work.journal.audit(RPC, command.path, [item.id, *(source.id for source in sources)])
        await work.journal.keep(RPC, command.request_id, json.dumps({"item": item.id}).encode())
        work.seen.gives([item])
        crash_point("memoryfs.merge.before_commit")
    return Merged(item=item)


async def _start_job(parts: Parts, scope: Scope, command: MergeCommand) -> Merged:
    """Begin the job that asks the model, once the sources are known to be mergeable."""
    if parts.chat is None:
        raise AbstractUnavailable
    async with (
        recorded(parts, RPC, scope, command.path, command.ids),
        parts.storage.transaction(scope) as work,
    ):
        answer = await work.journal.replay(RPC, command.request_id, command.body)
        if answer is not None:
            return await _as_answered(work, scope, answer)
        sources = await _sources(parts, work, scope, command)
        job_id = await work.jobs.start(JOB_KIND, command.body)
        await work.journal.audit(RPC, command.path, [source.id for source in sources])
        await work.journal.keep(RPC, command.request_id, json.dumps({"job": job_id}).encode())
    return Merged(job_id=job_id)


async def _sources(parts: Parts, work: Work, scope: Scope, command: MergeCommand) -> list[Item]:
    """Give the sources in the order asked for, locked; all must be active and the caller's to change."""
    ids = list(dict.fromkeys(command.ids))
    locked = await work.items.lock(sorted(ids))
    missing = [item_id for item_id in ids if item_id not in locked]
    seen = {**locked, **(await work.items.find(missing))}
    now = parts.clock.now()
    for item_id in ids:
        item = seen.get(item_id)
        below = item is not None and command.path.contains(item.path) and access.visible(scope, item)
        if item is None or not below or item.expired(now):
            raise ItemNotFound
    if missing:
        raise NotOwner(metadata={"id": missing[0]})
    for item_id in ids:
        if locked[item_id].state is not State.ACTIVE:
            raise ItemStateForbids(metadata={"id": item_id, "state": locked[item_id].state.name})
    return [locked[item_id] for item_id in ids]


async def sources_to_read(parts: Parts, scope: Scope, command: MergeCommand) -> list[Item]:
    """Give the sources of a merge as its caller may read them now; raises as `merge_items` does."""
    async with parts.storage.transaction(scope) as work:
        return await _sources(parts, work, scope, command)


def _superseded(source: Item, by: Item) -> Revised:
    after = superseded(source, by.id, by.create_time)
    return Revised(before=source, after=Written(item=after, words={}, vector=None), keep_vector=True)


async def _as_answered(work: Work, scope: Scope, answer: bytes) -> Merged:
    """Give what this request_id was answered, with the item as it is now."""
    kept = json.loads(answer)
    if "job" in kept:
        return Merged(job_id=kept["job"])
    item = (await work.items.find([kept["item"]])).get(kept["item"])
    if item is None or not access.visible(scope, item):
        raise ItemNotFound
    work.seen.gives([item])
    return Merged(item=item)


def texts_of(sources: Sequence[Item]) -> str:
    """Give the texts of the sources, oldest first, as a model is asked to read them."""
    ordered = sorted(sources, key=lambda item: (item.valid_from, item.id))
    return json.dumps([item.payload.content for item in ordered], ensure_ascii=False)
