"""One task is one connected trace: submission, runs, steps, calls; also across a kill and a wait."""

import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_telemetry import trace_tree

pytestmark = pytest.mark.chaos


async def test_a_killed_and_parked_task_is_one_tree(world) -> None:
    user = world.client()
    task = await user.submit("use:refund__pay A")
    await world.died(await world.worker_process(crash_point="harness.step.after_effect:2"))
    second = await world.worker_process()
    await user.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
    world.tools.approved.update(world.tools.parked)
    ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED
    second.terminate()
    assert await second.wait() == 0
    tree = trace_tree(world.folder / "spans", task.trace_id)
    assert tree.connected, tree.render()
    assert tree.services == {"harness", "harness-worker", "peers"}, tree.render()
    names = [span.name for span in tree.spans]
    assert tree.spans[0].name == "memoryos.harness.v1.Tasks/SubmitTask"
    assert names.count("invoke_agent helper") >= 3  # killed, parked, approved
    assert names.count("recall") == 1
    assert names.count("chat scripted") >= 2  # the last span of a killed process may be lost
    assert "execute_tool refund.pay" in names
    assert "memoryos.toolgateway.v1.ToolGateway/CallSkill" in names
    assert "memoryos.memoryfs.v1.MemoryFS/Read" in names
    by_id = {span.span_id: span for span in tree.spans}
    for span in tree.spans:
        if span.name.startswith(("chat ", "execute_tool ", "recall")):
            assert by_id[span.parent_id].name == "invoke_agent helper"
        if span.name.startswith("invoke_agent") and span.end_ns is not None:
            assert span.attributes["memoryos.task_id"] == task.id
