"""Circuits, bulkheads and fallbacks: an upstream that is away is left alone, and nothing is taken for done."""

import asyncio
from dataclasses import dataclass

import pytest
from memoryos_toolgateway.errors import SkillFileInvalid
from memoryos_toolgateway.operations.upstream_gate import GateLimits, UpstreamClosed, UpstreamGate

from .bench import Bench, skill_document, write_skills
from .policies import allow, review

pytestmark = pytest.mark.integration
AWAY = "127.0.0.1:1"


@dataclass
class HandClock:
    at: float = 100.0

    def now(self):
        raise AssertionError("circuits know no wall clock")

    def monotonic(self) -> float:
        return self.at


def gate(clock: HandClock, **limits) -> UpstreamGate:
    return UpstreamGate(clock=clock, limits=GateLimits(**({"failures_max": 3, "open_s": 10} | limits)))


async def attempt(found: UpstreamGate, *, failed: bool, tenant: str = "t", upstream: str = "u") -> bool:
    permit = await found.enter(tenant, upstream)
    try:
        return permit.note(failed=failed)
    finally:
        permit.leave()


async def test_failures_in_a_row_open_the_circuit_and_one_probe_closes_it():
    clock = HandClock()
    found = gate(clock)
    await attempt(found, failed=True)
    await attempt(found, failed=True)
    await attempt(found, failed=False)
    assert [await attempt(found, failed=True) for _ in range(3)] == [True, True, False]
    with pytest.raises(UpstreamClosed) as closed:
        await found.enter("t", "u")
    assert (closed.value.error_code, closed.value.retry_after_s) == ("upstream_open", 10)
    await attempt(found, failed=False, tenant="other")
    await attempt(found, failed=False, upstream="other")
    clock.at += 10
    probe = await found.enter("t", "u")
    with pytest.raises(UpstreamClosed):
        await found.enter("t", "u")
    probe.note(failed=True)
    probe.leave()
    with pytest.raises(UpstreamClosed):
        await found.enter("t", "u")
    clock.at += 10
    probe = await found.enter("t", "u")
    probe.leave()  # it was never made
    await attempt(found, failed=False)
    await attempt(found, failed=True)
    assert len(found.circuits) == 1, "what is well is not kept"


async def test_a_slow_upstream_has_no_more_than_its_share():
    found = gate(HandClock(), at_once_max=2, turn_s=0.05)
    permits = [await found.enter("t", "u") for _ in range(2)]
    with pytest.raises(UpstreamClosed) as closed:
        await found.enter("other", "u")
    assert closed.value.error_code == "upstream_busy"
    await found.enter("t", "elsewhere")
    permits[0].leave()
    await found.enter("other", "u")


def ready(bench: Bench, behaviour: str = "ok", effect_class: str = "non_idempotent", **more) -> None:
    write_skills(bench.folder, skill_document("do", behaviour, effect_class, attempts=1, **more))
    bench.policy.rules["do"] = allow


async def test_calls_of_an_open_circuit_end_unsent(bench: Bench):
    bench.limits = GateLimits(failures_max=2, open_s=60)
    ready(bench)
    replica = bench.replica(endpoint=AWAY)
    calls = [await bench.call("do", f"r{n}", replica=replica, name="a") for n in range(3)]
    assert [call.error_code for call in calls] == ["not_sent", "not_sent", "upstream_open"]
    assert [(call.state, call.dispatches) for call in calls] == [("FAILED", 1), ("FAILED", 1), ("FAILED", 0)]
    assert "Do not try again before 60 s" in calls[2].agent_message
    bench.policy.rules["do"] = review
    parked = await bench.call("do", "r9", replica=replica, name="a")
    bench.policy.resolve(parked.id, "approved")
    waits = await bench.call("do", "r9", replica=replica, name="a")
    assert (waits.state, waits.error_code) == ("PARKED", "upstream_open"), "an approval is not lost"
    assert (await bench.call("do", "r9", name="a")).state == "SUCCEEDED", "another replica has no open circuit"


