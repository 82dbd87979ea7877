"""Strategies and failures on a real harness: what is journaled, what the model is told, what a wait and a cancel do."""

import json
from itertools import pairwise

import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_models.scripted import ScriptedCall, ScriptedReply
from psycopg import AsyncConnection

from .scripts import AGENTS, call, last_said, many_calls, once, plan_script, replies_of
from .world import eventually, make_world, serving, tool_answers, write_agents

KINDS = tasks_pb2.StepKind


@pytest.fixture
async def world(tmp_path, database):
    async with make_world(tmp_path, database) as made:
        write_agents(made.folder / "agents", AGENTS)
        async with serving(made):
            yield made


async def run(world, agent: str, script, text: str = "please"):
    world.model.script = script
    user = world.client()
    task = await user.submit(text, agent)
    async with world.worker():
        ended = await user.ended(task.id, 60)
    return user, ended, await user.steps(task.id)


async def row(world, query: str) -> tuple:
    async with await AsyncConnection.connect(world.database.admin_dsn) as admin:
        found = await (await admin.execute(query.encode())).fetchone()
    assert found is not None
    return found


def given(step) -> dict:
    return json.loads(step.input_json)


def output(step) -> dict:
    return json.loads(step.output_json)


def of_kind(steps, kind) -> list:
    return [step for step in steps if step.kind == kind]


async def test_a_call_that_failed_is_made_again_as_a_step_and_a_call_of_its_own(world) -> None:
    world.tools.failing["mes.takt"] = ["not_sent", "upstream_unavailable"]
    _, ended, steps = await run(world, "trying", once("mes__takt"))
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED, ended
    assert '"takt_s": 42' in ended.output
    calls = of_kind(steps, KINDS.STEP_KIND_TOOL_CALL)
    assert [given(step)["try"] for step in calls] == [1, 2, 3]
    assert [given(step).get("because") for step in calls] == [None, "retry", "retry"]
    assert [given(step).get("of") for step in calls] == [None, calls[0].sequence, calls[1].sequence]
    assert [given(step).get("wait_s") for step in calls] == [None, 0.05, 0.1]
    assert len({step.call_id for step in calls}) == 3
    assert world.tools.effects == {"mes.takt": 1}
    for failed, again in pairwise(calls):
        waited = (again.create_time.ToDatetime() - failed.end_time.ToDatetime()).total_seconds()
        assert waited >= given(again)["wait_s"] * 0.95  # by two clocks of one machine
    _, second = world.model.requests
    assert len(tool_answers(second)) == 1  # the model is told of the last try only


async def test_a_long_wait_gives_the_lease_back_and_survives_its_worker(world) -> None:
    world.tools.failing["mes.takt"] = ["not_sent"]
    world.model.script = once("mes__takt")
    user = world.client()
    task = await user.submit("please", "patient")

    async def failed() -> bool:
        return any(s.state == tasks_pb2.STEP_STATE_FAILED for s in await user.steps(task.id))

    async def given_back() -> bool:
        return await failed() and await row(world, "SELECT lease_holder FROM harness.tasks") == (None,)

    async with world.worker(wait_in_place_s=0.1):
        await eventually(given_back)
    async with world.worker(wait_in_place_s=0.1):
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED
    first, second = of_kind(await user.steps(task.id), KINDS.STEP_KIND_TOOL_CALL)
    assert (second.create_time.ToDatetime() - first.end_time.ToDatetime()).total_seconds() > 3.9
    assert ended.attempt == 1  # a wait is no failed attempt


@pytest.mark.parametrize("in_place_s", [0.1, 60.0])
async def test_a_cancel_ends_a_wait_at_once(world, in_place_s) -> None:
    world.tools.failing["mes.takt"] = ["not_sent"]
    world.model.script = once("mes__takt")
    user = world.client()
    task = await user.submit("please", "endless")

    async def failed() -> bool:
        return any(s.state == tasks_pb2.STEP_STATE_FAILED for s in await user.steps(task.id))

    async with world.worker(wait_in_place_s=in_place_s):
        await eventually(failed)
        await user.cancel(task.id)
        ended = await user.ended(task.id, 5)
    assert ended.state == tasks_pb2.TASK_STATE_CANCELLED
    assert not world.tools.effects


