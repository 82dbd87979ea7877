"""New items among those that are there: re-statements corroborate, a later fact about an event supersedes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final

from memoryos_core.search_words import text_tokens

from memoryos_memoryfs.domain import access, conflicts, evidence
from memoryos_memoryfs.domain.drafts import Moment
from memoryos_memoryfs.domain.items import Cause, EventKey, Item, State
from memoryos_memoryfs.domain.restatements import plain, signature
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.lifecycle import Met
from memoryos_memoryfs.ports.storage import Revised, Work, Written

ECHO: Final = timedelta(hours=1)
"""What Read gave out so recently may be what comes back: it is no evidence."""


class Outcome(IntEnum):
    """What became of an entry; numbers of the proto's WriteOutcome."""

    CREATED = 1
    UPDATED = 2
    CORROBORATED = 3
    KNOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What has to be looked up for new items, by their place in the call."""

    signatures: Mapping[int, str]
    events: Mapping[int, EventKey]
    further: frozenset[EventKey] = frozenset()
    """Events of candidates that may be promoted by this call."""

    @property
    def empty(self) -> bool:
        """Tell whether nothing has to be looked up."""
        return not self.signatures and not self.events

    @property
    def distinct(self) -> bool:
        """Tell whether no two of the new items can have to do with each other."""
        signatures, events = list(self.signatures.values()), list(self.events.values())
        return len(set(signatures)) == len(signatures) and len(set(events)) == len(events)


def plan_of(created: Mapping[int, Item], *, merge: bool) -> Plan:
    """Give what to look up: re-statements where they `merge`, events always."""
    return Plan(
        signatures={n: signature(item.payload.content) for n, item in created.items()} if merge else {},
        events={n: item.payload.event_key for n, item in created.items() if item.payload.event_key is not None},
    )


@dataclass(slots=True)
class Settled:
    """What is to be written, and what to answer for each new entry."""

    results: dict[int, tuple[str, Outcome]] = field(default_factory=dict)
    superseded: dict[int, list[str]] = field(default_factory=dict)
    fresh: dict[str, int] = field(default_factory=dict)
    """New items and their place in the call."""
    causes: dict[str, Cause] = field(default_factory=dict)
    """Items that change and why."""
    view: dict[str, Item] = field(default_factory=dict)
    """Every item concerned as it is by now."""


class Settling:
    """Goes through the new items of one call, in order, under the locks of what they meet."""

    def __init__(self, parts: Parts, work: Work, moment: Moment, plan: Plan, met: Met) -> None:
        self._parts = parts
        self._work = work
        self._moment = moment
        self._plan = plan
        self._same = {text: list(ids) for text, ids in met.same.items()}
        self._events = {event: list(ids) for event, ids in met.events.items()}
        self._done = Settled()
        self._locked: Mapping[str, Item] = {}
        self._served: frozenset[str] = frozenset()
        self._named: frozenset[str] = frozenset()

    async def settle(self, created: Mapping[int, Item], locked: Mapping[str, Item], named: Collection[str]) -> Settled:
        """Decide each of `created`; `locked` are the caller's own among the items met, `view` begins with them.

        Those `named` in the same call are changed by it anyway: nothing counts for them, nothing supersedes them.
        """
        self._named = frozenset(named)
        # A writer of the path may change items of others, but what they say is the others' own.
        self._locked = {i: item for i, item in locked.items() if access.owns(self._moment.scope, item)}
        done = self._done
        others = [item_id for ids in self._same.values() for item_id in ids if item_id not in self._locked]
        done.view.update(await self._work.items.find(others))
        self._served = await self._recently_served(others)
        done.view.update(locked)
        for n, item in created.items():
            kept = self._restated(n, item)
            if kept is None:
                self._create(n, item)
            else:
                await self._restate(n, item, kept)
        return done

    def _restated(self, n: int, item: Item) -> Item | None:
        """Give the item that says the same at this place: the caller's own, or one that was just served to it."""
        for item_id in self._same.get(self._plan.signatures.get(n, ""), ()):
            kept = self._done.view.get(item_id)
            if kept is None or not self._moment.path.contains(kept.path):
                continue  # whoever reads where it wrote has to find what was said
            if not access.visible(self._moment.scope, kept):
                continue
            if not conflicts.restates(item, kept, self._moment.now):
                continue
            own = item_id in self._locked or item_id in self._done.fresh
            if own and (kept.owner, kept.user) == (item.owner, item.user):
                return kept
            if not own and item_id in self._served and self._verbatim(item, kept):
                return kept
        return None

    async def _recently_served(self, ids: Sequence[str]) -> frozenset[str]:
        """Give those of `ids` that Read gave out within the hour, here or in another process."""
        if not ids:
            return frozenset()
        tenant = self._moment.path.tenant
        here = frozenset(item_id for item_id in ids if self._parts.hits.noted(tenant, [item_id]))
        return here | await self._work.claims.used_since(ids, self._moment.now - ECHO)

    def _create(self, n: int, item: Item) -> None:
        done = self._done
        done.view[item.id] = item
        done.fresh[item.id] = n
        done.results[n] = (item.id, Outcome.CREATED)
        event = self._plan.events.get(n)
        done.superseded[n] = [] if event is None else self._supersede(item, event)
        if event is not None:
            self._events.setdefault(event, []).append(item.id)
        self._same.setdefault(self._plan.signatures.get(n, ""), []).append(item.id)

    async def _restate(self, n: int, item: Item, kept: Item) -> None:
        """Count the source for `kept` when it is another one; pass the entry over when it is not."""
        done = self._done
        offered = evidence.source_keys(item.payload.source)
        own = evidence.source_keys(kept.payload.source)
        counts = (
            (kept.id in self._locked or kept.id in done.fresh)
            and kept.id not in self._named
            and await self._work.claims.corroborates(kept.id, own, offered)
            and not await self._echo(item, kept)
        )
        done.results[n] = (kept.id, Outcome.CORROBORATED if counts else Outcome.KNOWN)
        done.superseded[n] = []
        if not counts:
            return
        await self._work.claims.count_in(kept.id, offered)
        threshold = (await self._work.settings.of(kept.path)).gate
        after = evidence.corroborated(kept, item.confidence, threshold)
        promotes = kept.state is State.CANDIDATE and after.state is State.ACTIVE
        if promotes:
            after = replace(after, expire_time=await life_of(self._work, kept))
        done.view[after.id] = after
        done.causes.setdefault(after.id, Cause.PROMOTE if promotes else Cause.CORROBORATE)
        if promotes and after.payload.event_key is not None:
            done.superseded[n] = self._supersede(after, after.payload.event_key)

    def _supersede(self, item: Item, event: EventKey) -> list[str]:
        """Let an item that became active take its place among those about the event; give what it replaced."""
        done = self._done
        met = [i for i in self._events.get(event, ()) if i in done.view and i != item.id and i not in self._named]
        chain = [done.view[i] for i in met]
        placed, changed = conflicts.settle(item, [one for one in chain if conflicts.same_place(item, one)])
        for one in changed:
            done.view[one.id] = one
            done.causes[one.id] = Cause.SUPERSEDE
        done.view[item.id] = placed
        return [one.id for one in changed]

    async def _echo(self, item: Item, kept: Item) -> bool:
        """Tell whether this may be what Read gave out, coming back: verbatim, or from an agent."""
        if evidence.from_document(item.payload.source):
            return False
        if not self._moment.scope.chain and not self._verbatim(item, kept):
            return False
        return bool(await self._recently_served([kept.id]))

    @staticmethod
    def _verbatim(item: Item, kept: Item) -> bool:
        return plain(item.payload.content) == plain(kept.payload.content)


