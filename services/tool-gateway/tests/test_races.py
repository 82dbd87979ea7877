"""Two callers, two replicas, a paused sender: one effect, and a row that says the truth."""

import asyncio
import json

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memoryos_testing.postgres import Clone
from memoryos_toolgateway.domain.calls import Call, CallState, Outcome, OutcomeKind
from memoryos_toolgateway.domain.decisions import Action, Verdict
from memoryos_toolgateway.errors import CallDigestMismatch
from memoryos_toolgateway.operations import dispatch_call
from memoryos_toolgateway.ports import Dispatch

from .bench import Bench, skill_document, write_skills
from .policies import allow

pytestmark = pytest.mark.integration
SEND = Verdict(action=Action.SEND, decision_id="dec_again")
TERMS = Dispatch(verdict=SEND, allowance_s=60, timeout_s=1)
DONE = Outcome(kind=OutcomeKind.SUCCEEDED, result=b"{}")


def ready(bench: Bench, behaviour: str = "ok", effect_class: str = "non_idempotent", **more) -> None:
    write_skills(bench.folder, skill_document("do", behaviour, effect_class, **more))
    bench.policy.rules["do"] = allow


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.integers(0, 3)), min_size=2, max_size=8))
async def test_racing_callers_have_one_effect(bench: Bench, callers: list[tuple[int, str, int]]):
    """Whoever calls from whichever replica, with which delay, with the same or other arguments: one effect a name."""
    ready(bench)
    replicas = [bench.replica() for _ in range(3)]
    request_id = f"r{len(bench.upstream.requests)}-{id(callers)}"
    before = sum(bench.upstream.effects.values())

    async def one(replica: int, name: str, delay: int) -> Call | None:
        for _ in range(delay * 5):
            await asyncio.sleep(0)
        try:
            return await bench.call("do", request_id, replica=replicas[replica], name=name)
        except CallDigestMismatch:
            return None

    answers = await asyncio.gather(*(one(*caller) for caller in callers))
    calls = {answer.id: answer for answer in answers if answer}
    assert sum(bench.upstream.effects.values()) - before == 1
    (call,) = calls.values()
    winner = json.loads(call.arguments)["name"]
    assert call.state == "SUCCEEDED"
    assert all((answer is None) == (name != winner) for answer, (_, name, _) in zip(answers, callers, strict=True))


async def sent(bench: Bench, allowance_s: float, effect_class: str = "non_idempotent") -> Call:
    """A call whose sender has journaled DISPATCHED and was not heard of since."""
    ready(bench, effect_class=effect_class)
    real, dispatch_call.CallDispatcher._attempts = dispatch_call.CallDispatcher._attempts, vanish
    try:
        with pytest.raises(Vanished):
            await bench.call("do", name="a")
    finally:
        dispatch_call.CallDispatcher._attempts = real
    await bench.rows(
        "UPDATE toolgateway.calls SET deadline = clock_timestamp() + make_interval(secs => %s) RETURNING id",
        allowance_s,
    )
    await bench.rows("UPDATE toolgateway.dispatched SET deadline = clock_timestamp() + make_interval(secs => %s) "
                     "RETURNING call_id", allowance_s)  # fmt: skip
    call = await bench.call("do", name="a", wait_s=0) if allowance_s > 0 else None
    (row,) = await bench.rows("SELECT id FROM toolgateway.calls")
    return call or await bench.journal.get(bench.scope(), row["id"], with_contents=True)


class Vanished(Exception):
    pass


async def vanish(*_: object) -> Outcome:
    raise Vanished


async def test_within_its_deadline_a_sent_call_is_nobody_elses(lone_bench: Bench):
    call = await sent(lone_bench, 60)
    assert call.state == "DISPATCHED"
    assert await lone_bench.journal.expire(10) == 0
    assert lone_bench.upstream.requests == []


async def test_past_its_deadline_it_is_unknown_and_not_repeated(lone_bench: Bench):
    call = await sent(lone_bench, -1)
    assert (call.state, call.error_code) == ("UNKNOWN", "outcome_unknown")
    assert (await lone_bench.call("do", name="a")).state == "UNKNOWN"
    assert lone_bench.upstream.requests == []
    assert await lone_bench.rows("SELECT * FROM toolgateway.dispatched") == []


@pytest.mark.parametrize("effect_class", ["read", "idempotent", "keyed"])
async def test_past_its_deadline_a_harmless_one_is_sent_again_when_asked_for(bench: Bench, effect_class: str):
    assert (await sent(bench, -1, effect_class)).state == "UNKNOWN"
    done = await bench.call("do", name="a")
    assert (done.state, done.dispatches, bench.upstream.effects["a"]) == ("SUCCEEDED", 2, 1)


