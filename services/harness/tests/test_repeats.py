"""A model that asks again for what it has the answer of: nothing is done twice, and the loop ends."""

import json

import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_harness.domain.actions import Purpose, Respond, Stop
from memoryos_harness.domain.agents import Agent, Limits, OnFailure
from memoryos_harness.domain.journal_forms import purpose_of, said_to_model, skill_of, stop_of, tools_of
from memoryos_harness.domain.outcomes import CallOutcome, CallOutcomeKind
from memoryos_harness.domain.prompt import conversation
from memoryos_harness.domain.states import StepKind
from memoryos_models.ports import Role

from .scripts import call
from .simulation import OK, REFUSED, UNKNOWN, Simulation, calls, failed, says

BROAD = Limits(steps=500, calls=500, tokens=10_000_000)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def agent(**fields) -> Agent:
    return Agent(name="a", instructions="i", **{"skills": ("a.b", "a.c"), "limits": BROAD, **fields})


def insists(answer="done"):
    """A model that asks for one and the same call until no tool is offered any more."""

    def model(count, purpose):
        return says(answer) if purpose is Purpose.ANSWER else calls(("a__b", {"x": 1}))

    return model


def outcomes(run) -> list[str]:
    return [s.output["outcome"] for s in run.steps if s.kind is StepKind.TOOL_CALL]


def answered(text: str) -> CallOutcome:
    return CallOutcome(kind=CallOutcomeKind.SUCCEEDED, result={"text": text})


def test_what_was_done_and_may_not_be_done_twice_is_done_once_in_a_task() -> None:
    run = Simulation(agent(), insists(), lambda s, n: answered("R-0001"))
    assert run.run() == Respond("done")
    assert outcomes(run) == ["SUCCEEDED", "REPEATED"]
    repeated = run.steps[3]
    assert (stop_of(repeated), repeated.input["of"]) == (Stop.REPEATED, run.steps[1].sequence)
    last = run.steps[-1]
    assert (purpose_of(last), tools_of(last)) == (Purpose.ANSWER, ())
    assert "Answer the question now" in said_to_model(last)


def test_also_when_other_things_were_done_in_between_or_the_arguments_are_written_differently() -> None:
    texts = ['{"x": 1, "y": 2.0}', '{"x": 2}', '{"y":2,"x":1}']

    def model(count, purpose):
        if count >= len(texts):
            return says("done")
        reply = calls(("a__b", {}))
        reply["tool_calls"][0]["arguments"] = texts[count]
        return reply

    run = Simulation(agent(), model, lambda s, n: OK)
    run.run()
    assert outcomes(run) == ["SUCCEEDED", "SUCCEEDED", "REPEATED"]


def test_also_when_one_reply_asks_for_it_twice() -> None:
    twice = calls(("a__b", {"x": 1}), ("a__b", {"x": 1}))
    run = Simulation(agent(), lambda count, purpose: twice if count == 0 else says("done"), lambda s, n: OK)
    run.run()
    assert outcomes(run) == ["SUCCEEDED", "REPEATED"]
    assert purpose_of(run.steps[-1]) is Purpose.ACT, "the first one was new: it may go on"


def test_also_when_another_skill_did_it_in_its_place() -> None:
    run = Simulation(
        agent(on_failure={"*": OnFailure(retries=0, other_skills=("a.c",))}),
        insists(),
        lambda s, n: OK if skill_of(s) == "a.c" else failed("not_sent"),
    )
    assert run.run() == Respond("done")
    assert [(skill_of(s), s.output["outcome"]) for s in run.steps if s.kind is StepKind.TOOL_CALL] == [
        ("a.b", "FAILED"), ("a.c", "SUCCEEDED"), ("a.b", "REPEATED"),
    ]  # fmt: skip


def test_a_skill_does_not_stand_in_for_another_where_it_has_done_the_same_before() -> None:
    run = Simulation(
        agent(on_failure={"a.b": OnFailure(retries=0, other_skills=("a.c",))}),
        lambda count, purpose: calls((("a__c", "a__b")[count], {"x": 1})) if count < 2 else says("done"),
        lambda s, n: OK if skill_of(s) == "a.c" else failed("not_sent"),
    )
    run.run()
    assert outcomes(run) == ["SUCCEEDED", "FAILED"]


@pytest.mark.parametrize("before", [REFUSED, failed("upstream_status"), failed("not_sent", fallback=True)])
def test_what_was_not_done_is_made_when_asked_for_again(before) -> None:
    def model(count, purpose):
        return calls(("a__b", {"x": 1})) if count < 2 else says("done")

    run = Simulation(agent(on_failure={}), model, lambda s, n: before if not n else OK)
    run.run()
    assert outcomes(run)[-1] == "SUCCEEDED"


