"""MigrateIndex: from one backend to the other while writes and reads go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Protocol

from memoryos_vectors.ports import DerivedIndex, IndexScope, VectorEntry, VectorQuery

from memoryos_memoryfs.errors import MigrationPhaseForbids
from memoryos_memoryfs.operations.copy_changes import NAMED_PAGE
from memoryos_memoryfs.operations.verify_index import LOOKS, Drift, verify_index
from memoryos_memoryfs.ports.index import Backend, Backends, BackendState, IndexParts, Phase

RECALL_MIN: Final = 0.99
"""Share of the exact ten nearest that the new backend must find."""
_SAMPLED_TENANTS: Final = 20
_SAMPLED_QUERIES: Final = 10
_TOP: Final = 10
_ROUNDS: Final = 3
"""Times that drift is mended before the move is given up."""
_POLL_S: Final = 0.05


class Step(IntEnum):
    """What is asked of a move; numbers of the proto's MigrationStep."""

    START = 1
    CUT_OVER = 2
    ROLL_BACK = 3
    FINISH = 4


class Progress(Protocol):
    """The job that a move is, as the move sees it."""

    async def at(self, phase: str, done: int, total: int, checkpoint: Mapping[str, object] | None = None) -> None:
        """Keep how far it has come, and from where it could go on; raises when the job is to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """What the last phase found."""

    drift: Drift
    recall: float
    queries: int

    def as_json(self) -> Mapping[str, object]:
        """Give it as the result of a job."""
        return {**self.drift.counts(), "recall_at_10": round(self.recall, 4), "queries": self.queries}


class BackendsDiffer(MigrationPhaseForbids):
    """The backends do not agree after mending: see the job's result; ROLL_BACK ends the move."""


def next_state(now: Backends, step: Step, to: Backend, *, copy_configured: bool) -> Backends:
    """Give the state that `step` leads to; raises `MigrationPhaseForbids` where it is not the time for it."""
    if step is Step.START:
        if now.phase is not Phase.NONE or now.serving is to or not copy_configured:
            raise MigrationPhaseForbids(metadata={"phase": now.phase.name, "serving": now.serving.value})
        return replace(now, feeding=True, phase=Phase.DUAL_WRITE, target=to)
    if now.target is not to:
        raise MigrationPhaseForbids(metadata={"phase": now.phase.name})
    if step is Step.CUT_OVER and now.phase is Phase.READY:
        return replace(now, serving=to, phase=Phase.CUT_OVER)
    if step is Step.ROLL_BACK and now.phase is Phase.CUT_OVER:
        return replace(now, serving=_other(to), phase=Phase.READY)
    if step is Step.ROLL_BACK and now.phase is not Phase.NONE:
        return _ended(now)
    if step is Step.FINISH and now.phase is Phase.CUT_OVER:
        return _ended(now)
    raise MigrationPhaseForbids(metadata={"phase": now.phase.name})


async def take_step(parts: IndexParts, state: BackendState, step: Step, to: Backend) -> Backends:
    """Give the state after `step`; START only opens the dual write, `run_move` does the rest as a job."""
    now = await state.get()
    after = next_state(now, step, to, copy_configured=parts.copy is not None)
    if not await state.change(now, after):
        raise MigrationPhaseForbids(metadata={"phase": (await state.get()).phase.name})
    return after


async def run_move(parts: IndexParts, progress: Progress) -> MoveResult:
    """Copy and compare until both backends agree; goes on in the phase where an earlier process stopped.

    Raises `BackendsDiffer` when they do not agree, `MigrationPhaseForbids` when
    the move was ended meanwhile, `IndexUnavailable` when Qdrant does not answer.
    """
    copy = parts.copy
    if copy is None:
        raise MigrationPhaseForbids(metadata={"qdrant": "not configured here"})
    now = await parts.state.get()
    if now.phase is Phase.DUAL_WRITE:
        await copy.create()
        now = await _advance(parts, now, Phase.BACKFILL)
    if now.phase is Phase.BACKFILL:
        if now.target is Backend.QDRANT:
            await _backfill(parts, progress)
        now = await _advance(parts, now, Phase.VERIFY)
    if now.phase < Phase.VERIFY:
        raise MigrationPhaseForbids(metadata={"phase": now.phase.name})
    result = await _compare(parts, copy, progress)
    if result.drift.found or result.recall < RECALL_MIN:
        raise BackendsDiffer(metadata={name: str(value) for name, value in result.as_json().items()})
    if now.phase is Phase.VERIFY:  # else an earlier process died between this and the end of the job
        await _advance(parts, now, Phase.READY)
    return result