async def test_a_hand_off_lets_the_task_rest_with_its_step_open(world) -> None:
    world.tools.failing["mes.takt"] = ["upstream_status"]
    world.model.script = once("mes__takt")
    user = world.client()
    task = await user.submit("please", "handing")
    async with world.worker():
        rests = await user.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_PAUSED)
        (step,) = of_kind(await user.steps(task.id), KINDS.STEP_KIND_HAND_OFF)
        assert step.state == tasks_pb2.STEP_STATE_STARTED
        assert (given(step)["skill"], given(step)["code"]) == ("mes.takt", "upstream_status")
        assert rests.end_time.ToSeconds() == 0
        assert len(world.model.requests) == 1


async def test_equal_failures_end_the_loop(world) -> None:
    _, ended, steps = await run(world, "trying", lambda request: call("ticket__delete", line="A"))
    assert (ended.state, ended.error_code) == (tasks_pb2.TASK_STATE_DEAD, "same_failures")
    outcomes = [output(step)["outcome"] for step in of_kind(steps, KINDS.STEP_KIND_TOOL_CALL)]
    assert outcomes == ["REFUSED", "REFUSED", "REFUSED", "STOPPED"]
    assert len(world.tools.calls) == 3


async def test_what_may_have_happened_is_not_asked_for_again(world) -> None:
    def script(request):
        return call("mail__send", line="A") if replies_of(request) < 2 else "not known"

    _, ended, _ = await run(world, "trying", script)
    assert ended.output == "not known"
    assert world.tools.effects == {"mail.send": 1}
    assert len(world.tools.calls) == 1


async def test_a_plan_is_made_done_compared_and_revised(world) -> None:
    world.tools.failing["mes.takt"] = ["not_sent", "not_sent"]
    _, ended, steps = await run(world, "planner", plan_script)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED, ended
    assert ended.output == '{"takt_s":42}'
    asked = of_kind(steps, KINDS.STEP_KIND_MODEL_CALL)
    assert [given(step)["purpose"] for step in asked] == [
        "plan", "plan", "act", "act", "reflect", "plan", "act", "act", "reflect", "answer", "answer",
    ]  # fmt: skip
    assert {output(step)["model"] for step in asked} == {"scripted"}
    assert "Tools that there are:" in given(asked[0])["say"]
    assert output(asked[0])["problem"] == '/steps/0: required: "expect" is a required property'
    assert output(asked[4])["structured"] == {"met": False, "why": "it is the wrong line"}
    tried = [(given(s)["skill"], given(s).get("because")) for s in of_kind(steps, KINDS.STEP_KIND_TOOL_CALL)]
    assert tried[:3] == [("mes.takt", None), ("mes.takt", "retry"), ("slow.report", "other_skill")]
    assert tried[3][0] == "mes.takt"
    for request in world.model.requests:
        purpose_is_act = "Do this step now" in last_said(request) or request["messages"][-1]["role"] == "tool"
        assert bool(request.get("tools")) is purpose_is_act


async def test_an_answer_that_is_not_of_the_schema_is_repaired(world) -> None:
    replies = iter(["takt 42", '{"takt_s": 0}', 'Here: {"takt_s": 42}', '{"takt_s": 42}'])
    _, ended, steps = await run(world, "exact", lambda request: next(replies))
    # Three replies are no good: the attempt fails with its code; the next one gets it right.
    assert (ended.state, ended.attempt) == (tasks_pb2.TASK_STATE_SUCCEEDED, 2)
    assert ended.output == '{"takt_s":42}'
    assert [step.state for step in steps] == [2, 2, 3, 2]
    assert output(steps[2]) == {"error": "answer_invalid"}
    assert "/takt_s: minimum" in given(steps[2])["say"]


