"""Write: one or many items in one transaction, all or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import InvalidField, MemoryOSError
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_core.search_words import text_tokens
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.drafts import Draft, Moment, asked_end, changed_item, new_item
from memoryos_memoryfs.domain.items import EmbedState, Item, State
from memoryos_memoryfs.domain.settings import Holding
from memoryos_memoryfs.errors import EtagMismatch, ItemNotFound, NotOwner, NotWriter, ReadersTooWide
from memoryos_memoryfs.operations.embed_texts import embed_drafts
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.operations.settle_entries import (
    FurtherEventsMet,
    Outcome,
    Plan,
    Settling,
    ids_met,
    keep_settled,
    meet,
    note_new,
    plan_of,
)
from memoryos_memoryfs.operations.write_results import WriteResult, decode_results, encode_results
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import RequestAnswered, Revised, SettingsChanged, Work, Written

RPC = "memoryos.memoryfs.v1.MemoryFS/Write"
TRIES_MAX: Final = 4
"""Times that a Write begins anew because settings changed under it."""
MERGED_MAX: Final = 8
"""Entries of a call up to which re-statements are looked for unless it says otherwise: what a turn of talk gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCommand:
    """A parsed Write. `body` is the request as sent, for comparing retries."""

    path: MemoryPath
    drafts: tuple[Draft, ...]
    request_id: str
    body: bytes
    deadline_s: float
    merge: bool | None = None
    """Whether a re-statement corroborates; None: up to `MERGED_MAX` entries."""

    @property
    def merges(self) -> bool:
        """Tell whether re-statements are looked for."""
        return len(self.drafts) <= MERGED_MAX if self.merge is None else self.merge


async def write_items(parts: Parts, scope: Scope, command: WriteCommand) -> list[WriteResult]:
    """Give what became of each entry, in order, once all of them are kept.

    Vectors are made before the transaction begins. When the embedder is down
    the items are kept all the same, PENDING, and found by words until the
    worker has embedded them; when it is busy the call is refused (`EmbedderBusy`).
    A request_id that was answered before gets the same answer, whatever has
    changed since. Raises `PathNotAllowed`, `NotWriter`, `ReadersTooWide`,
    `QuotaExceeded`, `ItemNotFound`, `NotOwner`, `EtagMismatch`, `EmbeddingMismatch`.
    """
    access.check_write(scope, command.path)
    _check_ids(command.drafts)
    holding = await parts.storage.known_holding(scope, command.path)
    tries = 1
    while True:
        try:
            return await _write(parts, scope, command, holding)
        except (SettingsChanged, NotWriter, ReadersTooWide):
            # What this process knew of the path may be of before; nothing was kept.
            known, holding = holding, await parts.storage.holding(scope, command.path)
            if tries == TRIES_MAX or holding.version == known.version:
                raise
            tries += 1


