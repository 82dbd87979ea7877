"""What is made from several items, and what becomes of it when one of them changes.

An item that was made from others (`derived_from`) says what they say, so it may not
outlive or outreach any of them:

| a source is | what was made from it |
|---|---|
| forgotten, expired, evicted, erased | is forgotten too (cause SOURCE) |
| narrowed to fewer readers | loses the same readers; where its owner may not read the source any more it is forgotten |
| raised in sensitivity, lowered in trust | takes that over |
| corrected: text, attributes, event, validity, whom it concerns | is flagged SOURCE_CHANGED |
| disputed, or superseded by something that was not made from it | is flagged SOURCE_CHANGED |

All of it transitively and in the transaction of the change. Nothing is ever widened
by a source: not when it is opened to more readers, not when it is restored. Whoever
wants the derived item back restores it by name, once no source of it is forgotten.

A merged item may be read by whoever may read all its sources (`tenant:*` is neutral,
owners count), takes the highest sensitivity, the lowest trust and the earliest end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from memoryos_core import principals

from memoryos_memoryfs.domain import access, gate
from memoryos_memoryfs.domain.drafts import Moment, etag_of
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
from memoryos_memoryfs.errors import AclEmpty

V = TypeVar("V")
Audience = frozenset[str] | None
"""Principals that may read, owners among them; None: everyone of the tenant."""


def audience(item: Item) -> Audience:
    """Give who may read an item, its sensitivity aside."""
    return None if principals.EVERYONE in item.readers else frozenset({item.owner, *item.readers})


def common_audience(items: Sequence[Item]) -> Audience:
    """Give who may read every one of the items."""
    common: Audience = None
    for item in items:
        held = audience(item)
        common = held if common is None else common if held is None else common & held
    return common


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstract:
    """What is to stand for several items."""

    content: str
    attributes: bytes = b""
    tags: tuple[str, ...] = ()
    event_key: EventKey | None = None


def merged_item(sources: Sequence[Item], abstract: Abstract, at: Moment) -> Item:
    """Give the item that stands for `sources`, behind the gate; its vector is still PENDING.

    Raises `AclEmpty` when nobody, or not even the caller, may read all of them.
    It holds whenever one of them does, and ends with the first of them.
    """
    owner = access.owner_of(at.scope)
    held = common_audience(sources)
    if held is not None and not held & set(at.scope.principals):
        raise AclEmpty
    asked = gate.capped_confidence(max(source.confidence for source in sources), Origin.MERGED)
    confidence = at.holding.capped(asked, Origin.MERGED, at.scope.roles)
    flags = Flag.INSTRUCTION_LIKE if instruction_like(abstract.content) else NO_FLAGS
    for source in sources:
        flags |= source.flags & Flag.DISPUTED
    ends = [source.valid_to for source in sources]
    lives = [source.expire_time for source in sources if source.expire_time is not None]
    state = gate.gated_state(confidence, None, at.holding.gate)
    expire = min(lives, default=None)
    item_id = at.new_id("mem")
    return Item(
        id=item_id,
        payload=Payload(
            path=at.path,
            content=abstract.content,
            attributes=abstract.attributes,
            event_key=abstract.event_key or _agreed([source.payload.event_key for source in sources], None),
            source=Source(task_id=at.scope.task_id, session_id=at.scope.session_id, agent_chain=at.scope.chain),
        ),
        tags=abstract.tags or _shared_tags(sources),
        owner=owner,
        user=_agreed([source.user for source in sources], ""),
        readers=at.holding.narrowed((principals.EVERYONE,) if held is None else tuple(sorted(held - {owner}))),
        sensitivity=max(source.sensitivity for source in sources),
        trust=Trust.UNTRUSTED if flags else max(source.trust for source in sources),
        origin=Origin.MERGED,
        confidence=confidence,
        importance=max(source.importance for source in sources),
        state=state,
        valid_from=min(source.valid_from for source in sources),
        valid_to=None if None in ends else max(end for end in ends if end is not None),
        create_time=at.now,
        update_time=at.now,
        expire_time=gate.candidate_expiry(expire, at.now) if state is State.CANDIDATE else expire,
        tier=Tier.HOT,
        revision=1,
        etag=etag_of(item_id, 1, at.now),
        derived_from=tuple(source.id for source in sources),
        superseded_by="",
        embedding_model="",
        embed_state=EmbedState.PENDING,
        pinned=any(source.pinned for source in sources),
        flags=flags,
    )


def superseded(source: Item, by: str, now: datetime) -> Item:
    """Give the next revision of a source that another item stands for."""
    return _next(source, now, state=State.SUPERSEDED, superseded_by=by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What an item replaced, and what replaced it."""

    id: str
    state: State
    derived_from: tuple[str, ...]
    superseded_by: str
    valid_to: datetime | None


