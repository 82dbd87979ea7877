"""Calls are listed, watched, withdrawn before they are sent, and settled when their outcome is unknown."""

import asyncio
from dataclasses import replace

import pytest
from memoryos_core.clock import SystemClock
from memoryos_core.errors import InvalidField, InvalidPageToken, LimitExceeded, RoleRequired
from memoryos_core.scope import Scope
from memoryos_testing.scopes import scope_of
from memoryos_toolgateway.adapters.reconciler_http import HttpReconciler
from memoryos_toolgateway.domain.calls import Call, CallState, Outcome, OutcomeKind
from memoryos_toolgateway.domain.decisions import Action, Verdict
from memoryos_toolgateway.errors import CallNotFound, CallNotUnknown, SkillFileInvalid
from memoryos_toolgateway.operations.cancel_call import CancelCall, Proof
from memoryos_toolgateway.operations.list_calls import list_calls
from memoryos_toolgateway.operations.reconcile_call import ReconcileCall
from memoryos_toolgateway.operations.upstream_gate import UpstreamGate
from memoryos_toolgateway.operations.watch_call import CallWatch
from memoryos_toolgateway.ports import CallFilter, Dispatch, Finding

from .bench import Bench, skill_document, write_skills
from .policies import IDS, allow, review

pytestmark = pytest.mark.integration
RECONCILE = {
    "lookup": {"endpoint": "${UPSTREAM}", "path": "/known/{arguments/name}"},
    "happened": {"pointer": "/known", "equals": True},
    "did_not_happen": {"pointer": "/known", "equals": False},
}


def ready(bench: Bench, behaviour: str = "ok", effect_class: str = "non_idempotent", **more) -> None:
    write_skills(bench.folder, skill_document("do", behaviour, effect_class, **more))
    bench.policy.rules["do"] = allow


def cancelling(bench: Bench) -> CancelCall:
    return CancelCall(journal=bench.journal, book=bench.book, ids=IDS)


def reconciling(bench: Bench) -> ReconcileCall:
    return ReconcileCall(
        journal=bench.journal,
        book=bench.book,
        reconciler=HttpReconciler(bench.edge),
        registry=bench.replica().registry,
        gate=UpstreamGate(clock=SystemClock()),
    )


def with_roles(bench: Bench, *roles: str, user: str = "boss") -> Scope:
    return replace(scope_of(bench.tenant, user=user), roles=frozenset(roles), chain=())


async def parked(bench: Bench) -> Call:
    ready(bench)
    bench.policy.rules["do"] = review
    return await bench.call("do", name="a")


async def test_calls_are_listed_newest_first_in_pages(bench: Bench):
    ready(bench)
    for number in range(5):
        await bench.call("do", f"r{number}", name=f"n{number}")
    scope, seen, token = bench.scope(), [], ""
    while True:
        page, token = await list_calls(bench.journal, bench.book, scope, CallFilter(), (2, token))
        seen += page
        if not token:
            break
    assert [call.request_id for call in seen] == ["r4", "r3", "r2", "r1", "r0"]
    assert all((call.arguments, call.result, call.state) == (b"", b"", "SUCCEEDED") for call in seen)
    _, token = await list_calls(bench.journal, bench.book, scope, CallFilter(), (2, ""))
    with pytest.raises(InvalidPageToken):
        await list_calls(bench.journal, bench.book, scope, CallFilter(skill="do"), (2, token))


async def test_a_list_shows_what_is_ones_own(bench: Bench):
    ready(bench)
    await bench.call("do", name="a")
    await bench.call("do", name="b", scope=scope_of(bench.tenant, user="u7"))

    async def seen(scope: Scope, **wanted) -> list[str]:
        found, _ = await list_calls(bench.journal, bench.book, scope, CallFilter(**wanted), (0, ""))
        return sorted(call.user for call in found)

    assert await seen(bench.scope()) == ["u42"]
    assert await seen(scope_of(bench.tenant, user="u9")) == []
    assert await seen(bench.scope("-other")) == []
    assert await seen(replace(bench.scope(), chain=(*bench.scope().chain, "below"))) == []
    for role in ("auditor", "operator"):
        assert await seen(with_roles(bench, role)) == ["u42", "u7"]
    assert await seen(with_roles(bench, "auditor"), state=CallState.UNKNOWN) == []
    assert await seen(with_roles(bench, "auditor"), skill="do", state=CallState.SUCCEEDED) == ["u42", "u7"]
    assert await seen(with_roles(bench, "auditor"), session_id="' OR 1=1 --") == []


