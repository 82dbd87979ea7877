"""What a child may use up is within what its parent has left; what starts when is read from the journal."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memoryos_harness.domain.actions import CallTool, Die, StartChildren
from memoryos_harness.domain.agents import Agent, Limits
from memoryos_harness.domain.children import (
    EndedChild,
    child_input,
    child_limits,
    child_of,
    child_result,
    may_start,
)
from memoryos_harness.domain.journal import LIMIT_STEPS, next_action
from memoryos_harness.domain.journal_forms import tool_requests
from memoryos_harness.domain.outcomes import TOOL_CONTENT_BYTES_MAX
from memoryos_harness.domain.states import StepKind, StepState, TaskState
from memoryos_harness.domain.tasks import NO_CALL, Counters, Step
from memoryos_harness.domain.window import Window

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WIDE = Window(tokens=1_000_000, always=0)
BOSS = Agent(name="boss", instructions="i", skills=("mes.takt", "agent.x"), agents=("scout", "data.v2"))

limits = st.builds(
    Limits,
    steps=st.integers(1, 500),
    tokens=st.integers(1, 10_000_000),
    seconds=st.integers(1, 86_400),
    calls=st.integers(0, 500),
    depth=st.integers(0, 8),
)


@given(limits, limits, st.integers(0, 11_000_000), st.integers(0, 600), st.floats(-10, 90_000), st.integers(1, 64))
def test_children_together_stay_within_what_is_left(parent, own, tokens, calls, seconds_left, among) -> None:
    given_limits = child_limits(
        parent, Counters(steps=1, tokens=tokens, calls=calls), own, seconds_left=seconds_left, among=among
    )
    if given_limits is None:
        assert parent.tokens - tokens < among or seconds_left < 1
        return
    assert given_limits.tokens * among <= parent.tokens - tokens
    assert given_limits.calls * among <= max(0, parent.calls - calls)
    assert given_limits.seconds <= seconds_left
    assert given_limits.depth <= parent.depth - 1
    for name in ("tokens", "calls", "seconds", "depth", "steps", "attempts", "fan_out"):
        assert getattr(given_limits, name) <= getattr(own, name)


def model_step(*calls, sequence=1) -> Step:
    asked = [{"id": f"c{n}", "name": name, "arguments": "{}", "error": ""} for n, name in enumerate(calls)]
    tools = ["mes.takt", "agent.x", "agent.scout", "agent.data.v2"]
    return Step(
        id=f"step_{sequence}", sequence=sequence, kind=StepKind.MODEL_CALL, state=StepState.DONE, target="m",
        input={"purpose": "act", "tools": tools}, output={"text": "", "tool_calls": asked}, ids=NO_CALL, item_ids=(),
        lease_epoch=1, create_time=NOW, end_time=NOW,
    )  # fmt: skip


def child_step(request, sequence) -> Step:
    return Step(
        id=f"step_{sequence}", sequence=sequence, kind=StepKind.CHILD_TASK, state=StepState.DONE, target="scout",
        input=child_input(request, "scout", seconds=60), output={"outcome": "SUCCEEDED", "content": "{}"}, ids=NO_CALL,
        item_ids=(), lease_epoch=1, create_time=NOW, end_time=NOW, child_task_id=f"task_{sequence}",
    )  # fmt: skip


def action(steps, used_steps=5, agent=BOSS):
    return next_action(agent, steps, Counters(steps=used_steps, tokens=0, calls=0), WIDE)


def test_all_children_of_a_reply_start_when_the_first_is_reached() -> None:
    asked = model_step("mes__takt", "agent__scout", "agent__data__v2", "agent__x")
    steps = [asked]
    first = action(steps)
    assert isinstance(first, CallTool)
    only_agents = model_step("agent__scout", "mes__takt", "agent__data__v2")
    started = action([only_agents])
    assert isinstance(started, StartChildren)
    assert [request.index for request in started.requests] == [0, 2]
    answered = [only_agents, *(child_step(r, 2 + n) for n, r in enumerate(started.requests))]
    assert isinstance(action(answered), CallTool)


def test_a_skill_whose_name_begins_as_an_agents_is_a_skill() -> None:
    assert child_of(BOSS, "agent.scout") == "scout"
    assert child_of(BOSS, "agent.data.v2") == "data.v2"
    for skill in ("agent.x", "agent.nobody", "scout", "agent.", "", "mes.takt"):
        assert child_of(BOSS, skill) == ""


def test_children_that_do_not_fit_into_the_steps_end_the_task() -> None:
    agent = BOSS.model_copy(update={"limits": Limits(steps=6)})
    assert isinstance(action([model_step("agent__scout")], agent=agent), StartChildren)
    died = action([model_step("agent__scout", "agent__scout")], agent=agent)
    assert isinstance(died, Die)
    assert died.code == LIMIT_STEPS


def test_how_many_may_start_counts_those_that_were_started() -> None:
    (request,) = tool_requests(model_step("agent__scout"))
    steps = [child_step(request, n) for n in range(2, 9)]
    assert may_start(BOSS, steps) == 1
    assert may_start(BOSS, [*steps, child_step(request, 9), child_step(request, 10)]) == 0
    assert may_start(BOSS.model_copy(update={"limits": Limits(depth=0)}), []) == 0


def ended(state, **changes) -> EndedChild:
    plain = {"output": "", "output_is_json": False, "error_code": "", "error_message": "", "token_count": 3,
             "call_count": 2}  # fmt: skip
    return EndedChild(state=state, **{**plain, **changes})


@pytest.mark.parametrize(
    ("child", "told"),
    [
        (ended(TaskState.SUCCEEDED, output="好"), {"status": "ok", "result": "好"}),
        (ended(TaskState.SUCCEEDED, output='{"a": 1}', output_is_json=True), {"status": "ok", "result": {"a": 1}}),
        (ended(TaskState.SUCCEEDED, output="{", output_is_json=True), {"status": "ok", "result": "{"}),
        (ended(TaskState.DEAD, error_code="limit_calls", error_message="Enough."),
         {"status": "failed", "code": "limit_calls", "message": "Enough."}),
        (ended(TaskState.CANCELLED),
         {"status": "failed", "code": "cancelled", "message": "The sub-agent was stopped."}),
    ],
)  # fmt: skip
def test_the_end_of_a_child_is_told_by_value_and_counts(child, told) -> None:
    result = child_result(child)
    assert json.loads(result.output["content"]) == told
    assert (result.token_count, result.call_count) == (3, 2)


def test_a_long_answer_of_a_child_is_cut_as_that_of_a_tool() -> None:
    result = child_result(ended(TaskState.SUCCEEDED, output="中" * TOOL_CONTENT_BYTES_MAX))
    assert json.loads(result.output["content"])["size_bytes"] > TOOL_CONTENT_BYTES_MAX