async def _advance(parts: IndexParts, now: Backends, phase: Phase) -> Backends:
    """Give the state with this phase, or the later one that another process of this job has brought it to."""
    after = replace(now, phase=phase)
    if await parts.state.change(now, after):
        return after
    found = await parts.state.get()
    if found.target is not now.target or found.phase < phase:
        raise MigrationPhaseForbids(metadata={"phase": found.phase.name})
    return found


async def _backfill(parts: IndexParts, progress: Progress) -> None:
    """Name everything, a page at a time, so that the changes of the day are not far behind."""
    total = sum((await parts.truth.counts(parts.model_id)).values())
    named, last = 0, await parts.outbox.name_all(("", ""), NAMED_PAGE)
    while last is not None:
        named += NAMED_PAGE
        await _drained(parts, progress, lambda left, upto=named: max(0, min(upto, total) - left), total)  # type: ignore[misc]
        last = await parts.outbox.name_all(last, NAMED_PAGE)


async def _drained(parts: IndexParts, progress: Progress, done: Callable[[int], int], total: int) -> None:
    """Wait until everything that waited is copied; what was given up is drift, which verify finds."""
    while left := (await parts.outbox.backlog(None)).pending_count:
        await progress.at("backfill", done(left), total)
        await asyncio.sleep(_POLL_S)


async def _compare(parts: IndexParts, copy: DerivedIndex, progress: Progress) -> MoveResult:
    """Compare every entry, mending up to `_ROUNDS` times, then answers."""
    for _ in range(_ROUNDS):
        drift = await _verified(parts, copy, progress, repair=True)
        if not drift.found:
            break
        await _drained(parts, progress, lambda _: 0, 0)
    else:
        drift = await _verified(parts, copy, progress, repair=False)
    recall, queries = await _recall(parts, copy)
    return MoveResult(drift=drift, recall=recall, queries=queries)


async def _verified(parts: IndexParts, copy: DerivedIndex, progress: Progress, *, repair: bool) -> Drift:
    drift = Drift()
    async for _, so_far in verify_index(parts, copy, repair=repair):
        drift = so_far
        await progress.at("verify", drift.compared, 0)
    return drift


async def _recall(parts: IndexParts, copy: DerivedIndex) -> tuple[float, int]:
    """Give the share of the exact nearest that the copy finds, over a sample of kept vectors, and its size."""
    counts = await parts.truth.counts(parts.model_id)
    biggest = sorted(counts, key=lambda tenant: -counts[tenant])[:_SAMPLED_TENANTS]
    found = wanted = queries = 0
    for tenant in biggest:
        page = await parts.truth.page(tenant, parts.model_id, "", 10 * _SAMPLED_QUERIES)
        for entry in page[:: max(1, len(page) // _SAMPLED_QUERIES)]:
            nearest, there = await _nearest(parts, copy, tenant, entry, [each.item_id for each in page])
            wanted += nearest
            found += there
            queries += 1
    return (found / wanted if wanted else 1.0), queries


async def _nearest(
    parts: IndexParts, copy: DerivedIndex, tenant: str, entry: VectorEntry, known_ids: Sequence[str]
) -> tuple[int, int]:
    """Give the number of the exact nearest, and of those the copy finds.

    Near ties count as found: what scores as high as the worst of the exact ones is as good. What is
    not found is asked for again without the hits that wait to be copied: writes go on meanwhile.
    """
    scope = IndexScope(tenant=tenant, principal_ids=frozenset(entry.acl))
    seen, wanted, found = {*known_ids}, 0, 0
    for _ in range(LOOKS):
        query = VectorQuery(
            model_id=parts.model_id,
            vector=entry.vector,
            limit=_TOP,
            path_ids=None,
            excluded_ids=await parts.outbox.pending(tenant, sorted(seen)),
            include_cold=True,
        )
        exact, got = await parts.truth.search(scope, query), await copy.search(scope, query)
        worst = exact.hits[-1].score - 1e-3 if exact.hits else 0.0
        wanted = len(exact.hits)
        found = min(wanted, sum(hit.score >= worst for hit in got.hits))
        if found == wanted:
            break
        seen |= {hit.item_id for hit in exact.hits}
    return wanted, found


def _other(backend: Backend) -> Backend:
    return Backend.PGVECTOR if backend is Backend.QDRANT else Backend.QDRANT


def _ended(now: Backends) -> Backends:
    return replace(now, feeding=now.serving is Backend.QDRANT, phase=Phase.NONE, target=None)