class FurtherEventsMet(Exception):
    """A candidate that says the same speaks of an event that was not asked for: begin again with `plan`.

    Asking for it now would be out of order, and two calls could wait for each other.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan


async def meet(work: Work, plan: Plan) -> Met:
    """Give what new items meet. A candidate that says the same may be promoted: then its event is met, too.

    Raises `FurtherEventsMet`, which ends the transaction, where the plan does not know of that event.
    """
    met = await work.claims.meet(list(plan.signatures.values()), list({*plan.events.values(), *plan.further}))
    same = {item_id for ids in met.same.values() for item_id in ids}
    if not same:
        return met
    seen = (await work.items.find(sorted(same))).values()
    keys = {item.payload.event_key for item in seen if item.state is State.CANDIDATE}
    further = {key for key in keys if key is not None and key not in met.events}
    if further:
        raise FurtherEventsMet(replace(plan, further=plan.further | further))
    return met


async def life_of(work: Work, candidate: Item) -> datetime | None:
    """Give when a candidate is to end once it is promoted: as it was asked for, not after the day of its doubt."""
    asked = await work.claims.take_lives([candidate.id])
    if candidate.id in asked:
        return asked[candidate.id]
    if candidate.expire_time is None or candidate.expire_time >= candidate.create_time + timedelta(hours=24):
        return None
    return candidate.expire_time  # it was to live for less than a day anyway


async def keep_settled(
    work: Work, settled: Settled, locked: Mapping[str, Item], written: Mapping[str, Written], now: datetime
) -> dict[str, Item]:
    """Write it all down; give every item concerned as it is kept. `written` are the new items by id."""
    fresh = [replace_item(written[item_id], settled.view[item_id]) for item_id in settled.fresh]
    await work.items.add(fresh)
    by_cause: dict[Cause, list[Revised]] = {}
    final = dict(settled.view)
    for item_id in sorted(settled.causes):
        if item_id in settled.fresh:
            continue
        before = locked[item_id]
        after = evidence.next_revision(before, settled.view[item_id], now)
        final[item_id] = after
        by_cause.setdefault(settled.causes[item_id], []).append(revised_item(before, after))
    for cause, changes in by_cause.items():
        await work.items.revise(changes, cause)
    return final


def replace_item(written: Written, item: Item) -> Written:
    """Give what is written with the item as it has become."""
    model = replace(item, embed_state=written.item.embed_state, embedding_model=written.item.embedding_model)
    return replace(written, item=model)


def revised_item(before: Item, after: Item) -> Revised:
    """Give a revision that keeps the words of the item."""
    words = text_tokens(after.payload.content)
    return Revised(before=before, after=Written(item=after, words=words, vector=None), keep_vector=True)


async def note_new(
    work: Work, plan: Plan, items: Mapping[int, Item], asked_ends: Mapping[int, datetime | None]
) -> None:
    """Keep what new items say, and the ends that were asked for candidates."""
    await work.claims.note({items[n].id: text for n, text in plan.signatures.items() if n in items})
    lives = {
        item.id: end
        for n, item in items.items()
        if item.state is State.CANDIDATE and (end := asked_ends.get(n)) is not None and end != item.expire_time
    }
    await work.claims.keep_lives(lives)


def ids_met(met: Met, named: Sequence[str]) -> list[str]:
    """Give every item to lock, in order: those named and those met, together, so that no two calls wait in a ring."""
    return sorted({*met.ids, *named})