async def test_a_watch_tells_every_change_until_the_end(bench: Bench):
    call = await parked(bench)
    watch = CallWatch(journal=bench.journal, seconds_max=20, at_once_max=1)
    states: list[str] = []
    waiting = asyncio.Event()

    async def look() -> None:
        async for seen in watch.run(bench.scope(), call.id):
            states.append(seen.state)
            waiting.set()

    looking = asyncio.create_task(look())
    await asyncio.wait_for(waiting.wait(), 10)
    with pytest.raises(LimitExceeded):
        await anext(watch.run(bench.scope(), call.id))
    bench.policy.resolve(call.id, "approved")
    await bench.call("do", name="a")
    await asyncio.wait_for(looking, 10)
    assert (states[0], states[-1], watch.watching) == ("PARKED", "SUCCEEDED", 0)
    with pytest.raises(CallNotFound):
        await anext(watch.run(scope_of(bench.tenant, user="u9"), call.id))


async def test_a_waiting_call_is_withdrawn_for_good(bench: Bench):
    call = await parked(bench)
    ended, proof = await cancelling(bench).by_id(bench.scope(), call.id)
    assert (ended.state, ended.error_code, proof) == ("CANCELLED", "cancelled", Proof.NOT_SENT)
    bench.policy.resolve(call.id, "approved")
    assert (await bench.call("do", name="a")).state == "CANCELLED"
    assert bench.upstream.requests == []
    assert (await cancelling(bench).by_id(bench.scope(), call.id))[1] is Proof.ENDED_UNSENT
    steps = [row["s"] for row in await bench.rows("SELECT attributes->>'state' AS s FROM core.audit ORDER BY seq")]
    assert steps == ["parked", "cancelled", "cancelled"]


async def test_a_call_that_has_not_come_is_refused_when_it_comes(bench: Bench):
    ready(bench)
    scope = bench.scope()
    first, proof = await cancelling(bench).by_request(scope, scope.actor, "r1")
    assert (first.state, proof) == ("CANCELLED", Proof.NOT_SENT)
    again, proof = await cancelling(bench).by_request(scope, scope.actor, "r1")
    assert (again.id, proof) == (first.id, Proof.ENDED_UNSENT)
    late = await bench.call("do", "r1", name="a")
    assert (late.id, late.state) == (first.id, "CANCELLED")
    assert bench.upstream.requests == []
    assert (await bench.call("do", "r2", name="a")).state == "SUCCEEDED"


async def test_what_was_sent_is_not_withdrawn(bench: Bench):
    ready(bench)
    done = await bench.call("do", name="a")
    ended, proof = await cancelling(bench).by_id(bench.scope(), done.id)
    assert (ended.state, proof) == ("SUCCEEDED", Proof.SENT)
    ended, proof = await cancelling(bench).by_request(bench.scope(), bench.scope().actor, "r1")
    assert (ended.id, proof) == (done.id, Proof.SENT)
    for stranger in (scope_of(bench.tenant, user="u9"), with_roles(bench, "auditor")):
        with pytest.raises(CallNotFound):
            await cancelling(bench).by_id(stranger, done.id)


