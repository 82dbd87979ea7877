"""Explain: why expected items are in what a Read answers, or not, for auditors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memoryos_core.errors import InvalidField
from memoryos_core.principals import is_name
from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.hits import Hit, Recalled
from memoryos_memoryfs.domain.items import Item
from memoryos_memoryfs.domain.verdicts import Verdict
from memoryos_memoryfs.operations.read_items import recall
from memoryos_memoryfs.operations.recall_steps.query import ReadQuery, Trace
from memoryos_memoryfs.operations.recall_steps.serve import refusal
from memoryos_memoryfs.parts import Parts

_RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Explain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """For whom is asked: someone of the auditor's tenant."""

    user: str
    groups: tuple[str, ...]
    roles: tuple[str, ...]
    clearance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why one expected item is in the answer or not. Nothing of its text."""

    id: str
    verdict: Verdict
    rank: int = 0
    """From 1: its place in the answer, or the one that it would have had; 0: none."""
    scored: Hit | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """The answer of Explain; of `recalled` only what is said of the whole leaves."""

    explanations: list[Explanation]
    recalled: Recalled


async def explain_items(
    parts: Parts, scope: Scope, principal: Principal, query: ReadQuery, expected: Sequence[str]
) -> Explained:
    """Give one explanation per expected item, in order: the same Read is run as the principal, and traced.

    It says nothing of other tenants: their items are ABSENT. Nobody's use is
    counted. Raises `PathNotAllowed` for paths that the auditor may not read.
    """
    for path in query.paths:
        access.check_read(scope, path)
    reader = _scope_of(scope, principal)
    trace = Trace(frozenset(expected))
    recalled = await recall(parts, reader, query, trace)
    items = await parts.inspector.items(scope, sorted(trace.expected), query.as_of)
    answered = {hit.item.id: (rank, hit) for rank, hit in enumerate(recalled.hits, 1)}
    explanations = []
    for item_id in expected:
        if item_id in answered:
            rank, hit = answered[item_id]
            explanation = Explanation(id=item_id, verdict=Verdict.IN_ANSWER, rank=rank, scored=_if_asked(query, hit))
        else:
            explanation = _missing(parts, reader, query, _Missing(item_id, items, trace, recalled))
        explanations.append(explanation)
    await parts.trail.record(_RPC, scope, query.paths[0], sorted(trace.expected))
    return Explained(explanations, recalled)


@dataclass(frozen=True, slots=True)
class _Missing:
    """An expected item that is not in the answer."""

    id: str
    items: Mapping[str, Item]
    trace: Trace
    recalled: Recalled


def _scope_of(auditor: Scope, principal: Principal) -> Scope:
    for field, names in (("user", (principal.user,)), ("groups", principal.groups), ("roles", principal.roles)):
        if not all(is_name(name) for name in names):
            raise InvalidField.of(f"principal.{field}", "is no name")
    identity = Identity(
        tenant=auditor.tenant,
        user=principal.user,
        roles=frozenset(principal.roles),
        groups=frozenset(principal.groups),
        clearance=principal.clearance,
    )
    return Scope.of(identity)


def _missing(parts: Parts, reader: Scope, query: ReadQuery, asked: _Missing) -> Explanation:
    item = asked.items.get(asked.id)
    if item is None:
        return Explanation(id=asked.id, verdict=Verdict.ABSENT)
    verdict = refusal(reader, query.look, item, parts.clock.now())
    if verdict is not None:
        return Explanation(id=asked.id, verdict=verdict)
    ranked = {hit.item.id: (rank, hit) for rank, hit in enumerate(asked.trace.ranked, 1)}
    rank, hit = ranked.get(asked.id, (0, asked.trace.scored.get(asked.id)))
    if hit is None:
        # Without a query only the number of items is a limit; with one, no arm could score it.
        scored = query.asks if query.as_of is None else query.has_text
        return Explanation(id=asked.id, verdict=Verdict.NOT_EMBEDDED if scored else Verdict.BELOW_TOP_K)
    if not rank:
        rank = 1 + sum(one.score > hit.score for one in asked.trace.ranked)
    verdict = Verdict.BELOW_MIN_SCORE if hit.score < query.min_score else Verdict.BELOW_TOP_K
    rank = max(rank, len(asked.recalled.hits) + 1)
    return Explanation(id=asked.id, verdict=verdict, rank=rank, scored=_if_asked(query, hit))


def _if_asked(query: ReadQuery, hit: Hit) -> Hit | None:
    """Without a query there are no scores."""
    return hit if query.asks else None
