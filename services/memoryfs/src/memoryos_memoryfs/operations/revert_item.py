"""Revert: an earlier revision of an item once more, as a new revision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_core.search_words import text_tokens
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.domain import access, gate
from memoryos_memoryfs.domain.items import Cause, EmbedState, Flag, Item, State, Trust
from memoryos_memoryfs.domain.points import given_back, wider
from memoryos_memoryfs.errors import (
    EtagMismatch,
    ItemNotFound,
    ItemStateForbids,
    NotOwner,
    ResourceNotFound,
    WideningForbidden,
)
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import Revised, Work, Written

RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Revert"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertCommand:
    """A parsed Revert. `body` is the request as sent, for comparing retries."""

    path: MemoryPath
    id: str
    revision: int
    if_match: str
    request_id: str
    body: bytes


async def revert_item(parts: Parts, scope: Scope, command: RevertCommand) -> Item:
    """Give the item with the values of an earlier revision, its vector brought back without a model.

    Values are what Write can set. Place, owner, lineage and whether it is
    disputed stay today's, and a candidate stays one: what was said comes back,
    not what it was believed to be. Today's readers are not widened by it
    (`WideningForbidden`, as for a lower sensitivity). Raises `ItemNotFound`,
    `NotOwner`, `EtagMismatch`, `ItemStateForbids` (superseded), `ResourceNotFound`
    for a revision that is not there or was not open to the caller.
    """
    access.check_write(scope, command.path)
    async with (
        recorded(parts, RPC, scope, command.path, [command.id]),
        parts.storage.transaction(scope) as work,
    ):
        answer = await work.journal.replay(RPC, command.request_id, command.body)
        if answer is not None:
            return await _as_answered(work, scope, command)
        now = parts.clock.now()
        before = await _locked(work, scope, command, now)
        then = await _earlier(work, scope, command, before)
        if wider(before, then):
            raise WideningForbidden("The earlier revision was open to more readers.", metadata={"id": before.id})
        if not access.owns(scope, before) and _owners_part(then) != _owners_part(before):
            raise NotOwner(metadata={"id": before.id})
        holding = await work.settings.of(before.path)
        after = _reverted(before, then, now, holding.gate)
        vector = (await work.history.vectors({before.id: command.revision})).get(before.id)
        await work.items.revise([again(parts, before, after, vector)], Cause.REVERT)
        await work.journal.audit(RPC, command.path, [command.id])
        await work.journal.keep(RPC, command.request_id, b"done")
        found = (await work.items.find([command.id]))[command.id]
        work.seen.gives([found])
    return found


def _owners_part(item: Item) -> tuple[object, ...]:
    """Give what a writer of the path cannot change of another's item (`drafts.OWNERS_FIELDS`)."""
    return item.readers, item.sensitivity, item.user


def again(parts: Parts, before: Item, after: Item, vector: Vector | None) -> Revised:
    """Give the revision that brings back `after`: with its vector, else that of the same words, else none yet."""
    same_words = after.payload.content == before.payload.content
    done = vector is not None or (same_words and before.embed_state is EmbedState.DONE)
    after = replace(
        after,
        embed_state=EmbedState.DONE if done else EmbedState.PENDING,
        embedding_model=parts.embedder.model_id if done else "",
    )
    written = Written(item=after, words=text_tokens(after.payload.content), vector=vector)
    return Revised(before=before, after=written, keep_vector=vector is None and same_words)


async def _locked(work: Work, scope: Scope, command: RevertCommand, now: datetime) -> Item:
    before = (await work.items.lock([command.id])).get(command.id)
    seen = before or (await work.items.find([command.id])).get(command.id)
    if seen is None or not command.path.contains(seen.path) or not access.visible(scope, seen) or seen.expired(now):
        raise ItemNotFound
    if before is None:
        raise NotOwner(metadata={"id": command.id})
    if before.state is State.SUPERSEDED:
        raise ItemStateForbids(metadata={"id": before.id, "state": before.state.name})
    if command.if_match and command.if_match != before.etag:
        raise EtagMismatch(metadata={"id": before.id})
    return before


async def _earlier(work: Work, scope: Scope, command: RevertCommand, before: Item) -> Item:
    if command.revision == before.revision:
        return before
    former = (await work.history.revisions({command.id: command.revision})).get(command.id)
    if former is None or not access.readable(scope, former.item):
        raise ResourceNotFound
    return former.item


def _reverted(before: Item, then: Item, now: datetime, threshold: float) -> Item:
    state = gate.gated_state(then.confidence, before.state, threshold)
    # An end that has come since would take the item away at once: then today's stays.
    end = before.expire_time if then.expired(now) else then.expire_time
    if state is State.CANDIDATE:
        end = gate.candidate_expiry(end, before.create_time if before.state is State.CANDIDATE else now)
    flags = (then.flags & Flag.INSTRUCTION_LIKE) | (before.flags & ~Flag.INSTRUCTION_LIKE)
    after = given_back(before, then, now)
    return replace(
        after,
        payload=replace(then.payload, path=before.path),
        owner=before.owner,
        state=state,
        expire_time=end,
        tier=before.tier,
        derived_from=before.derived_from,
        superseded_by=before.superseded_by,
        flags=flags,
        trust=Trust.UNTRUSTED if Flag.INSTRUCTION_LIKE in flags else then.trust,
        corroboration_count=before.corroboration_count,
    )


async def _as_answered(work: Work, scope: Scope, command: RevertCommand) -> Item:
    item = (await work.items.find([command.id])).get(command.id)
    if item is None or not access.visible(scope, item):
        raise ItemNotFound
    work.seen.gives([item])
    return item