def test_a_call_that_reads_is_made_until_it_gave_the_same_answer_several_times_in_a_row() -> None:
    run = Simulation(agent(same_answers=3), insists(), lambda s, n: answered("41 s"), repeatable=("a.b",))
    assert run.run() == Respond("done")
    assert outcomes(run) == ["SUCCEEDED"] * 3 + ["REPEATED"]


def test_one_that_waits_for_a_change_goes_on_while_answers_change_or_something_else_is_done() -> None:
    polled = Simulation(
        agent(same_answers=3),
        lambda count, purpose: calls(("a__b", {"x": 1})) if count < 8 else says("done"),
        lambda s, n: answered(f"{n // 2} of 4"),
        repeatable=("a.b",),
    )
    polled.run()
    assert outcomes(polled) == ["SUCCEEDED"] * 8
    between = Simulation(
        agent(same_answers=1),
        lambda count, purpose: calls((("a__b", "a__c")[count % 2], {"x": 1})) if count < 6 else says("done"),
        lambda s, n: OK,
        repeatable=("a.b", "a.c"),
    )
    between.run()
    assert outcomes(between) == ["SUCCEEDED"] * 6


def test_the_agents_file_names_what_may_be_done_again() -> None:
    run = Simulation(
        agent(may_repeat=("a.b",), same_answers=1),
        lambda count, purpose: calls(("a__b", {"x": 1})) if count < 4 else says("done"),
        lambda s, n: OK,
    )
    run.run()
    assert outcomes(run) == ["SUCCEEDED"] * 4


def test_a_doubt_stays_a_doubt_also_after_a_repetition() -> None:
    run = Simulation(
        agent(),
        lambda count, purpose: calls(("a__b", {"x": 1})) if count < 2 else says("done"),
        lambda s, n: UNKNOWN,
    )
    run.run()
    assert outcomes(run) == ["UNKNOWN", "STOPPED"]


def test_the_model_is_told_the_answer_again_and_that_nothing_was_done_now() -> None:
    run = Simulation(agent(), insists(), lambda s, n: answered("R-0001"))
    run.run()
    told = [json.loads(m.content) for m in conversation(run.agent, (), "q", run.steps) if m.role is Role.TOOL]
    assert [answer["status"] for answer in told] == ["ok", "repeated"]
    assert "not made again" in told[1]["message"]


def test_an_answer_of_a_schema_is_asked_for_as_one() -> None:
    run = Simulation(agent(output_schema=SCHEMA), insists('{"n": 1}'), lambda s, n: OK)
    assert run.run() == Respond('{"n":1}')
    assert "JSON Schema" in said_to_model(run.steps[-1])


def test_a_plan_goes_on_to_its_verdict() -> None:
    plan = json.dumps({"steps": [{"do": "look", "expect": "a figure", "skill": "a.b"}]})

    def model(count, purpose):
        match purpose:
            case Purpose.PLAN:
                return says(plan)
            case Purpose.ACT:
                return calls(("a__b", {"x": 1}))
            case Purpose.REFLECT:
                return says('{"met": true, "why": "it is there"}')
        return says("done")

    run = Simulation(agent(strategy="plan_execute"), model, lambda s, n: OK)
    assert run.run() == Respond("done")
    assert outcomes(run) == ["SUCCEEDED", "REPEATED"]


async def test_a_model_that_insists_has_its_effect_once_and_the_user_an_answer(world) -> None:
    def script(request):
        if request.get("tools"):
            return call("refund__pay", line="O-1007")
        return [message["content"] for message in request["messages"] if message["role"] == "tool"][-1]

    world.model.script = script
    user = world.client()
    async with world.worker():
        task = await user.submit("refund it")
        await user.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
        world.tools.approved.update(world.tools.parked)
        ended = await user.ended(task.id)
        assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED, ended
    assert world.tools.effects == {"refund.pay": 1}
    told = json.loads(ended.output)
    assert (told["status"], told["answer"]["result"]["asked"]) == ("repeated", {"line": "O-1007"})


async def test_a_model_that_never_answers_ends_before_its_limits(world) -> None:
    world.model.script = lambda request: call("mes__takt", line="A")
    user = world.client()
    async with world.worker():
        task = await user.submit("for ever")
        ended = await user.ended(task.id)
    assert (ended.state, ended.error_code) == (tasks_pb2.TASK_STATE_DEAD, "same_answers")
    assert world.tools.effects == {"mes.takt": 1}
