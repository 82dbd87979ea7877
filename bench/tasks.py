"""Durable tasks with model and tools that answer at once: what the journal, the lease and the queue cost."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import grpc
import psycopg
import yaml
from memoryos.harness.v1 import sessions_pb2, sessions_pb2_grpc, tasks_pb2, tasks_pb2_grpc
from memoryos_postgres import PostgresSection, roles
from memoryos_testing.stack import Stack, running_stack

from bench.cpu import CpuMeter
from bench.figures import Figures
from bench.stubs import SKILL, stubs
from bench.timing import Timing, timing

WITHOUT: Final = ("tool-gateway", "memoryfs", "memoryfs-upkeep", "policy", "opa")
TENANT: Final = "bench0"
LEASE_S: Final = 10.0
FINISHED: Final = 100_000
_ENDED: Final = frozenset({tasks_pb2.TASK_STATE_SUCCEEDED, tasks_pb2.TASK_STATE_DEAD, tasks_pb2.TASK_STATE_CANCELLED})
_NUMBERS = itertools.count()
_FINISHED_ROWS: Final = """
INSERT INTO harness.tasks (tenant, id, user_id, agent_chain, session_id, question_sequence, agent, agent_version,
    sealed_agent, sealed_grant, sealed_input, sealed_output, state, attempt, lease_epoch, deadline_time, step_count,
    event_count, traceparent, create_time, end_time)
SELECT tenant, 'task_0' || lpad(n::text, 25, '0'), user_id, agent_chain, session_id, question_sequence, agent,
    agent_version, sealed_agent, sealed_grant, sealed_input, sealed_output, state, attempt, lease_epoch, deadline_time,
    step_count, event_count, traceparent, create_time, end_time
FROM harness.tasks, generate_series(1, %(count)s) AS n
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(like)s
"""


class Tasks:
    """One user's tasks at the harness."""

    def __init__(self, stack: Stack, channel: grpc.aio.Channel) -> None:
        self._tasks = tasks_pb2_grpc.TasksStub(channel)
        self._sessions = sessions_pb2_grpc.SessionsStub(channel)
        self._metadata = (("authorization", f"Bearer {stack.token(TENANT, 'owner', roles=('user',))}"),)

    async def session(self) -> str:
        """Give a new session."""
        request = sessions_pb2.CreateSessionRequest(request_id=f"bench-{next(_NUMBERS)}")
        return str((await self._sessions.CreateSession(request, metadata=self._metadata)).session.id)

    async def submit(self, calls: int) -> str:
        """Start a task of so many tool calls in a session of its own; give its id."""
        request = tasks_pb2.SubmitTaskRequest(
            agent="bench", session_id=await self.session(), input=str(calls), request_id=f"bench-{next(_NUMBERS)}"
        )
        return str((await self._tasks.SubmitTask(request, metadata=self._metadata)).task.id)

    async def ended(self, task_id: str) -> tasks_pb2.Task:
        """Follow a task to its end and give it; anything but success is an error."""
        request = tasks_pb2.WatchTaskRequest(id=task_id)
        async for event in self._tasks.WatchTask(request, metadata=self._metadata):
            if event.state in _ENDED:
                break
        task = await self.get(task_id)
        if task.state != tasks_pb2.TASK_STATE_SUCCEEDED:
            raise AssertionError(f"a task ended {task.state}: {task.error_code}")
        return task

    async def left(self, task_id: str) -> tasks_pb2.Task:
        """Look now and then, as a client that has left does, until a task has succeeded; give it."""
        while True:
            task = await self.get(task_id)
            if task.state in _ENDED:
                break
            await asyncio.sleep(0.1)
        if task.state != tasks_pb2.TASK_STATE_SUCCEEDED:
            raise AssertionError(f"a task ended {task.state}: {task.error_code}")
        return task

    async def get(self, task_id: str) -> tasks_pb2.Task:
        """Give a task as it stands."""
        answer: tasks_pb2.GetTaskResponse = await self._tasks.GetTask(
            tasks_pb2.GetTaskRequest(id=task_id), metadata=self._metadata
        )
        return answer.task

    async def step_times(self, task_id: str) -> list[float]:
        """Give when each step was journaled as started, in seconds."""
        request = tasks_pb2.ListStepsRequest(task_id=task_id, page_size=500)
        steps = (await self._tasks.ListSteps(request, metadata=self._metadata)).steps
        return [step.create_time.ToNanoseconds() / 1e9 for step in steps]


