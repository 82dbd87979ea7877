"""What a caller asks to write, and the item that comes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from memoryos_core import principals
from memoryos_core.errors import InvalidField
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from numpy.typing import NDArray

from memoryos_memoryfs.domain import access, gate
from memoryos_memoryfs.domain.instructions import instruction_like
from memoryos_memoryfs.domain.items import (
    NO_FLAGS,
    EmbedState,
    EventKey,
    Flag,
    Item,
    Origin,
    Payload,
    Source,
    State,
    Tier,
    Trust,
)
from memoryos_memoryfs.domain.session_trust import trust_after
from memoryos_memoryfs.domain.settings import Holding
from memoryos_memoryfs.errors import NotOwner, ReadersTooWide

TTL_MAX: Final = timedelta(days=36_500)
"""Longest ttl: a century, far inside what timestamps can hold."""
OWNERS_FIELDS: Final = frozenset({"readers", "sensitivity", "user"})
"""What a writer of the path cannot change of another's item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One entry of a Write, parsed. `changes` names the fields that it sets."""

    id: str
    if_match: str
    changes: frozenset[str]
    content: str
    attributes: bytes
    tags: tuple[str, ...]
    user: str
    readers: tuple[str, ...]
    sensitivity: int
    trust: Trust | None
    source: Source
    origin: Origin | None
    confidence: float | None
    importance: float | None
    valid_from: datetime | None
    valid_to: datetime | None
    expire_time: datetime | None
    ttl: timedelta | None
    event_key: EventKey | None
    pinned: bool
    embedding_model: str
    embedding: Sequence[float] | NDArray[np.float32] | None

    def sets(self, field: str) -> bool:
        """Tell whether this draft gives `field` a value (for a new item: whether it is not the default)."""
        return field in self.changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Who writes, when and under which trace: the same for all entries of a call."""

    scope: Scope
    path: MemoryPath
    now: datetime
    new_id: Callable[[str], str]
    holding: Holding
    """What holds where the item is."""
    model: str = ""
    """The model whose vectors entries may bring: such an item waits for none, or the call is refused."""


def etag_of(item_id: str, revision: int, at: datetime) -> str:
    """Give the etag of a revision: short, and different for every revision."""
    return hashlib.blake2b(f"{item_id}/{revision}/{at.isoformat()}".encode(), digest_size=8).hexdigest()


def asked_end(draft: Draft, at: Moment) -> datetime | None:
    """Give when a new item is to stop being served, as its entry or else its place says; the gate may end it sooner."""
    if draft.sets("expire_time") or draft.sets("ttl"):
        return _expire_time(draft, at.now)
    return at.holding.expire_time(at.now)


def _expire_time(draft: Draft, now: datetime) -> datetime | None:
    if draft.ttl is not None:
        if not timedelta() < draft.ttl <= TTL_MAX:
            raise InvalidField.of("ttl", "must be above 0 and at most 36500 days")
        return now + draft.ttl
    if draft.expire_time is not None and draft.expire_time <= now:
        raise InvalidField.of("expire_time", "lies in the past")
    return draft.expire_time


def _check_validity(valid_from: datetime, valid_to: datetime | None) -> None:
    if valid_to is not None and valid_to <= valid_from:
        raise InvalidField.of("valid_to", "must be after valid_from")


def _source(draft: Draft, scope: Scope) -> Source:
    """Give the source with what only the token may say: task, and agents that acted."""
    if not scope.task_id and not scope.chain and not draft.source.agent_chain:
        return draft.source
    return replace(draft.source, task_id=scope.task_id or draft.source.task_id, agent_chain=scope.chain)


def _default_trust(origin: Origin) -> Trust:
    return Trust.TRUSTED if origin is Origin.STATED else Trust.UNTRUSTED


def _flags_of(content: str) -> Flag:
    return Flag.INSTRUCTION_LIKE if instruction_like(content) else NO_FLAGS


def new_item(draft: Draft, at: Moment) -> Item:
    """Give the first revision of a new item, behind the gate. Its vector is still PENDING if none is given."""
    if draft.if_match or not draft.content:
        raise InvalidField.of(*(("if_match", "only with id") if draft.if_match else ("content", "is required")))
    at.holding.check_writer(at.scope)
    at.holding.check_readers(at.scope, draft.readers)
    origin = draft.origin or Origin.STATED
    confidence = _confidence(draft.confidence, origin, at)
    state = gate.gated_state(confidence, None, at.holding.gate)
    expire = asked_end(draft, at)
    valid_from = draft.valid_from or at.now
    _check_validity(valid_from, draft.valid_to)
    item_id = at.new_id("mem")
    flags = _flags_of(draft.content)
    given = bool(at.model) and draft.embedding is not None
    return Item(
        id=item_id,
        payload=Payload(
            path=at.path,
            content=draft.content,
            attributes=draft.attributes,
            event_key=draft.event_key,
            source=_source(draft, at.scope),
        ),
        tags=draft.tags,
        owner=access.owner_of(at.scope),
        user=draft.user,
        readers=draft.readers or at.holding.default_readers or (),
        sensitivity=draft.sensitivity,
        trust=Trust.UNTRUSTED if flags else draft.trust or _default_trust(origin),
        origin=origin,
        confidence=confidence,
        importance=0.5 if draft.importance is None else draft.importance,
        state=state,
        valid_from=valid_from,
        valid_to=draft.valid_to,
        create_time=at.now,
        update_time=at.now,
        expire_time=gate.candidate_expiry(expire, at.now) if state is State.CANDIDATE else expire,
        tier=Tier.HOT,
        revision=1,
        etag=etag_of(item_id, 1, at.now),
        derived_from=(),
        superseded_by="",
        embedding_model=at.model if given else "",
        embed_state=EmbedState.DONE if given else EmbedState.PENDING,
        pinned=draft.pinned,
        flags=flags,
    )


def _confidence(asked: float | None, origin: Origin, at: Moment) -> float:
    return at.holding.capped(gate.capped_confidence(asked, origin), origin, at.scope.roles)


def changed_item(before: Item, draft: Draft, at: Moment) -> Item:
    """Give the next revision of `before`: fields that the draft does not set stay as they are.

    When the content changes its vector is PENDING again; otherwise it stays.
    Who may read it and whom it concerns is the owner's alone to say (`NotOwner`).
    """
    sets = draft.sets
    if not draft.changes.isdisjoint(OWNERS_FIELDS) and not access.owns(at.scope, before):
        raise NotOwner(metadata={"id": before.id})
    if sets("content") and not draft.content:
        raise InvalidField.of("content", "cannot be empty")
    if sets("readers"):
        at.holding.check_readers(at.scope, set(draft.readers) - set(before.readers))
    if before.derived_from:
        _check_outreach(before, draft)
    origin = (draft.origin or Origin.STATED) if sets("origin") else before.origin
    asked = draft.confidence if sets("confidence") else before.confidence
    confidence = _confidence(asked, origin, at)
    state = gate.gated_state(confidence, before.state, at.holding.gate)
    if before.state is State.SUPERSEDED:
        state = State.SUPERSEDED  # corrected for the history's sake, and for that of what was made from it
    payload = Payload(
        path=before.path,
        content=draft.content if sets("content") else before.payload.content,
        attributes=draft.attributes if sets("attributes_json") else before.payload.attributes,
        event_key=draft.event_key if sets("event_key") else before.payload.event_key,
        source=_source(draft, at.scope) if sets("source") else before.payload.source,
    )
    same_words = payload.content == before.payload.content and not sets("embedding")
    flags = (before.flags & ~Flag.INSTRUCTION_LIKE) | _flags_of(payload.content)
    asked_trust = (draft.trust or _default_trust(origin)) if sets("trust") else before.trust
    valid_from = (draft.valid_from or at.now) if sets("valid_from") else before.valid_from
    valid_to = draft.valid_to if sets("valid_to") else before.valid_to
    _check_validity(valid_from, valid_to)
    revision = before.revision + 1
    return replace(
        before,
        payload=payload,
        tags=draft.tags if sets("tags") else before.tags,
        user=draft.user if sets("user") else before.user,
        readers=draft.readers if sets("readers") else before.readers,
        sensitivity=draft.sensitivity if sets("sensitivity") else before.sensitivity,
        trust=Trust.UNTRUSTED if Flag.INSTRUCTION_LIKE in flags else trust_after(before.trust, asked_trust, at.scope),
        origin=origin,
        confidence=confidence,
        importance=(0.5 if draft.importance is None else draft.importance) if sets("importance") else before.importance,
        state=state,
        valid_from=valid_from,
        valid_to=valid_to,
        update_time=at.now,
        tier=Tier.HOT,
        expire_time=_next_expiry(before, draft, state, at.now),
        revision=revision,
        etag=etag_of(before.id, revision, at.now),
        embedding_model=before.embedding_model if same_words else "",
        embed_state=before.embed_state if same_words else EmbedState.PENDING,
        pinned=draft.pinned if sets("pinned") else before.pinned,
        flags=flags,
    )


def _check_outreach(before: Item, draft: Draft) -> None:
    """Raise ReadersTooWide when an item made from others would say what they say to more people than it does now."""
    held = None if principals.EVERYONE in before.readers else {before.owner, *before.readers}
    if draft.sets("readers") and held is not None and not held.issuperset(draft.readers):
        raise ReadersTooWide(metadata={"id": before.id})
    if draft.sets("sensitivity") and draft.sensitivity < before.sensitivity:
        raise ReadersTooWide("An item made from others stays as sensitive as they are.", metadata={"id": before.id})


def _next_expiry(before: Item, draft: Draft, state: State, now: datetime) -> datetime | None:
    asked = _expire_time(draft, now) if draft.sets("expire_time") or draft.sets("ttl") else before.expire_time
    if state is not State.CANDIDATE:
        return asked
    # A write does not lengthen a candidate's life: it counts from when the doubt began.
    since = before.create_time if before.state is State.CANDIDATE else now
    return gate.candidate_expiry(asked, since)