async def _write(parts: Parts, scope: Scope, command: WriteCommand, holding: Holding) -> list[WriteResult]:
    moment = Moment(
        scope=scope,
        path=command.path,
        now=parts.clock.now(),
        new_id=parts.ids.new,
        holding=holding,
        model=parts.embedder.model_id,
    )
    try:
        created = {n: new_item(draft, moment) for n, draft in enumerate(command.drafts) if not draft.id}
        vectors = await embed_drafts(parts, command.drafts, command.deadline_s)
    except MemoryOSError as error:
        # A retry of an answered call gets its answer even where the same words would be refused now.
        return await _answered(parts, scope, command, error)
    readers = {reader for draft in command.drafts for reader in draft.readers}
    readers.update(holding.default_readers or () if created else ())
    subjects = {draft.user for draft in command.drafts if draft.user}
    await parts.storage.prepare(scope, command.path, sorted(readers), sorted(subjects))
    plan = plan_of(created, merge=command.merges)
    written = {n: _written(parts, item, vectors[n]) for n, item in created.items()}
    doubtful = any(item.state is State.CANDIDATE for item in created.values())
    asked = _Asked(command=command, moment=moment, plan=plan, written=written, vectors=vectors)
    simple = len(created) == len(command.drafts) and plan.empty and not doubtful
    while True:
        try:
            return await (_write_new if simple else _write_settled)(parts, scope, asked)
        except FurtherEventsMet as more:  # each time of more events; in the end the deadline of the call
            asked = replace(asked, plan=more.plan)
        except RequestAnswered as error:
            return await _answered(parts, scope, command, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A Write with everything that was made before its transaction."""

    command: WriteCommand
    moment: Moment
    plan: Plan
    written: Mapping[int, Written]
    vectors: Sequence[Vector | None]

    @property
    def created(self) -> dict[int, Item]:
        return {n: written.item for n, written in self.written.items()}

    @property
    def ends(self) -> dict[int, datetime | None]:
        """When each new item is to end, as its entry says."""
        return {n: asked_end(self.command.drafts[n], self.moment) for n in self.written}


async def _write_settled(parts: Parts, scope: Scope, asked: _Asked) -> list[WriteResult]:
    """Write among what is there: whoever says the same, or speaks of the same event, waits for this to end."""
    command = asked.command
    named = [draft.id for draft in command.drafts if draft.id]
    async with (
        recorded(parts, RPC, scope, command.path, named),
        parts.storage.transaction(scope) as work,
    ):
        met = await meet(work, asked.plan)
        if not named and not met.ids and asked.plan.distinct:
            results = [_result(written.item) for written in asked.written.values()]
            await work.journal.claim(RPC, command.request_id, command.body, encode_results(results))
            await work.items.add(list(asked.written.values()))
            await note_new(work, asked.plan, asked.created, asked.ends)
            work.settings.expect(asked.moment.holding)
        else:
            answer = await work.journal.replay(RPC, command.request_id, command.body)
            if answer is not None:
                return decode_results(answer)
            locked = await work.items.lock(ids_met(met, named))
            revised = await _revisions(parts, work, asked, locked)
            settled = await Settling(parts, work, asked.moment, asked.plan, met).settle(asked.created, locked, named)
            fresh = {settled_id: asked.written[n] for settled_id, n in settled.fresh.items()}
            final = await keep_settled(work, settled, locked, fresh, asked.moment.now)
            await work.items.revise(list(revised.values()))
            await work.claims.keep_lives(_lives_of(asked, revised))
            final.update((change.before.id, change.after.item) for change in revised.values())
            kept = {n: final[item_id] for item_id, n in settled.fresh.items()}
            await note_new(work, asked.plan, kept, asked.ends)
            work.settings.expect(asked.moment.holding)
            results = [
                _result(revised[n].after.item, Outcome.UPDATED)
                if n in revised
                else _result(final[settled.results[n][0]], settled.results[n][1], settled.superseded[n])
                for n in range(len(command.drafts))
            ]
            await work.journal.keep(RPC, command.request_id, encode_results(results))
        await work.journal.audit(RPC, command.path, list(dict.fromkeys(_touched(results))))
        crash_point("memoryfs.write.before_commit")
    crash_point("memoryfs.write.after_commit")
    return results


def _lives_of(asked: _Asked, revised: Mapping[int, Revised]) -> dict[str, datetime]:
    """Give when items that became candidates were to end, for the day on which they are promoted."""
    lives = {}
    for n, change in revised.items():
        draft, before, after = asked.command.drafts[n], change.before, change.after.item
        if after.state is not State.CANDIDATE:
            continue
        stated = draft.sets("expire_time") or draft.sets("ttl")
        active = before.expire_time if before.state is State.ACTIVE else None
        end = asked_end(draft, asked.moment) if stated else active
        if end is not None and end != after.expire_time:
            lives[after.id] = end
    return lives


def _touched(results: Sequence[WriteResult]) -> list[str]:
    return [item_id for result in results for item_id in (result.id, *result.superseded)]


async def _write_new(parts: Parts, scope: Scope, asked: _Asked) -> list[WriteResult]:
    """Keep new items only: nothing has to be looked up first, so everything travels together."""
    command, items = asked.command, list(asked.written.values())
    results = [_result(written.item) for written in items]
    async with parts.storage.transaction(scope) as work:
        await work.journal.claim(RPC, command.request_id, command.body, encode_results(results))
        await work.items.add(items)
        work.settings.expect(asked.moment.holding)
        await work.journal.audit(RPC, command.path, [result.id for result in results])
        crash_point("memoryfs.write.before_commit")
    crash_point("memoryfs.write.after_commit")
    return results


async def _answered(parts: Parts, scope: Scope, command: WriteCommand, error: Exception) -> list[WriteResult]:
    """Give the answer this request_id had before; without one, raise `error`."""
    async with parts.storage.transaction(scope) as work:
        answer = await work.journal.replay(RPC, command.request_id, command.body)
        if answer is None:
            raise error  # rolls the new row back
    return decode_results(answer)


def _check_ids(drafts: Sequence[Draft]) -> None:
    ids = [draft.id for draft in drafts if draft.id]
    if len(set(ids)) != len(ids):
        raise InvalidField.of("entries", "an id is there twice")


async def _revisions(parts: Parts, work: Work, asked: _Asked, locked: Mapping[str, Item]) -> dict[int, Revised]:
    """Give the next revision of every item that is named, by place; `locked` holds what the caller may change."""
    command, moment, vectors = asked.command, asked.moment, asked.vectors
    ids = [draft.id for draft in command.drafts if draft.id]
    if not ids:
        return {}
    missing = [item_id for item_id in ids if item_id not in locked]
    if missing:
        seen = await work.items.find(missing)
        if all(_updatable(moment, seen.get(item_id)) for item_id in missing):
            raise NotOwner(metadata={"id": missing[0]})
        raise ItemNotFound
    revised: dict[int, Revised] = {}
    holdings = {moment.path: moment.holding}
    for n, draft in enumerate(command.drafts):
        if not draft.id:
            continue
        before = locked[draft.id]
        if not _updatable(moment, before):
            raise ItemNotFound
        if draft.if_match and draft.if_match != before.etag:
            raise EtagMismatch(metadata={"id": before.id})
        if before.path not in holdings:
            holdings[before.path] = await work.settings.of(before.path)
        after = changed_item(before, draft, replace(moment, holding=holdings[before.path]))
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
    if vector is not None and item.embed_state is not EmbedState.DONE:
        item = replace(item, embed_state=EmbedState.DONE, embedding_model=parts.embedder.model_id)
    return Written(item=item, words=text_tokens(item.payload.content), vector=vector)


def _result(item: Item, outcome: Outcome = Outcome.CREATED, superseded: Sequence[str] = ()) -> WriteResult:
    return WriteResult(item.id, item.revision, item.etag, item.state, item.embed_state, outcome, tuple(superseded))