class TasksBench:
    """One harness, one worker."""

    def __init__(self, figures: Figures, scale: float) -> None:
        self._figures = figures
        self._scale = scale

    async def run(self) -> None:
        """Measure steps, wake-ups and recovery; then all but recovery again beside 100,000 finished tasks."""
        with TemporaryDirectory(prefix="memoryos-tasks-") as name:
            folder = Path(name)
            (folder / "agents").mkdir()
            agent = {"name": "bench", "instructions": "Look.", "skills": [SKILL], "limits": _LIMITS}
            (folder / "agents" / "bench.yaml").write_text(yaml.safe_dump(agent), encoding="utf-8")
            async with stubs(folder) as at:
                settings = [
                    f"harness.agents_dir={folder / 'agents'}",
                    f"harness.lease_s={LEASE_S}",
                    f"models.chat_url=http://{at['model']}/v1",
                    "models.chat_model=stub",
                    *(f"peers.{peer}={at['peers']}" for peer in ("memoryfs", "tool_gateway", "policy")),
                ]
                async with running_stack(without=WITHOUT, settings=settings) as stack:
                    await self._measure(stack)

    async def _measure(self, stack: Stack) -> None:
        async with grpc.aio.insecure_channel(stack.addresses["harness"]) as channel:
            tasks = Tasks(stack, channel)
            await tasks.ended(await tasks.submit(5))
            await self._rate(stack, tasks, " (warming up)", bar=False)
            rate = await self._rate(stack, tasks, "")
            await self._rate(stack, tasks, ", each watched", watched=True, bar=False)
            await self._alone(tasks)
            wake = await self._wake_ups(tasks, "")
            await self._recovery(stack, tasks)
            like = await tasks.submit(1)
            await tasks.ended(like)
            count = max(1_000, int(FINISHED * self._scale))
            await _finish_many(stack, like, count)
            beside = f", beside {count:,} finished tasks"
            rate_then = await self._rate(stack, tasks, beside)
            wake_then = await self._wake_ups(tasks, beside)
        slower = f"steps {rate.per_s / rate_then.per_s:.2f}, wake-up {wake_then.p50_ms / wake.p50_ms:.2f}"
        self._figures.value(f"{count:,} finished tasks: times slower (≤ 1.2)", slower)

    async def _rate(
        self, stack: Stack, tasks: Tasks, beside: str, *, watched: bool = False, bar: bool = True
    ) -> Timing:
        """Steps of many tasks at once, by one worker."""
        count = max(8, int(60 * self._scale))
        meter = CpuMeter(stack.folder, ["harness", "harness-worker", "postgres"])
        used, began = meter.read(), time.perf_counter()
        ids = await asyncio.gather(*(tasks.submit(10) for _ in range(count)))
        if watched:
            done = await asyncio.gather(*(tasks.ended(task_id) for task_id in ids))
        else:
            done = [await tasks.left(task_id) for task_id in ids]
        elapsed_s = time.perf_counter() - began
        steps = sum(task.step_count for task in done)
        cpu = {name: 1000 * (total - used[name]) / steps for name, total in meter.read().items()}
        found = timing([elapsed_s / steps] * 2, elapsed_s * 2 / steps, cpu)
        self._figures.rate(f"steps of {count} tasks, one worker{beside}", found, None, 120 if bar else None)
        return found

    async def _alone(self, tasks: Tasks) -> None:
        """From step to step of one task, model and tool included: they answer at once."""
        task_id = await tasks.submit(max(20, int(200 * self._scale)))
        await tasks.ended(task_id)
        times = await tasks.step_times(task_id)
        gaps = [after - before for before, after in itertools.pairwise(times)]
        self._figures.latency("step to step, one task", timing(gaps, sum(gaps)), p50_ms_max=15.0)

    async def _wake_ups(self, tasks: Tasks, beside: str) -> Timing:
        """From the submission's row to the first step's, by the database's clock."""
        waits = await self._paced_waits(tasks, max(20, int(200 * self._scale)))
        found = timing(waits, sum(waits))
        self._figures.latency(f"submission to first step, 10/s{beside}", found, p95_ms_max=100.0)
        return found

    async def _paced_waits(self, tasks: Tasks, count: int) -> Sequence[float]:
        began = time.perf_counter()

        async def one(number: int) -> float:
            await asyncio.sleep(began + number / 10 - time.perf_counter())
            task = await tasks.ended(await tasks.submit(0))
            return (await tasks.step_times(task.id))[0] - task.create_time.ToNanoseconds() / 1e9

        return await asyncio.gather(*(one(number) for number in range(count)))

    async def _recovery(self, stack: Stack, tasks: Tasks) -> None:
        """kill -9 of the only worker in the middle of a task; the supervisor starts another one."""
        waits = []
        for _ in range(3):
            task_id = await tasks.submit(200)
            while (await tasks.get(task_id)).step_count < 20:  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.02)
            os.kill(_pid(stack, "harness-worker"), signal.SIGKILL)
            await tasks.ended(task_id)
            times = await tasks.step_times(task_id)
            waits.append(max(after - before for before, after in itertools.pairwise(times)))
        bound = f"(≤ lease of {LEASE_S:g} s + 2 s)"
        self._figures.value(f"longest pause after kill -9 of the only worker {bound}", f"{median(waits):.1f} s")


def _pid(stack: Stack, name: str) -> int:
    status: dict[str, Any] = json.loads((stack.folder / "run" / "status.json").read_text(encoding="utf-8"))
    return next(int(child["pid"]) for child in status["children"] if child["name"] == name)


async def _finish_many(stack: Stack, like: str, count: int) -> None:
    """Keep copies of a finished task, then let statistics be as a database in use has them."""
    config = yaml.safe_load((stack.folder / "run" / "config.yaml").read_text(encoding="utf-8"))
    dsn = PostgresSection.model_validate(config["postgres"]).dsn(roles.OWNER)
    async with await psycopg.AsyncConnection.connect(dsn) as owner:
        await owner.execute("SELECT set_config('memoryos.tenant', %s, true)", (TENANT,))
        await owner.execute("SELECT set_config('memoryos.user', %s, true)", ("owner",))
        await owner.execute(_FINISHED_ROWS, {"like": like, "count": count})
        await owner.commit()
        await owner.set_autocommit(True)
        await owner.execute("VACUUM ANALYZE harness.tasks")


_LIMITS: Final = {"steps": 500, "calls": 500, "seconds": 900, "tokens": 1_000_000}
