"""The built-in loop reaches model, memory and tools through ports only.

While a worker runs tasks that recall, ask, call, wait for a person and fail, an audit hook of the interpreter sees
every file and socket that is opened. Nothing of it is asked for by `operations` or `domain`; the adapters are seen, so
the hook sees. That neither reads the environment nor imports a driver is the import contract's part (pyproject.toml).
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from memoryos.harness.v1 import tasks_pb2

from .world import eventually

pytestmark = pytest.mark.integration
AGENTS_OWN = ("memoryos_harness.operations", "memoryos_harness.domain", "memoryos_harness.ports")


async def test_an_agents_code_path_opens_no_file_and_no_socket(world, tmp_path) -> None:
    report = tmp_path / "report.json"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("narrow_worker.py")),
        str(report),
        env={
            "PATH": os.defpath,
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "MEMORYOS_CONFIG": str(world.config_file),
        },
    )
    world.workers.append(process)
    user = world.client()
    wanted = ["use:mes__takt A", "use:ticket__delete A", "use:mail__send A", "use:slow__report A", "use:no__tool A"]
    tasks = [await user.submit(question) for question in wanted]
    parked = await user.submit("use:refund__pay A")
    for task in tasks:
        assert (await user.ended(task.id, 60)).state == tasks_pb2.TASK_STATE_SUCCEEDED
    await eventually(lambda: _has(world.tools.parked))
    world.tools.approved.update(world.tools.parked)
    assert (await user.ended(parked.id, 60)).state == tasks_pb2.TASK_STATE_SUCCEEDED
    process.terminate()
    assert await process.wait() == 0
    seen = json.loads(report.read_text())
    own = {what: times for what, times in seen.items() if what.startswith(AGENTS_OWN)}
    assert own == {"memoryos_harness.operations.made_up open": 1}, "but for the one that the worker makes up"
    modules = {what.partition(" ")[0].partition(".")[0] for what in seen}
    assert {"memoryos_postgres", "memoryos_grpc"} <= modules, "the hook sees those who may"


async def _has(found: list[str]) -> bool:
    return bool(found)
