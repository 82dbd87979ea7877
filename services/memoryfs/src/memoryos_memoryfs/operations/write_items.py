"""Write: one or many items in one transaction, all or none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import InvalidField, MemoryOSError
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.drafts import Draft, Moment, changed_item, new_item
from memoryos_memoryfs.domain.items import EmbedState, Item, State
from memoryos_memoryfs.domain.tokens import item_tokens
from memoryos_memoryfs.errors import EtagMismatch, ItemNotFound, ItemStateForbids, NotOwner
from memoryos_memoryfs.operations.embed_texts import embed_drafts
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports import RequestAnswered, Revised, Vector, Work, Written

RPC = "memoryos.memoryfs.v1.MemoryFS/Write"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCommand:
    """A parsed Write. `body` is the request as sent, for comparing retries."""

    path: MemoryPath
    drafts: tuple[Draft, ...]
    request_id: str
    body: bytes
    deadline_s: float


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of one entry."""

    id: str
    revision: int
    etag: str
    state: State
    embed_state: EmbedState

    @property
    def gated(self) -> bool:
        """Tell whether the confidence gate held it back."""
        return self.state is State.CANDIDATE


async def write_items(parts: Parts, scope: Scope, command: WriteCommand) -> list[WriteResult]:
    """Give what became of each entry, in order, once all of them are kept.

    Vectors are made before the transaction begins. When the embedder is down
    the items are kept all the same, PENDING, and found by words until the
    worker has embedded them; when it is busy the call is refused (`EmbedderBusy`).
    A request_id that was answered before gets the same answer, whatever has
    changed since. Raises `PathNotAllowed`, `ReadersTooWide`, `ItemNotFound`,
    `NotOwner`, `EtagMismatch`, `ItemStateForbids`, `EmbeddingMismatch`.
    """
    access.check_write(scope, command.path)
    _check_ids(command.drafts)
    moment = Moment(scope=scope, path=command.path, now=parts.clock.now(), new_id=parts.ids.new)
    try:
        created = {n: new_item(draft, moment) for n, draft in enumerate(command.drafts) if not draft.id}
        vectors = await embed_drafts(parts, command.drafts, command.deadline_s)
    except MemoryOSError as error:
        # A retry of an answered call gets its answer even where the same words would be refused now.
        return await _answered(parts, scope, command, error)
    readers = {reader for draft in command.drafts for reader in draft.readers}
    subjects = {draft.user for draft in command.drafts if draft.user}
    await parts.storage.prepare(scope, command.path, sorted(readers), sorted(subjects))
    if len(created) == len(command.drafts):
        items = [_written(parts, item, vectors[n]) for n, item in created.items()]
        return await _write_new(parts, scope, command, items)
    named = [draft.id for draft in command.drafts if draft.id]
    async with (
        recorded(parts, RPC, scope, command.path, named),
        parts.storage.transaction(scope) as work,
    ):
        answer = await work.journal.replay(RPC, command.request_id, command.body)
        if answer is not None:
            return _decode(answer)
        added = {n: _written(parts, item, vectors[n]) for n, item in created.items()}
        revised = await _revisions(parts, work, command, moment, vectors)
        await work.items.add(list(added.values()))
        await work.items.revise(list(revised.values()))
        after = {**added, **{n: change.after for n, change in revised.items()}}
        results = [_result(after[n].item) for n in range(len(command.drafts))]
        await work.journal.audit(RPC, command.path, [result.id for result in results])
        await work.journal.keep(RPC, command.request_id, _encode(results))
        crash_point("memoryfs.write.before_commit")
    crash_point("memoryfs.write.after_commit")
    return results


async def _write_new(parts: Parts, scope: Scope, command: WriteCommand, items: Sequence[Written]) -> list[WriteResult]:
    """Keep new items only: nothing has to be looked up first, so everything travels together."""
    results = [_result(written.item) for written in items]
    try:
        async with parts.storage.transaction(scope) as work:
            await work.journal.claim(RPC, command.request_id, command.body, _encode(results))
            await work.items.add(items)
            await work.journal.audit(RPC, command.path, [result.id for result in results])
            crash_point("memoryfs.write.before_commit")
    except RequestAnswered as error:
        return await _answered(parts, scope, command, error)
    crash_point("memoryfs.write.after_commit")
    return results


async def _answered(parts: Parts, scope: Scope, command: WriteCommand, error: Exception) -> list[WriteResult]:
    """Give the answer this request_id had before; without one, raise `error`."""
    async with parts.storage.transaction(scope) as work:
        answer = await work.journal.replay(RPC, command.request_id, command.body)
        if answer is None:
            raise error  # rolls the new row back
    return _decode(answer)


def _check_ids(drafts: Sequence[Draft]) -> None:
    ids = [draft.id for draft in drafts if draft.id]
    if len(set(ids)) != len(ids):
        raise InvalidField.of("entries", "an id is there twice")


async def _revisions(
    parts: Parts, work: Work, command: WriteCommand, moment: Moment, vectors: Sequence[Vector | None]
) -> dict[int, Revised]:
    """Give the next revision of every item that is named, by place in the call, its rows locked."""
    ids = [draft.id for draft in command.drafts if draft.id]
    if not ids:
        return {}
    locked = await work.items.lock(ids)
    missing = [item_id for item_id in ids if item_id not in locked]
    if missing:
        seen = await work.items.find(missing)
        if all(_updatable(moment, seen.get(item_id)) for item_id in missing):
            raise NotOwner(metadata={"id": missing[0]})
        raise ItemNotFound
    revised: dict[int, Revised] = {}
    for n, draft in enumerate(command.drafts):
        if not draft.id:
            continue
        before = locked[draft.id]
        if not _updatable(moment, before):
            raise ItemNotFound
        if before.state is State.SUPERSEDED:
            raise ItemStateForbids(metadata={"id": before.id, "state": before.state.name})
        if draft.if_match and draft.if_match != before.etag:
            raise EtagMismatch(metadata={"id": before.id})
        after = changed_item(before, draft, moment)
        same_words = after.payload.content == before.payload.content
        written = _written(parts, after, vectors[n])
        revised[n] = Revised(before=before, after=written, keep_vector=same_words and vectors[n] is None)
    return revised


def _updatable(moment: Moment, item: Item | None) -> bool:
    """Tell whether the caller sees the item below the path of the call."""
    return (
        item is not None
        and moment.path.contains(item.path)
        and access.visible(moment.scope, item)
        and not item.expired(moment.now)
    )


def _written(parts: Parts, item: Item, vector: Vector | None) -> Written:
    if vector is not None:
        item = replace(item, embed_state=EmbedState.DONE, embedding_model=parts.embedder.model_id)
    return Written(item=item, words=item_tokens(item.payload.content), vector=vector)


def _result(item: Item) -> WriteResult:
    return WriteResult(item.id, item.revision, item.etag, item.state, item.embed_state)


def _encode(results: Sequence[WriteResult]) -> bytes:
    return json.dumps([[r.id, r.revision, r.etag, r.state, r.embed_state] for r in results]).encode()


def _decode(answer: bytes) -> list[WriteResult]:
    return [WriteResult(i, r, e, State(s), EmbedState(m)) for i, r, e, s, m in json.loads(answer)]
