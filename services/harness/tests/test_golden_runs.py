"""The journal of a run that is killed at every crash point is the one of the run that was not killed."""

import re

import pytest
from memoryos.harness.v1 import tasks_pb2

from .scripts import AGENTS, many_calls, plan_script
from .world import make_world, serving, write_agents

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

POINTS = ("before_journal", "after_started", "after_effect", "after_done")
_IDS = re.compile(r"\b(step|mem|task)_[0-9A-Z]{20,32}")


@pytest.fixture
async def world(tmp_path, database):
    async with make_world(tmp_path, database) as made:
        write_agents(made.folder / "agents", AGENTS)
        async with serving(made):
            yield made


async def submitted(world, user, agent: str) -> str:
    world.tools.failing["mes.takt"] = ["not_sent", "not_sent"] if agent == "planner" else []
    return (await user.submit("please", agent)).id


async def told(user, task_id: str) -> list[tuple]:
    """The journal as it is told: no ids, no times."""
    steps = await user.steps(task_id)
    texts = [_IDS.sub("<id>", (step.input_json + b"\n" + step.output_json).decode()) for step in steps]
    return [
        (s.sequence, tasks_pb2.StepKind.Name(s.kind), tasks_pb2.StepState.Name(s.state), s.target, text)
        for s, text in zip(steps, texts, strict=True)
    ]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("agent", "script"), [("planner", plan_script), ("forgetful", many_calls(6))], ids=["planner", "forgetful"]
)
async def test_a_killed_run_is_told_as_the_one_that_was_not(world, agent, script, point) -> None:
    world.model.script = script
    user = world.client()
    async with world.worker():
        task_id = await submitted(world, user, agent)
        whole = await user.ended(task_id, 60)
    golden, effects = await told(user, task_id), world.tools.effects.total()
    assert whole.state == tasks_pb2.TASK_STATE_SUCCEEDED, whole
    assert any(kind == "STEP_KIND_PAGE_OUT" or "other_skill" in text for _, kind, _, _, text in golden)
    for number in range(1, len(golden) + 1):
        await user.start_session()
        world.tools.effects.clear()
        killed = await submitted(world, user, agent)
        await world.died(await world.worker_process(crash_point=f"harness.step.{point}:{number}"))
        async with world.worker():
            ended = await user.ended(killed, 60)
        assert (ended.state, ended.output) == (whole.state, whole.output), number
        assert await told(user, killed) == golden, number
        assert world.tools.effects.total() == effects, number
        assert len(await user.messages()) == 2