async def test_a_doubt_stays_a_doubt_when_the_circuit_is_open(bench: Bench):
    bench.limits = GateLimits(failures_max=1, open_s=60)
    ready(bench, "drop", "idempotent")
    replica = bench.replica()
    assert (await bench.call("do", replica=replica, name="a")).state == "UNKNOWN"
    again = await bench.call("do", replica=replica, name="a")
    assert (again.state, again.error_code, bench.upstream.effects["a"]) == ("UNKNOWN", "outcome_unknown", 1)


async def test_after_three_equal_failures_the_fallback_answers(bench: Bench):
    ready(bench, effect_class="read", fallback={"kind": "result", "result": {"rate": 1.0}})
    replica = bench.replica(endpoint=AWAY)
    calls = [await bench.call("do", f"r{n}", replica=replica, name="a") for n in range(4)]
    assert [(call.state, call.fallback) for call in calls] == [("FAILED", False)] * 2 + [("SUCCEEDED", True)] * 2
    assert (calls[2].result, calls[2].error_code) == (b'{"rate":1.0}', "not_sent")
    assert await bench.call("do", "r2", replica=replica, name="a") == calls[2]
    other = await bench.call("do", replica=replica, scope=bench.scope("-other"), name="a")
    assert not other.fallback, "each tenant has its own row of failures"


async def test_guidance_and_hand_off_say_what_to_do_and_that_nothing_was_done(bench: Bench):
    for kind in ("guidance", "handoff"):
        ready(bench, fallback={"kind": kind, "text": "请联系财务部 Li。"})
        replica = bench.replica(endpoint=AWAY)
        calls = [await bench.call("do", f"{kind}{n}", replica=replica, name="a") for n in range(3)]
        assert (calls[2].state, calls[2].fallback, calls[2].result) == ("FAILED", True, b"")
        assert calls[2].agent_message == "请联系财务部 Li。"


async def test_no_fallback_hides_an_effect_that_may_have_happened(bench: Bench):
    ready(bench, "drop", fallback={"kind": "guidance", "text": "Ask somebody."})
    calls = [await bench.call("do", f"r{n}", name="a") for n in range(5)]
    assert {(call.state, call.fallback) for call in calls} == {("UNKNOWN", False)}


async def test_a_success_ends_the_row_of_failures(bench: Bench):
    ready(bench, effect_class="read", fallback={"kind": "result", "result": {}})
    replica, well = bench.replica(endpoint=AWAY), bench.replica()
    well.dispatcher.fallbacks = replica.dispatcher.fallbacks
    for number in range(2):
        await bench.call("do", f"r{number}", replica=replica, name="a")
    assert (await bench.call("do", "r2", replica=well, name="a")).result != b"{}"
    assert not (await bench.call("do", "r3", replica=replica, name="a")).fallback


@pytest.mark.parametrize(
    "fallback",
    [
        {"kind": "result", "result": {"done": True}},
        {"kind": "result"},
        {"kind": "guidance"},
        {"kind": "guidance", "text": "x", "result": {}},
        {"kind": "other", "text": "x"},
    ],
)
def test_a_fallback_that_would_lie_or_says_nothing_is_refused(tmp_path, fallback):
    with pytest.raises(SkillFileInvalid):
        write_skills(tmp_path, skill_document("do", "ok", fallback=fallback))


async def test_many_calls_at_once_keep_to_the_bulkhead(bench: Bench):
    bench.limits = GateLimits(at_once_max=2, turn_s=0.05)
    ready(bench, "gate", timeout_s=10)
    replica = bench.replica()
    calls = [asyncio.create_task(bench.call("do", f"r{n}", replica=replica, name=f"n{n}")) for n in range(6)]
    async with asyncio.timeout(20):
        while sum(call.done() for call in calls) < 4:  # the other two are held by their upstream
            await asyncio.wait([call for call in calls if not call.done()], return_when=asyncio.FIRST_COMPLETED)
    busy = [call.result().error_code for call in calls if call.done()]
    bench.upstream.gate.set()
    assert busy == ["upstream_busy"] * 4
    assert sorted(call.state for call in await asyncio.gather(*calls)) == ["FAILED"] * 4 + ["SUCCEEDED"] * 2
