"""A task from question to answer, as its user sees it."""

import asyncio
from datetime import UTC, datetime

from memoryos.harness.v1 import sessions_pb2, tasks_pb2
from memoryos_harness.ports import RecalledItem
from memoryos_models.scripted import ScriptedReply

from .world import ENDED, eventually, refused

KINDS = tasks_pb2.StepKind


async def test_a_task_recalls_asks_calls_and_answers(world) -> None:
    world.memory.items.append(
        ("/tenants/acme/memory/episodic/u42", RecalledItem(id="mem_1", content="VIP 客户先走特批流", score=0.9,
                                                           valid_from="", trusted=True))
    )  # fmt: skip
    user = world.client()
    task = await user.submit("use:mes__takt A")
    assert task.state == tasks_pb2.TASK_STATE_IDLE
    async with world.worker():
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED, ended
    assert '"takt_s": 42' in ended.output
    assert world.tools.effects == {"mes.takt": 1}
    steps = await user.steps(task.id)
    assert [step.kind for step in steps] == [
        KINDS.STEP_KIND_MEMORY_READ,
        KINDS.STEP_KIND_MODEL_CALL,
        KINDS.STEP_KIND_TOOL_CALL,
        KINDS.STEP_KIND_MODEL_CALL,
    ]
    assert [step.sequence for step in steps] == [1, 2, 3, 4]
    assert list(steps[0].item_ids) == ["mem_1"]
    assert steps[2].call_id
    assert steps[2].decision_id
    assert all(step.state == tasks_pb2.STEP_STATE_DONE for step in steps)
    messages = await user.messages()
    assert [(m.role, m.content) for m in messages] == [
        (sessions_pb2.MESSAGE_ROLE_USER, "use:mes__takt A"),
        (sessions_pb2.MESSAGE_ROLE_ASSISTANT, ended.output),
    ]


async def test_the_model_hears_a_refusal_as_one_safe_sentence(world) -> None:
    user = world.client()
    task = await user.submit("use:ticket__delete A")
    async with world.worker():
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED
    assert ended.output == 'answer: {"message": "This ticket may not be deleted.", "status": "refused"}'
    assert not world.tools.effects
    (call,) = [step for step in await user.steps(task.id) if step.kind == KINDS.STEP_KIND_TOOL_CALL]
    assert call.state == tasks_pb2.STEP_STATE_FAILED


async def test_a_lost_answer_is_not_known_and_never_asked_for_again(world) -> None:
    user = world.client()
    task = await user.submit("use:mail__send A")
    async with world.worker():
        ended = await user.ended(task.id)
    assert '"status": "unknown"' in ended.output
    assert world.tools.effects == {"mail.send": 1}
    assert max(world.tools.looks.values()) == 1


async def test_a_call_in_flight_is_looked_at_until_it_ends(world) -> None:
    user = world.client()
    task = await user.submit("use:slow__report A")
    async with world.worker():
        ended = await user.ended(task.id)
    assert '"takt_s": 42' in ended.output
    assert world.tools.effects == {"slow.report": 1}
    assert len(world.tools.calls) == 1


async def test_a_refusal_at_the_door_says_nothing_of_an_asking_before_it(world) -> None:
    world.tools.shut_after = 1
    user = world.client()
    first = await user.submit("use:slow__report A")
    async with world.worker():
        assert '"status": "unknown"' in (await user.ended(first.id)).output
        world.tools.shut_after = 0
        second = await user.submit("use:mail__send A")
        assert '"status": "refused"' in (await user.ended(second.id)).output
    assert world.tools.effects == {}


async def test_a_parked_call_waits_without_a_lease_and_runs_once_when_approved(world) -> None:
    user = world.client()
    task = await user.submit("use:refund__pay A")
    async with world.worker():
        waiting = await user.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
        (request_id,) = world.tools.parked
        (step,) = [s for s in await user.steps(task.id) if s.kind == KINDS.STEP_KIND_TOOL_CALL]
        assert step.id == request_id
        assert step.state == tasks_pb2.STEP_STATE_STARTED
        assert step.review_id
        await eventually(lambda: _async(world.reviews.looks > 2))
        assert world.tools.looks[request_id] == 1  # while a person thinks, nothing is asked of the gateway
        assert not world.tools.effects
        world.tools.approved.add(request_id)
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED
    assert ended.attempt == 1
    assert ended.lease_epoch > waiting.lease_epoch
    assert world.tools.effects == {"refund.pay": 1}
    states = [event.state for event in await user.watch(task.id)]
    assert states.count(tasks_pb2.TASK_STATE_WAITING_REVIEW) == 1  # looking again is no event


async def test_a_refused_review_is_a_refusal_to_the_model(world) -> None:
    user = world.client()
    task = await user.submit("use:refund__pay A")
    async with world.worker():
        await user.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
        world.tools.denied.update(world.tools.parked)
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED
    assert '"status": "refused"' in ended.output
    assert not world.tools.effects