async def test_a_model_that_never_keeps_to_the_schema_ends_with_its_code(world) -> None:
    _, ended, _ = await run(world, "exact", lambda request: "no")
    assert (ended.state, ended.error_code) == (tasks_pb2.TASK_STATE_DEAD, "answer_invalid")
    assert len(world.model.requests) == 4


async def test_the_window_pages_out_to_working_memory_that_ends_with_the_task(world) -> None:
    _, ended, steps = await run(world, "forgetful", many_calls(9))
    assert ended.output == "answer: 9"
    pages = of_kind(steps, KINDS.STEP_KIND_PAGE_OUT)
    assert pages
    for page in pages:
        path, texts = world.memory.written[page.id]
        assert path == f"/tenants/acme/memory/working/u42/{ended.id}"
        assert output(page)["item_id"] == page.item_ids[0]
        moved = [s for s in steps if given(page)["from"] <= s.sequence <= given(page)["to"]]
        assert all(s.id in "".join(texts) for s in moved if s.kind != KINDS.STEP_KIND_PAGE_OUT)
    assert world.memory.unbound == [ended.id]
    last = world.model.requests[-1]
    asked = [c["id"] for m in last["messages"] for c in m.get("tool_calls") or ()]
    assert asked == [m["tool_call_id"] for m in last["messages"] if m["role"] == "tool"]
    assert sum(len(m["content"]) for m in last["messages"]) < 8000
    assert pages[-1].item_ids[0] in json.dumps(last["messages"])


async def test_a_conversation_too_long_for_the_endpoint_is_paged_out_and_asked_again(world) -> None:
    inner = many_calls(4)

    def script(request):
        if len(json.dumps(request["messages"])) > 3500:
            error = {"error": {"message": "too long", "type": "invalid_request_error",
                               "code": "context_length_exceeded"}}  # fmt: skip
            return ScriptedReply(status=400, body=json.dumps(error).encode())
        return inner(request)

    _, ended, steps = await run(world, "busy", script)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED, ended
    assert of_kind(steps, KINDS.STEP_KIND_PAGE_OUT)
    assert "model_context_exceeded" in {output(s).get("error") for s in steps}


async def test_sixty_four_calls_in_one_reply_are_made_one_by_one_in_order(world) -> None:
    def script(request):
        if tool_answers(request):
            return f"answer: {len(tool_answers(request))}"
        return ScriptedReply(tool_calls=[ScriptedCall(name="mes__takt", arguments={"line": str(n)}) for n in range(64)])

    _, ended, steps = await run(world, "busy", script)
    assert ended.output == "answer: 64"
    assert world.tools.effects == {"mes.takt": 64}
    answers = [json.loads(m["content"])["result"]["asked"]["line"]
               for m in world.model.requests[-1]["messages"] if m["role"] == "tool"]  # fmt: skip
    assert answers == [str(n) for n in range(64)]
    assert len(steps) == 66


async def test_a_wait_that_the_endpoint_asks_for_is_not_sat_out_by_a_worker(world) -> None:
    world.model.script = lambda request: ScriptedReply(status=429, retry_after_s=30)
    user = world.client()
    task = await user.submit("please", "trying")
    async with world.worker():
        waits = await user.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_FAILED)
    assert waits.error_code == "model_unavailable"
    assert len(world.model.requests) == 1
    left = "extract(epoch FROM due_time - clock_timestamp())::float8"
    (left_s,) = await row(world, f"SELECT {left} FROM harness.due_tasks")
    assert 20 < left_s <= 30


async def test_the_history_is_as_long_as_the_file_says(world) -> None:
    world.model.script = lambda request: "fine"
    user = world.client()
    async with world.worker():
        for text in ("one", "two", "three"):
            await user.ended((await user.submit(text, "forgetful")).id)
    said = [m["content"] for m in world.model.requests[-1]["messages"][1:]]
    assert said == ["two", "fine", "three"]
