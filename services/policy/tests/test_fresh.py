"""Rules that their source has not confirmed lately decide nothing, the sooner the more is at stake (P5)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from memoryos_core.clock import ManualClock
from memoryos_policy.adapters.bundle_source import BundleSource
from memoryos_policy.adapters.fresh import CLOCK_SKEW_MAX, FreshDecisionPoint
from memoryos_policy.bundles import read_files, revision_of
from memoryos_policy.config import StaleAfter
from memoryos_policy.domain.obligations import ReadOnly
from memoryos_policy.domain.verdicts import Effect, Reason, Verdict, policy_error

from .documents import question

START = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = StaleAfter(low=1000, medium=100, high=10, critical=1)


class Rules:
    """A decision point that says what it is told to say."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict

    async def decide(self, document: Mapping[str, Any]) -> Verdict:
        return self.verdict

    async def probe(self) -> Verdict:
        return self.verdict


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rules = tmp_path / "memoryos" / "main" / "main.rego"
    rules.parent.mkdir(parents=True)
    rules.write_text("package memoryos.main\n")
    return tmp_path


def allowed(folder: Path, **changes: Any) -> Verdict:
    verdict = Verdict(
        effect=Effect.ALLOW,
        reasons=(Reason("yes", "memoryos.main", "Yes."),),
        agent_message="",
        obligations=(ReadOnly(),),
        risk="low",
        revision=revision_of(read_files(folder)),
        confirm_time=START,
    )
    return replace(verdict, **changes)


def asking(risk: str) -> dict[str, Any]:
    document = question()
    document["action"]["risk"] = risk
    return document


@pytest.mark.parametrize(("risk", "limit_s"), [("low", 1000), ("medium", 100), ("high", 10), ("critical", 1)])
async def test_what_was_confirmed_too_long_ago_decides_nothing(folder: Path, risk: str, limit_s: int) -> None:
    clock = ManualClock(START)
    point = FreshDecisionPoint(Rules(allowed(folder)), BundleSource(folder, clock), LIMITS, clock)
    clock.advance(limit_s)
    assert (await point.decide(asking(risk))).effect is Effect.ALLOW
    clock.advance(0.001)
    stale = await point.decide(asking(risk))
    assert (stale.effect, stale.revision, stale.obligations, stale.confirm_time) == (Effect.DENY, "", (), START)
    assert [reason.code for reason in stale.reasons] == ["policy_stale"]
    assert stale.undecided
    assert not stale.engine_away
    assert point.take_faults() == {"policy_stale": 1}
    assert point.take_faults() == {}


async def test_the_risk_that_the_rules_see_counts_where_it_is_higher(folder: Path) -> None:
    clock = ManualClock(START + timedelta(seconds=5))
    rules = Rules(allowed(folder, risk="critical"))
    point = FreshDecisionPoint(rules, BundleSource(folder, clock), LIMITS, clock)
    assert (await point.decide(asking("low"))).reasons[0].code == "policy_stale"
    rules.verdict = allowed(folder, risk="low")
    assert (await point.decide(asking("critical"))).reasons[0].code == "policy_stale"
    assert (await point.decide(asking("high"))).effect is Effect.ALLOW


async def test_reading_the_source_again_confirms_what_it_holds_and_nothing_else(folder: Path) -> None:
    clock = ManualClock(START)
    source = BundleSource(folder, clock)
    served = allowed(folder, confirm_time=None)
    point = FreshDecisionPoint(Rules(served), source, LIMITS, clock)
    assert (await point.probe()).reasons[0].code == "policy_stale"  # nobody has confirmed it at all
    await source.read()
    assert not (await point.probe()).undecided
    clock.advance(50)
    assert (await point.probe()).undecided
    assert (await point.decide(asking("medium"))).confirm_time == START
    await source.read()
    assert (await point.decide(asking("critical"))).effect is Effect.ALLOW
    rules = folder / "memoryos" / "main" / "main.rego"
    kept = rules.read_text()
    rules.write_text(kept + "\nallow := true\n")  # what is served is no longer what the source holds
    clock.advance(50)
    await source.read()
    assert (await point.decide(asking("high"))).reasons[0].code == "policy_stale"
    assert (await point.decide(asking("medium"))).effect is Effect.ALLOW
    rules.write_text(kept)
    await source.read()
    assert (await point.decide(asking("critical"))).effect is Effect.ALLOW


async def test_a_source_that_cannot_be_read_confirms_nothing(folder: Path) -> None:
    clock = ManualClock(START)
    source = BundleSource(folder, clock)
    served = allowed(folder)
    point = FreshDecisionPoint(Rules(served), source, LIMITS, clock)
    await source.read()
    (folder / "memoryos" / "main" / "main.rego").unlink()
    clock.advance(200)
    await source.read()
    assert (await point.decide(asking("medium"))).reasons[0].code == "policy_stale"
    assert (await point.decide(asking("low"))).effect is Effect.ALLOW


async def test_a_time_to_come_confirms_nothing(folder: Path) -> None:
    clock = ManualClock(START)
    rules = Rules(allowed(folder, confirm_time=START + CLOCK_SKEW_MAX))
    point = FreshDecisionPoint(rules, BundleSource(folder, clock), LIMITS, clock)
    assert (await point.decide(asking("critical"))).effect is Effect.ALLOW
    rules.verdict = allowed(folder, confirm_time=START + CLOCK_SKEW_MAX + timedelta(seconds=1))
    assert (await point.decide(asking("low"))).reasons[0].code == "policy_stale"


async def test_faults_are_counted_apart_from_what_rules_deny(folder: Path) -> None:
    clock = ManualClock(START)
    rules = Rules(allowed(folder, effect=Effect.DENY, obligations=()))
    point = FreshDecisionPoint(rules, BundleSource(folder, clock), LIMITS, clock)
    await point.decide(asking("low"))
    assert point.take_faults() == {}
    rules.verdict = policy_error("timeout")
    await point.decide(asking("low"))
    await point.decide(asking("low"))
    rules.verdict = policy_error("input")
    await point.decide(asking("low"))
    assert point.take_faults() == {"policy_error:timeout": 2, "policy_error:input": 1}