async def test_the_sweeper_finds_it_in_every_tenant(lone_bench: Bench):
    ready(lone_bench, "gate", timeout_s=30)
    replica = lone_bench.replica()
    for tenant in ("", "other", "third"):
        call = await lone_bench.call("do", replica=replica, scope=lone_bench.scope(tenant), name="a", wait_s=0.2)
        assert call.state == "DISPATCHED"
    assert await lone_bench.journal.expire(10) == 0
    async with lone_bench.database.unscoped() as tx:
        await tx.execute("UPDATE toolgateway.dispatched SET deadline = clock_timestamp() - interval '1 s'")
    assert await lone_bench.journal.expire(10) == 0, "the row's own deadline rules, not the queue's"
    for tenant in ("", "other", "third"):
        await lone_bench.rows("UPDATE toolgateway.calls SET deadline = clock_timestamp() - interval '1 s' RETURNING id",
                         tenant=lone_bench.tenant + tenant)  # fmt: skip
    assert await lone_bench.journal.expire(2) == 2
    assert await lone_bench.journal.expire(2) == 1
    assert await lone_bench.journal.expire(2) == 0
    kinds = await lone_bench.rows(
        "SELECT kind, outcome, user_name FROM core.audit WHERE outcome = 'UNKNOWN'", tenant=f"{lone_bench.tenant}other"
    )
    assert kinds == [{"kind": "TOOL_RESULT", "outcome": "UNKNOWN", "user_name": "u42"}]
    lone_bench.upstream.gate.set()
    await replica.dispatcher.drain()
    for tenant in ("", "other", "third"):
        late = await lone_bench.call("do", replica=replica, scope=lone_bench.scope(tenant), name="a")
        assert late.state == "SUCCEEDED", "a late answer resolves the doubt"


async def test_a_late_answer_never_changes_what_is_settled(bench: Bench):
    call = await sent(bench, -1, "idempotent")
    again = await bench.journal.dispatch(bench.scope(), call, TERMS)
    assert again is not None
    assert await bench.journal.finish(bench.scope(), call, DONE) is None, "the answer to the first dispatch comes late"
    done = await bench.journal.finish(bench.scope(), again, DONE)
    assert done is not None
    failed = Outcome(kind=OutcomeKind.REFUSED, error_code="upstream_status")
    assert await bench.journal.finish(bench.scope(), again, failed) is None
    assert (await bench.call("do", name="a")).state == "SUCCEEDED"


async def test_every_move_is_one_compare_and_set(bench: Bench):
    ready(bench)
    done = await bench.call("do", name="a")
    for call in (done, type(done)(**{n: getattr(done, n) for n in done.__slots__} | {"state": CallState.PARKED})):
        assert await bench.journal.dispatch(bench.scope(), call, TERMS) is None
        assert await bench.journal.deny(bench.scope(), call, SEND) is None
        assert await bench.journal.park(bench.scope(), call, SEND) is None
    assert await bench.call("do", name="a") == done


LATE = """
CREATE FUNCTION public.late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    NEW.deadline := clock_timestamp(); RETURN NEW;
END $$;
CREATE TRIGGER late BEFORE INSERT OR UPDATE ON toolgateway.calls FOR EACH ROW WHEN (NEW.state = 'DISPATCHED')
    EXECUTE FUNCTION public.late();
"""


async def test_a_sender_whose_time_is_over_by_the_databases_clock_sends_nothing(lone_bench: Bench, database: Clone):
    """A machine that slept does not know it; the database does."""
    ready(lone_bench)
    async with await psycopg.AsyncConnection.connect(database.admin_dsn, autocommit=True) as connection:
        await connection.execute(LATE)
    call = await lone_bench.call("do", name="a")
    assert (call.state, call.error_code) == ("FAILED", "not_sent")
    assert lone_bench.upstream.requests == []


async def test_a_sender_whose_call_another_replica_gave_up_sends_nothing(bench: Bench):
    call = await sent(bench, 60)
    assert await bench.journal.may_send(call, 1)
    assert not await bench.journal.may_send(call, 3600)
    await bench.rows("UPDATE toolgateway.calls SET deadline = clock_timestamp() RETURNING id")
    assert (await bench.call("do", name="a")).state == "UNKNOWN"
    assert not await bench.journal.may_send(call, 0)


async def test_a_sender_that_was_paused_past_its_time_sends_nothing(bench: Bench):
    """SIGSTOP between DISPATCHED and the request: the sender re-checks its time first."""
    ready(bench)
    replica = bench.replica()
    clock = replica.dispatcher.clock

    class Jumping:
        passes = 0

        def now(self):
            return clock.now()

        def monotonic(self) -> float:
            self.passes += 1
            return clock.monotonic() + (3600 if self.passes > 1 else 0)

    replica.dispatcher.clock = Jumping()
    call = await bench.call("do", replica=replica, name="a")
    assert (call.state, call.error_code) == ("FAILED", "not_sent")
    assert bench.upstream.requests == []