async def test_a_gateway_that_is_away_does_not_end_a_wait(world) -> None:
    user = world.client()
    task = await user.submit("use:refund__pay A")
    async with world.worker():
        await user.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
        (request_id,) = world.tools.parked
        world.tools.down = world.reviews.down = True
        epoch = (await user.get(task.id)).lease_epoch
        still = await user.until(task.id, lambda t: t.lease_epoch > epoch + 3)
        assert still.state == tasks_pb2.TASK_STATE_WAITING_REVIEW
        world.tools.down = world.reviews.down = False
        world.tools.approved.add(request_id)
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED
    assert world.tools.effects == {"refund.pay": 1}


async def test_the_same_submission_is_one_task_also_when_it_comes_ten_times_at_once(world) -> None:
    user = world.client()
    await user.start_session()
    tasks = await asyncio.gather(*(user.submit("hello", "plain", request_id="r1") for _ in range(10)))
    assert len({task.id for task in tasks}) == 1
    assert len(await user.messages()) == 1
    async with refused("REQUEST_ID_REUSED"):
        await user.submit("other", "plain", request_id="r1")
    async with world.worker():
        ended = await user.ended(tasks[0].id)
    assert ended.output == "echo: hello"
    assert (await user.submit("hello", "plain", request_id="r1")).id == tasks[0].id
    assert len(await user.messages()) == 2


async def test_others_find_nothing_of_a_task(world) -> None:
    owner = world.client()
    task = await owner.submit("use:refund__pay A")
    async with world.worker():
        await owner.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
        strangers = (
            world.client("u7"),
            world.client(tenant="other"),
            world.client("u7", roles=("user", "agent", "auditor", "tenant-admin", "operator")),
        )
        for stranger in strangers:
            async with refused("TASK_NOT_FOUND"):
                await stranger.get(task.id)
            async with refused("TASK_NOT_FOUND"):
                await stranger.cancel(task.id)
            async with refused("TASK_NOT_FOUND"):
                await stranger.watch(task.id)
            async with refused("TASK_NOT_FOUND"):
                await stranger.steps(task.id)
            async with refused("SESSION_NOT_FOUND"):
                await stranger.submit("hi", session_id=owner.session_id)
        assert (await owner.get(task.id)).state == tasks_pb2.TASK_STATE_WAITING_REVIEW
        await owner.cancel(task.id)


async def test_an_unknown_agent_is_refused(world) -> None:
    async with refused("AGENT_NOT_FOUND"):
        await world.client().submit("hi", "nobody")
    async with refused("SESSION_NOT_FOUND"):
        await world.client().submit("hi", session_id="ses_00000000000000000000000000")


async def test_an_agent_that_asks_for_more_than_the_grant_is_refused(world) -> None:
    narrow = world.client(read_paths=("/tenants/acme/memory/episodic/u42",), write_paths=())
    async with refused("NOT_ALLOWED"):
        await narrow.submit("hi", "grabby")
    async with refused("NOT_ALLOWED"):  # its write path is not in the grant
        await narrow.submit("hi", "helper")
    assert (await narrow.submit("hi", "plain")).id


async def test_the_token_of_a_task_is_the_grant_narrowed_to_the_agent(world) -> None:
    user = world.client(roles=("user", "reviewer", "auditor"), groups=frozenset({"sales-east"}), clearance=3)
    task = await user.submit("use:mes__takt A")
    async with world.worker():
        await user.ended(task.id)
    for seen in world.tools.identities:
        assert (seen.tenant, seen.user, seen.clearance) == ("acme", "u42", 3)
        assert seen.roles == {"agent", "user"}
        assert seen.groups == {"sales-east"}
        assert seen.chain == ("helper",)
        assert (seen.session_id, seen.task_id) == (user.session_id, task.id)
        own = f"/tenants/acme/memory/working/u42/{task.id}"
        assert seen.read_paths == seen.write_paths == ("/tenants/acme/memory/episodic/u42", own)
        assert seen.issuer == "memoryos-harness"
        assert (seen.expire_time - datetime.now(UTC)).total_seconds() <= 300


async def test_an_agent_of_an_agent_acts_for_the_same_user_with_a_longer_chain(world) -> None:
    outer = world.client(roles=("agent",), chain=("boss", "deputy"))
    task = await outer.submit("use:mes__takt A")
    async with world.worker():
        ended = await outer.ended(task.id)
    assert list(ended.actor.agent_chain) == ["boss", "deputy", "helper"]
    assert {seen.chain for seen in world.tools.identities} == {("boss", "deputy", "helper")}
    assert {seen.roles for seen in world.tools.identities} == {frozenset({"agent"})}


