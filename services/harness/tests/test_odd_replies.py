"""Replies that real endpoints give now and then: each is got over within the attempt, and nothing is done twice."""

import json

import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_models.scripted import ScriptedCall, ScriptedReply

from .world import AGENTS, make_world, serving, tool_answers, write_agents


@pytest.fixture
async def world(tmp_path, database):
    async with make_world(tmp_path, database) as made:
        write_agents(made.folder / "agents", AGENTS)
        async with serving(made):
            yield made


def body(message: dict, finish_reason: str | None = "stop") -> ScriptedReply:
    choice = {"index": 0, "message": {"role": "assistant", **message}}
    if finish_reason is not None:
        choice["finish_reason"] = finish_reason
    return ScriptedReply(body=json.dumps({"choices": [choice]}).encode())


ODD = {
    "empty": ScriptedReply(content=""),
    "blank": ScriptedReply(content=" \n\t"),
    "without a reason": ScriptedReply(content="half of", finish_reason=None),
    "cut off": ScriptedReply(content="half of", finish_reason="length"),
    "unknown reason": ScriptedReply(content="half of", finish_reason="eos_or_so"),
    "withheld": ScriptedReply(content="x", finish_reason="content_filter"),
    "promises calls": body({"content": "x"}, "tool_calls"),
    "calls without names": body({"content": None, "tool_calls": [{"id": "c", "type": "function"}]}),
    "calls that are no list": body({"content": None, "tool_calls": {"id": "c"}}),
    "content in parts": body({"content": [{"type": "text", "text": "x"}]}),
    "no choice": ScriptedReply(body=b'{"choices": []}'),
    "no JSON": ScriptedReply(body=b"<html>gateway</html>"),
    "cut JSON": ScriptedReply(body=b'{"choices": [{"index": 0, "mess'),
    "nothing": ScriptedReply(body=b""),
    "hung up": ScriptedReply(hang_up=True),
    "busy": ScriptedReply(status=429, retry_after_s=0.05),
    "out of order": ScriptedReply(status=500),
    "overloaded": ScriptedReply(status=529, retry_after_s=0.05),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
async def test_an_odd_reply_is_asked_for_again_within_the_attempt(world, odd) -> None:
    odd_ones = [odd, odd]

    def script(request):
        if tool_answers(request):
            return "done"
        if odd_ones:
            return odd_ones.pop()
        return ScriptedReply(content="let me see", tool_calls=[ScriptedCall(name="mes__takt", arguments={"line": "A"})])

    world.model.script = script
    user = world.client()
    task = await user.submit("please", "helper")
    async with world.worker():
        ended = await user.ended(task.id)
    assert (ended.state, ended.output, ended.attempt) == (tasks_pb2.TASK_STATE_SUCCEEDED, "done", 1)
    assert world.tools.effects == {"mes.takt": 1}
    assert len(world.model.requests) == 4
    assert all(step.state == tasks_pb2.STEP_STATE_DONE for step in await user.steps(task.id))


CALLS = {
    "arguments cut off": '{"line": "A',
    "arguments are a list": '["A"]',
    "a key twice": '{"line": "A", "line": "B"}',
    "not a number": '{"line": NaN}',
    "a lone surrogate": '{"line": "\\ud800"}',
    "too deep": '{"line": ' + "[" * 200 + "]" * 200 + "}",
    "a hundred thousand deep": '{"line": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "infinite": '{"line": 1e999}',
    "five thousand digits": '{"line": ' + "9" * 5_000 + "}",
    "half a megabyte": '{"line": "' + "A" * 500_000 + '"}',
    "a NUL": '{"line": "\\u0000"}',
    "nothing at all": "",
    "text around it": 'Sure! {"line": "A"}',
    "of the wrong type": '{"line": 7}',
}


@pytest.mark.parametrize("arguments", CALLS.values(), ids=CALLS.keys())
async def test_a_malformed_call_is_told_and_put_right_by_the_model(world, arguments) -> None:
    def script(request):
        answers = tool_answers(request)
        if not answers:
            return ScriptedReply(tool_calls=[ScriptedCall(name="mes__takt", arguments=arguments)])
        if len(answers) == 1:
            assert answers[0]["status"] in ("invalid", "ok")
            return ScriptedReply(tool_calls=[ScriptedCall(name="mes__takt", arguments={"line": "B"})])
        return json.dumps(answers[-1])

    world.model.script = script
    user = world.client()
    task = await user.submit("please", "helper")
    async with world.worker():
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED, ended
    assert '"asked": {"line": "B"}' in ended.output
    calls = [s for s in await user.steps(task.id) if s.kind == tasks_pb2.STEP_KIND_TOOL_CALL]
    again = json.loads(calls[1].input_json)
    if calls[0].state == tasks_pb2.STEP_STATE_FAILED:
        assert (again["try"], again["because"], again["of"]) == (2, "other_arguments", calls[0].sequence)


async def test_calls_of_one_reply_with_one_id_are_told_apart(world) -> None:
    def script(request):
        answers = tool_answers(request)
        if answers:
            ids = [m["tool_call_id"] for m in request["messages"] if m["role"] == "tool"]
            return f"answer: {len(answers)} {len(set(ids))}"
        return ScriptedReply(
            tool_calls=[ScriptedCall(name="mes__takt", arguments={"line": line}, id="call_0") for line in "AB"]
        )

    world.model.script = script
    user = world.client()
    task = await user.submit("please", "helper")
    async with world.worker():
        ended = await user.ended(task.id, 60)
    assert ended.output == "answer: 2 2", ended
    assert world.tools.effects == {"mes.takt": 2}
