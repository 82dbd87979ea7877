"""500 tasks and one of 320 steps while workers, gateway, policy, OPA, PostgreSQL and the harness are killed.

Every task ends right, effects are counted in the upstream's books, every trace is connected, and no process is left.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import psutil
import psycopg
import pytest
from memoryos.harness.v1 import sessions_pb2, tasks_pb2
from memoryos_grpc.status import remote_error
from memoryos_telemetry.span_file import span_files
from memoryos_telemetry.span_lines import SpanLine, read_lines
from memoryos_telemetry.trace_tree import build_tree

from .acting_deployment import TENANT, Metadata, deployed
from .acting_invariants import Books
from .tasks_deployment import MORTAL, TasksDeployment

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(5400)]
KILLS: Final = 200
TASKS_A_KILL: Final = 2.5
AT_ONCE: Final = 40
"""Tasks that are submitted and have not ended."""
BUSY_S: Final = 1.5
"""Longest that everybody works between two kills."""
DOCUMENTS: Final = 300
DOCUMENTS_AT_ONCE: Final = 16
LONG_STEPS: Final = 320
"""300 calls, 19 replies that ask for them, and the answer; tries that failed come on top."""
KILLED_AT: Final = 218
TAKEN_OVER_S: Final = 60
KINDS: Final = ("chaos.read", "chaos.put", "chaos.keyed", "chaos.once", "chaos.blind", "chaos.denied")
REPEATABLE: Final = ("chaos.read", "chaos.put")
ENDED: Final = {tasks_pb2.TASK_STATE_SUCCEEDED, tasks_pb2.TASK_STATE_DEAD, tasks_pb2.TASK_STATE_CANCELLED}
_SPOKEN: Final = {
    "SUCCEEDED": "ok", "UNKNOWN": "unknown", "REFUSED": "refused", "FAILED": "failed", "INVALID": "invalid",
}  # fmt: skip
_LOST: Final = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN"}


@dataclass
class Submitted:
    """A task as its user knows it."""

    id: str
    calls: list[tuple[str, str]]
    metadata: Metadata


class Users:
    """People who submit tasks and leave, and come back to see what became of them."""

    def __init__(self, deployment: TasksDeployment, rng: random.Random) -> None:
        self._deployment, self._rng = deployment, rng
        self.all: list[Submitted] = []

    async def send(self, method: Any, request: Any, metadata: Metadata) -> Any:
        """Give the answer, however often it has to be sent."""
        while True:
            try:
                return await method(request, metadata=metadata, timeout=10)
            except grpc.aio.AioRpcError as error:
                told = remote_error(error)
                assert told.code in _LOST, (told.code, told.reason, told.message)
                await asyncio.sleep(0.1)

    async def submit(self, calls: list[tuple[str, str]], at_once: int = 1) -> Submitted:
        """Start a task of these calls in a session of its own."""
        number = len(self.all)
        metadata = self._deployment.caller(f"u{number % 7}", "user")
        sessions, tasks = self._deployment.sessions, self._deployment.tasks
        session = await self.send(
            sessions.CreateSession, sessions_pb2.CreateSessionRequest(request_id=f"s{number}"), metadata
        )
        request = tasks_pb2.SubmitTaskRequest(
            agent="clerk",
            session_id=session.session.id,
            input=json.dumps({"calls": calls, "at_once": at_once}),
            request_id=f"t{number}",
        )
        answer = await self.send(tasks.SubmitTask, request, metadata)
        submitted = Submitted(answer.task.id, calls, metadata)
        self.all.append(submitted)
        return submitted

    async def drawn(self) -> Submitted:
        """Start a task of 5 to 20 steps."""
        number = len(self.all)
        count, at_once = self._rng.choice([(2, 1), (4, 2), (6, 1), (9, 1), (9, 3), (12, 4)])
        return await self.submit([(self._rng.choice(KINDS), f"n{number}-{n}") for n in range(count)], at_once)

    async def get(self, submitted: Submitted) -> tasks_pb2.Task:
        """Give the task as it stands."""
        request = tasks_pb2.GetTaskRequest(id=submitted.id)
        answer = await self.send(self._deployment.tasks.GetTask, request, submitted.metadata)
        task: tasks_pb2.Task = answer.task
        return task

    async def steps(self, submitted: Submitted) -> list[tasks_pb2.Step]:
        """Give its journal."""
        request = tasks_pb2.ListStepsRequest(task_id=submitted.id, page_size=500)
        answer = await self.send(self._deployment.tasks.ListSteps, request, submitted.metadata)
        return list(answer.steps)

    async def ended(self, submitted: Submitted) -> tasks_pb2.Task:
        """Look until it has ended."""
        while (task := await self.get(submitted)).state not in ENDED:  # noqa: ASYNC110 -- other processes
            await asyncio.sleep(0.3)
        return task


async def test_rounds_of_kills_while_tasks_run(tmp_path: Path, task_kills: int | None) -> None:
    kills = task_kills or KILLS
    rng = random.Random(kills)
    async with deployed(tmp_path, TasksDeployment) as deployment:
        users, books = Users(deployment, rng), Books(deployment.effects_file)
        long = await users.submit([("chaos.put", f"d{n}") for n in range(DOCUMENTS)], DOCUMENTS_AT_ONCE)
        turn = asyncio.Lock()
        killing = asyncio.gather(kill(deployment, rng, kills, turn), hunt(deployment, users, long, turn))
        keeping = asyncio.create_task(keep_up(deployment, turn))
        running: set[asyncio.Task[tasks_pb2.Task]] = {asyncio.create_task(users.ended(long))}
        while len(users.all) <= kills * TASKS_A_KILL:
            running.add(asyncio.create_task(users.ended(await users.drawn())))
            while len(running) >= AT_ONCE:
                _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        await killing
        while running:
            _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        keeping.cancel()
        assert (await users.get(long)).step_count >= LONG_STEPS
        print(deployment.kills, len(users.all), "tasks")  # noqa: T201
        await judged(deployment, users, books)
        pids = {process.pid for process in deployment.processes}
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert not left_in(tmp_path)


async def kill(deployment: TasksDeployment, rng: random.Random, kills: int, turn: asyncio.Lock) -> None:
    """Kill one or two parts again and again."""
    while sum(deployment.kills.values()) < kills:
        await asyncio.sleep(rng.uniform(0.1, BUSY_S))  # the instant of the kill is what is drawn
        victims = sorted(rng.sample(MORTAL, rng.choice([1, 1, 2])))
        async with turn:
            await deployment.kill(victims)
            await deployment.start([*victims, *(await deployment.bury())])


async def keep_up(deployment: TasksDeployment, turn: asyncio.Lock) -> None:
    """Start again what has ended by itself, as a supervisor does."""
    while True:
        await asyncio.sleep(0.5)
        async with turn:
            await deployment.start(await deployment.bury())


async def hunt(deployment: TasksDeployment, users: Users, long: Submitted, turn: asyncio.Lock) -> None:
    """Kill who holds the task at its 218th step: it goes on after the last step that is done, and repeats none."""
    while (await users.get(long)).step_count < KILLED_AT:  # noqa: ASYNC110 -- other processes
        await asyncio.sleep(0.05)
    async with turn:
        victim = await holder_of(deployment, long)
        before = await users.steps(long)
        await deployment.kill([victim])
        await deployment.start([victim])
        epoch, after = max(step.lease_epoch for step in before), before
        async with asyncio.timeout(TAKEN_OVER_S):
            while max(step.lease_epoch for step in after) <= epoch:
                await asyncio.sleep(0.05)
                after = await users.steps(long)
    done = [step for step in before if step.state != tasks_pb2.STEP_STATE_STARTED]
    assert KILLED_AT - 1 <= len(done) < LONG_STEPS, "it was under way"
    assert after[: len(done)] == done, "what was done is not done again"


async def holder_of(deployment: TasksDeployment, submitted: Submitted) -> str:
    """Wait until a worker holds the task; give its part."""
    query = "SELECT lease_holder FROM harness.tasks WHERE tenant = %s AND id = %s"
    async with await psycopg.AsyncConnection.connect(deployment.admin_dsn, autocommit=True) as admin:
        while True:
            row = await (await admin.execute(query, (TENANT, submitted.id))).fetchone()
            if row and row[0]:
                return str(row[0]).rpartition("-")[0]
            await asyncio.sleep(0.02)


async def judged(deployment: TasksDeployment, users: Users, books: Books) -> None:
    """Every task has ended right, and the books say what its journal says."""
    books.read()
    by_name: dict[str, set[str]] = defaultdict(set)
    outcomes: Counter[str] = Counter()
    lines: dict[str, list[SpanLine]] = defaultdict(list)
    for path in span_files(deployment.span_dir):
        for line in read_lines(path):
            lines[line.trace_id].append(line)
    for submitted in users.all:
        task, steps = await users.get(submitted), await users.steps(submitted)
        assert task.state == tasks_pb2.TASK_STATE_SUCCEEDED, (task.error_code, task.error_message)
        assert [step.sequence for step in steps] == list(range(1, len(steps) + 1))
        assert all(step.state != tasks_pb2.STEP_STATE_STARTED for step in steps)
        last: dict[tuple[int, int], str] = {}
        for step in steps:
            if step.kind != tasks_pb2.STEP_KIND_TOOL_CALL:
                continue
            given, output = json.loads(step.input_json), json.loads(step.output_json)
            name = json.loads(given["arguments"])["name"]
            if step.call_id:
                by_name[name].add(step.call_id)
            place = (given["model_step"], given["index"])
            again = {"FAILED", "UNKNOWN"} if given["skill"] in REPEATABLE else {"FAILED"}
            assert last.get(place, "FAILED") in again, "only what failed, or may be repeated, is tried again"
            last[place] = output["outcome"]
            outcomes[f"{given['skill']} {output['outcome']}"] += 1
        said = [_SPOKEN[last[place]] for place in sorted(last)]
        assert json.loads(task.output) == said, "the answer rests on what the journal says"
        for (skill, name), place in zip(submitted.calls, sorted(last), strict=True):
            done = sum(books.by_call[call] for call in by_name[name])
            check(skill, last[place], done, name)
        tree = build_tree(task.trace_id, lines[task.trace_id])
        assert tree.connected, tree.render()[:4_000]
        assert {"harness", "harness-worker"} <= tree.services, tree.render()[:4_000]
    assert not set(books.named_twice()) - set(by_name)
    print(dict(sorted(outcomes.items())))  # noqa: T201


def check(skill: str, outcome: str, done: int, name: str) -> None:
    """Compare how often something was done with what its step says became of it."""
    # A skill that policy denies is not offered: to the model it is a tool that does not exist.
    assert (outcome == "INVALID") == (skill == "chaos.denied"), (name, skill, outcome)
    if skill in ("chaos.read", "chaos.denied"):
        assert done == 0, (name, done)
    elif skill == "chaos.put":
        assert done >= (outcome == "SUCCEEDED"), (name, outcome, done)
    else:
        least = int(outcome == "SUCCEEDED")
        most = int(outcome in ("SUCCEEDED", "UNKNOWN"))
        assert least <= done <= most, (name, skill, outcome, done)


def left_in(folder: Path) -> list[str]:
    """Give the processes that still have this folder in their command or environment."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if process.info["status"] != psutil.STATUS_ZOMBIE and str(folder) in " ".join(process.info["cmdline"] or ()):
            found.append(f"{process.pid} {process.info['cmdline']}")
    return found
