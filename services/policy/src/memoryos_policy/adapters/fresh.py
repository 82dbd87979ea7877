"""Around a decision point: rules that their source has not confirmed lately decide nothing, and faults are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from memoryos_core.clock import Clock

from memoryos_policy.adapters.bundle_source import BundleSource
from memoryos_policy.config import StaleAfter
from memoryos_policy.domain.verdicts import POLICY_STALE, RISKS, Verdict, refusal
from memoryos_policy.ports import PolicyDecisionPoint

CLOCK_SKEW_MAX: Final = timedelta(minutes=5)
"""A confirmation from further ahead than this is none."""


class FreshDecisionPoint:
    """PolicyDecisionPoint whose answers are at most as old as their risk allows.

    The age of a bundle is the time since the later of what OPA was told when it
    was started and what our own reading of the source has confirmed.
    """

    def __init__(self, inner: PolicyDecisionPoint, source: BundleSource, limits: StaleAfter, clock: Clock) -> None:
        self._inner = inner
        self._source = source
        self._limits = limits
        self._clock = clock
        self._faults: Counter[str] = Counter()

    async def decide(self, document: Mapping[str, Any]) -> Verdict:
        """Give the inner verdict with its latest confirmation, or deny policy_stale."""
        verdict = self._confirmed(await self._inner.decide(document))
        if not verdict.undecided:
            verdict = self._unless_stale(verdict, str(document["action"]["risk"]))
        if verdict.undecided:
            self._faults[verdict.reasons[0].code] += 1
        return verdict

    async def probe(self) -> Verdict:
        """Give what stands against deciding anything right now, or a verdict of a bundle."""
        verdict = self._confirmed(await self._inner.probe())
        return verdict if verdict.undecided else self._unless_stale(verdict, RISKS[-1])

    def take_faults(self) -> Mapping[str, int]:
        """Give how often calls were denied for faults of ours since the last time, by reason code."""
        taken, self._faults = self._faults, Counter()
        return taken

    def _confirmed(self, verdict: Verdict) -> Verdict:
        times = [verdict.confirm_time, self._source.confirm_time(verdict.revision) if verdict.revision else None]
        latest = self._clock.now() + CLOCK_SKEW_MAX
        return replace(verdict, confirm_time=max((t for t in times if t is not None and t <= latest), default=None))

    def _unless_stale(self, verdict: Verdict, declared_risk: str) -> Verdict:
        """Judge by the stricter of the risk that the skill declares and the one that the rules see."""
        risk = max(declared_risk, verdict.risk, key=RISKS.index)
        limit_s = getattr(self._limits, risk)
        age = _age(verdict.confirm_time, self._clock.now())
        if age is not None and age <= timedelta(seconds=limit_s):
            return verdict
        known = "never" if age is None else f"{age.total_seconds():.0f} s ago"
        text = f"The source of the rules confirmed them {known}; at {risk} risk {limit_s:g} s is the limit."
        return replace(refusal(POLICY_STALE, text), confirm_time=verdict.confirm_time)


def _age(confirm_time: datetime | None, now: datetime) -> timedelta | None:
    return None if confirm_time is None else max(timedelta(), now - confirm_time)