async def test_of_withdrawal_and_dispatch_one_wins(bench: Bench):
    ready(bench)
    for number in range(12):
        request = f"r{number}"
        bench.policy.rules["do"] = review
        call = await bench.call("do", request, name=request)
        bench.policy.resolve(call.id, "approved")
        answer, (ended, proof) = await asyncio.gather(
            bench.call("do", request, name=request), cancelling(bench).by_id(bench.scope(), call.id)
        )
        sent = bench.upstream.effects[request]
        assert (answer.state, proof, sent) in [("SUCCEEDED", Proof.SENT, 1), ("CANCELLED", Proof.NOT_SENT, 0)]
        assert ended.state in (answer.state, "DISPATCHED")


async def in_doubt(bench: Bench, behaviour: str, *, over: bool = True, **more) -> Call:
    """A call whose answer was lost; `over`: its upstream must have let go of it."""
    wanted = {"reconcile": RECONCILE, "effect_class": "non_idempotent"} | more
    ready(bench, behaviour, attempts=1, **{name: value for name, value in wanted.items() if value is not None})
    call = await bench.call("do", name="a")
    assert call.state == "UNKNOWN"
    if over:
        await let_go(bench)
    return call


async def let_go(bench: Bench) -> None:
    await bench.rows("UPDATE toolgateway.calls SET settle_time = clock_timestamp() RETURNING id")
    async with bench.database.unscoped() as tx:
        await tx.execute("UPDATE toolgateway.doubts SET due_time = clock_timestamp()")


async def test_the_upstream_is_asked_what_became_of_a_call(bench: Bench):
    call = await in_doubt(bench, "drop")
    settled = await reconciling(bench).ask(bench.scope(), call.id)
    assert (settled.state, settled.result) == ("SUCCEEDED", b'{"reconciled":true}')
    assert (bench.upstream.effects["a"], await bench.call("do", name="a")) == (1, settled)
    (row,) = await bench.rows("SELECT by_user, outcome, comment FROM toolgateway.reconciliations")
    assert row == {"by_user": "", "outcome": "happened", "comment": None}
    with pytest.raises(CallNotUnknown):
        await reconciling(bench).ask(bench.scope(), call.id)


async def test_what_did_not_happen_has_failed(bench: Bench):
    call = await in_doubt(bench, "lost")
    settled = await reconciling(bench).ask(bench.scope(), call.id)
    assert (settled.state, settled.error_code, settled.result) == ("FAILED", "did_not_happen", b"")


async def test_nothing_is_settled_while_it_could_still_happen(bench: Bench):
    call = await in_doubt(bench, "lost", over=False)
    assert (await reconciling(bench).ask(bench.scope(), call.id)).state == "UNKNOWN"
    with pytest.raises(CallNotUnknown):
        await reconciling(bench).say(with_roles(bench, "operator"), call.id, happened=False, comment="I saw it")
    assert await bench.rows("SELECT 1 FROM toolgateway.reconciliations") == []


async def test_an_upstream_that_does_not_tell_leaves_the_doubt(bench: Bench):
    nonsense = RECONCILE | {"lookup": {"endpoint": "${UPSTREAM}", "path": "/hang/{call_id}", "timeout_s": 0.2}}
    call = await in_doubt(bench, "drop", reconcile=nonsense)
    assert (await reconciling(bench).ask(bench.scope(), call.id)).state == "UNKNOWN"


async def test_a_person_with_the_role_and_a_reason_may_say(bench: Bench):
    call = await in_doubt(bench, "drop", reconcile=None)
    say = reconciling(bench).say
    with pytest.raises(RoleRequired):
        await say(bench.scope(), call.id, happened=True, comment="trust me")
    with pytest.raises(RoleRequired):
        await say(replace(with_roles(bench, "operator"), chain=("agent",)), call.id, happened=True, comment="I am one")
    with pytest.raises(InvalidField):
        await say(with_roles(bench, "operator"), call.id, happened=True, comment="  ")
    with pytest.raises(CallNotFound):
        await say(
            replace(with_roles(bench, "operator"), tenant=bench.tenant + "-o"), call.id, happened=True, comment="x"
        )
    settled = await say(with_roles(bench, "tenant-admin"), call.id, happened=True, comment="canary-c0ffee")
    assert (settled.state, settled.result) == ("SUCCEEDED", b""), "whose call it is not sees no contents"
    (row,) = await bench.rows("SELECT by_user, comment FROM toolgateway.reconciliations")
    assert row["by_user"] == "boss"
    assert b"canary" not in row["comment"]
    audit = await bench.rows("SELECT kind, user_name FROM core.audit WHERE kind = 'ADMIN_ACT'")
    assert audit == [{"kind": "ADMIN_ACT", "user_name": "boss"}]
    assert "canary" not in repr(await bench.rows("SELECT * FROM core.audit"))