async def test_cancel_before_any_worker_ends_the_task_at_once(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    cancelled = await user.cancel(task.id, "c1")
    assert cancelled.state == tasks_pb2.TASK_STATE_CANCELLED
    assert (await user.cancel(task.id, "c1")).state == tasks_pb2.TASK_STATE_CANCELLED
    assert (await user.cancel(task.id, "c2")).state == tasks_pb2.TASK_STATE_CANCELLED
    events = await user.watch(task.id)
    assert [e.state for e in events] == [
        tasks_pb2.TASK_STATE_IDLE,
        tasks_pb2.TASK_STATE_CANCELLING,
        tasks_pb2.TASK_STATE_CANCELLED,
    ]
    other = await user.submit("hello", "plain")
    async with world.worker():
        await user.ended(other.id)
    assert (await user.get(task.id)).state == tasks_pb2.TASK_STATE_CANCELLED
    assert not world.tools.calls
    async with refused("TASK_ENDED"):
        await user.cancel(other.id)


async def test_cancel_while_a_person_is_asked_means_the_call_never_runs(world) -> None:
    user = world.client()
    task = await user.submit("use:refund__pay A")
    async with world.worker():
        await user.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
        (request_id,) = world.tools.parked
        await user.cancel(task.id)
        ended = await user.ended(task.id)
        assert ended.state == tasks_pb2.TASK_STATE_CANCELLED
        world.tools.approved.add(request_id)
        other = await user.submit("hello", "plain")
        await user.ended(other.id)
    assert not world.tools.effects
    assert (await user.get(task.id)).state == tasks_pb2.TASK_STATE_CANCELLED
    states = [e.state for e in await user.watch(task.id)]
    assert states[-1] == tasks_pb2.TASK_STATE_CANCELLED
    assert sum(state in ENDED for state in states) == 1


async def test_cancel_during_a_model_call_ends_it_early(world) -> None:
    world.model.script = lambda request: ScriptedReply(content="late", delay_s=30)
    user = world.client()
    task = await user.submit("hello", "plain")
    async with world.worker():
        await user.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_THINKING)
        asked = await user.cancel(task.id)
        assert asked.state == tasks_pb2.TASK_STATE_CANCELLING
        ended = await user.ended(task.id, 5)
    assert ended.state == tasks_pb2.TASK_STATE_CANCELLED
    assert len(await user.messages()) == 1


async def test_cancel_during_an_effect_keeps_what_was_done(world) -> None:
    world.tools.hold = asyncio.Event()
    user = world.client()
    task = await user.submit("use:mes__takt A")
    async with world.worker():
        await eventually(lambda: _async(world.tools.effects))
        assert (await user.cancel(task.id)).state == tasks_pb2.TASK_STATE_CANCELLING
        world.tools.hold.set()
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_CANCELLED
    (call,) = [step for step in await user.steps(task.id) if step.kind == KINDS.STEP_KIND_TOOL_CALL]
    assert call.state == tasks_pb2.STEP_STATE_DONE
    assert b"42" in call.output_json


async def test_a_watcher_goes_on_where_it_stopped(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    watching = asyncio.create_task(user.watch(task.id))
    async with world.worker():
        events = await watching
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert events[-1].state == tasks_pb2.TASK_STATE_SUCCEEDED
    assert sum(event.state in ENDED for event in events) == 1
    middle = await user.watch(task.id, after=3)
    assert [event.sequence for event in middle] == [event.sequence for event in events[3:]]
    assert await user.watch(task.id, after=len(events)) == []
    assert await user.watch(task.id, after=10**6) == []
    assert any(event.step.id for event in events)


async def test_steps_come_in_pages_that_belong_to_their_reader(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    async with world.worker():
        await user.ended(task.id)
    seen, token = [], ""
    while True:
        answer = await user.tasks.ListSteps(
            tasks_pb2.ListStepsRequest(task_id=task.id, page_size=3, page_token=token), metadata=user.metadata
        )
        seen += [step.sequence for step in answer.steps]
        token = answer.next_page_token
        if not token:
            break
        kept = token
    assert seen == [1, 2, 3, 4]
    other = await user.submit("hello", "plain")
    async with refused("INVALID_PAGE_TOKEN"):
        await user.tasks.ListSteps(
            tasks_pb2.ListStepsRequest(task_id=other.id, page_token=kept), metadata=user.metadata
        )


async def _async(value):
    return value


async def test_a_task_is_bound_to_its_places_while_it_lives(world) -> None:
    place = "/tenants/acme/memory/episodic/u42"

    async def parked() -> list[str]:
        return world.tools.parked

    async def unbound() -> list[str]:
        return world.memory.unbound

    user = world.client()
    task = await user.submit("use:refund__pay A")
    async with world.worker():
        (call,) = await eventually(parked)
        own = f"/tenants/acme/memory/working/u42/{task.id}"
        assert world.memory.bound == {task.id: ((place, own), (place, own))}
        assert world.memory.unbound == []
        world.tools.approved.add(call)
        ended = await user.ended(task.id)
        await eventually(unbound)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED
    assert world.memory.unbound == [task.id]
    assert world.memory.bound == {}