def released(source: Item, by: Replacement, heir: str, now: datetime) -> Item:
    """Give the next revision of a source when `by`, into which it was merged, is gone: it stands for itself again.

    It does not where a later fact had replaced that: then `heir`, if not empty, has replaced the source as well.
    """
    if not heir:
        return _next(source, now, state=State.ACTIVE, superseded_by="")
    ends = [end for end in (source.valid_to, by.valid_to) if end is not None]
    return replace(_next(source, now, superseded_by=heir), valid_to=min(ends, default=None))


def _agreed(values: Sequence[V], otherwise: V) -> V:
    return values[0] if all(value == values[0] for value in values) else otherwise


def _shared_tags(sources: Sequence[Item]) -> tuple[str, ...]:
    return tuple(tag for tag in sources[0].tags if all(tag in source.tags for source in sources))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """How a source changed; `after` None: it is gone."""

    before: Item
    after: Item | None

    @property
    def matters(self) -> bool:
        """Tell whether something that was made from it may have to change."""
        before, after = self.before, self.after
        if after is None:
            return True
        return (
            self.corrects("") or self.narrowed or after.sensitivity > before.sensitivity or after.trust > before.trust
        )

    def corrects(self, derived_id: str) -> bool:
        """Tell whether it says something else now, is doubted, or was replaced by something else than `derived_id`."""
        before, after = self.before, self.after
        if after is None:
            return False
        replaced = after.state is State.SUPERSEDED and after.superseded_by != derived_id
        return (
            _said(before) != _said(after)
            or (after.state is not before.state and (after.state is State.CANDIDATE or replaced))
            or (Flag.SOURCE_CHANGED | Flag.DISPUTED) & after.flags & ~before.flags != NO_FLAGS
        )

    @property
    def narrowed(self) -> bool:
        """Tell whether someone may not read it any more."""
        if self.after is None:
            return False
        then, now = audience(self.before), audience(self.after)
        return now is not None and (then is None or not then <= now)


def _said(item: Item) -> tuple[object, ...]:
    payload = item.payload
    return (payload.content, payload.attributes, payload.event_key, item.valid_from, item.valid_to, item.user)


def followed(derived: Item, changes: Sequence[SourceChange], now: datetime, *, flagged: bool = True) -> Item | None:
    """Give what becomes of `derived` when its sources change: itself, its next revision, or None: withdrawn.

    Not `flagged`: that one says something else is left out.
    """
    result = derived
    for change in changes:
        if change.after is None:
            return None
        narrower = _narrowed(result, change) if change.narrowed else result
        if narrower is None:
            return None
        result = narrower
        if change.after.sensitivity > change.before.sensitivity:
            result = replace(result, sensitivity=max(result.sensitivity, change.after.sensitivity))
        if change.after.trust > change.before.trust:
            result = replace(result, trust=Trust.UNTRUSTED)
        if flagged and change.corrects(derived.id):
            result = replace(result, flags=result.flags | Flag.SOURCE_CHANGED)
    if result == derived:
        return derived
    return _next(result, now)


def _narrowed(derived: Item, change: SourceChange) -> Item | None:
    """Give `derived` for those readers only that the source still has; None when its owner may not be one of them."""
    assert change.after is not None
    then, left = audience(change.before), audience(change.after)
    assert left is not None
    # An owner who read the source through a group goes on to as long as no group or role was taken away.
    by_group = then is not None and derived.owner not in then and not any(map(_many, then - left))
    if derived.owner not in left and not by_group:
        return None
    held = audience(derived)
    readers = left if held is None else held & left
    return replace(derived, readers=tuple(sorted(readers - {derived.owner})))


def _many(principal: str) -> bool:
    return not principal.startswith("user:")


def _next(item: Item, now: datetime, *, state: State | None = None, superseded_by: str | None = None) -> Item:
    revision = item.revision + 1
    return replace(
        item,
        state=item.state if state is None else state,
        superseded_by=item.superseded_by if superseded_by is None else superseded_by,
        revision=revision,
        etag=etag_of(item.id, revision, now),
        update_time=now,
    )