async def test_a_dispatched_call_is_not_settled(bench: Bench):
    ready(bench, "gate", timeout_s=10)
    replica = bench.replica()
    call = await bench.call("do", replica=replica, name="a", wait_s=0.3)
    with pytest.raises(CallNotUnknown):
        await reconciling(bench).say(with_roles(bench, "operator"), call.id, happened=False, comment="gone")
    bench.upstream.gate.set()
    await replica.dispatcher.drain()


async def test_a_late_answer_and_a_person_settle_it_once(bench: Bench):
    call = await in_doubt(bench, "drop", reconcile=None)
    said = reconciling(bench).say(with_roles(bench, "operator"), call.id, happened=False, comment="no entry")
    late = bench.journal.finish(bench.scope(), call, Outcome(kind=OutcomeKind.SUCCEEDED, result=b"{}"))
    results = await asyncio.gather(said, late, return_exceptions=True)
    settled = await bench.call("do", name="a")
    assert settled.state in ("FAILED", "SUCCEEDED")
    assert sum(isinstance(found, Call) for found in results) == 1


async def test_a_call_that_was_sent_again_is_not_settled_by_an_old_doubt(bench: Bench):
    call = await in_doubt(bench, "lost", effect_class="keyed")
    verdict = Verdict(action=Action.SEND, decision_id="dec_again")
    again = await bench.journal.dispatch(bench.scope(), call, Dispatch(verdict=verdict, allowance_s=60, timeout_s=1))
    assert again is not None
    found = await bench.book.settle(bench.scope(), call, Finding(happened=False))
    assert found is None


async def test_the_sweeper_settles_by_itself(lone_bench: Bench):
    bench = lone_bench
    call = await in_doubt(bench, "drop")
    sweeping = asyncio.create_task(reconciling(bench).sweep(0.05))
    async with asyncio.timeout(20):
        while (await bench.call("do", name="a")).state == "UNKNOWN":  # noqa: ASYNC110 -- the sweeper has no event
            await asyncio.sleep(0.05)
    sweeping.cancel()
    assert (await bench.call("do", name="a")).id == call.id
    async with bench.database.unscoped() as tx:
        assert await tx.fetch_all("SELECT * FROM toolgateway.doubts") == []


async def test_what_only_a_person_can_tell_is_asked_once(lone_bench: Bench):
    bench = lone_bench
    await in_doubt(bench, "drop", reconcile=None)
    (doubt,) = await bench.book.doubts(10)
    assert await bench.book.doubts(10) == [], "put off while it is asked about"
    await reconciling(bench)._sweep_one(doubt)
    await let_go(bench)
    assert await bench.book.doubts(10) == []
    assert (await bench.call("do", name="a")).state == "UNKNOWN"


@pytest.mark.parametrize(
    "reconcile",
    [
        RECONCILE | {"did_not_happen": RECONCILE["happened"]},
        RECONCILE | {"happened": {}},
        RECONCILE | {"happened": {"pointer": "/known"}},
        RECONCILE | {"lookup": {"endpoint": "${UPSTREAM}", "path": "/known/{arguments/undeclared}"}},
        RECONCILE | {"lookup": {"endpoint": "${UPSTREAM}", "path": "/known/{name}"}},
    ],
)
def test_a_reconciliation_that_cannot_tell_is_refused(tmp_path, reconcile):
    with pytest.raises(SkillFileInvalid):
        write_skills(tmp_path, skill_document("do", "ok", reconcile=reconcile))
