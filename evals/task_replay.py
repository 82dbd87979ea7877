"""Recorded conversations played as tasks: the calls of tau-bench's airline with their real arguments and results, and
the turns of CrossWOZ by many users at once."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
from memoryos_core.canonical import canonical_json
from memoryos_models.scripted import ScriptedCall, ScriptedReply
from memoryos_sdk import Client

from evals.task_world import Asked, TaskWorld, running, skill

AIRLINE: Final = "load/taubench_airline_gpt4o_trajectories.jsonl.gz"
CROSSWOZ: Final = "load/crosswoz_val_turns.jsonl.gz"
AT_ONCE: Final = 4
_READS: Final = ("get_", "search_", "list_", "calculate", "think")
_CANARY: Final = re.compile(r"CANARY-\d{4}")


@dataclass
class Recording:
    """What the model and the upstream say next in one conversation."""

    replies: deque[ScriptedReply] = field(default_factory=deque)
    results: deque[tuple[str, bytes, str]] = field(default_factory=deque)
    """Tool, canonical arguments, and what it said."""


@dataclass
class Recordings:
    """The conversations that are played now, by number; the question of each task ends with it."""

    playing: dict[int, Recording] = field(default_factory=dict)

    def script(self, request: dict[str, Any]) -> ScriptedReply:
        """Give the recorded reply."""
        question = next(str(m["content"]) for m in reversed(request["messages"]) if m["role"] == "user")
        return self.playing[int(question.rpartition(" ")[2])].replies.popleft()

    def answer(self, asked: Asked) -> tuple[int, bytes]:
        """Give the recorded result of the conversation whose next call this is, to the byte; there is one at a time."""
        made = (asked.path.removeprefix("/"), canonical_json(dict(asked.body)))
        for recording in self.playing.values():
            if recording.results and recording.results[0][:2] == made:
                return 200, json.dumps({"said": recording.results.popleft()[2]}, ensure_ascii=False).encode()
        return 404, b"{}"


@dataclass(frozen=True)
class Replayed:
    """What came of the traces."""

    traces: int
    whole: int
    """Traces of which every task ended and every result and answer is the recorded one."""
    tasks: int
    calls: int
    arguments_bytes_max: int
    faults: Sequence[str]


async def airline(data: Path, limit: int | None = None) -> Replayed:
    """Play the traces, four at once: each is a session, each of the user's turns a task."""
    # Trials of one task make the same calls: they are far apart in this order.
    traces = sorted(_lines(data / AIRLINE), key=lambda trace: (trace["trial"], trace["task_id"]))[:limit]
    tools = sorted({call["function"]["name"] for trace in traces for call in _calls(trace["traj"])})
    recordings = Recordings()
    skills = [skill(tool, "read" if tool.startswith(_READS) else "non_idempotent") for tool in tools]
    agent = {
        "name": "airline",
        "instructions": str(traces[0]["traj"][0]["content"])[:32_000],
        "skills": tools,
        "may_repeat": tools,  # the recorded agent asked for some calls again
        "limits": {"steps": 200, "calls": 100, "seconds": 600},
    }
    gate = asyncio.Semaphore(AT_ONCE)

    async def play(number: int) -> tuple[int, list[str]]:
        async with gate:
            return await _trace(world, recordings, traces[number]["traj"], number)

    async with running(
        recordings.script, recordings.answer, skills=skills, agents=[agent], without=("memoryfs", "memoryfs-upkeep")
    ) as world:
        played = await asyncio.gather(*(play(number) for number in range(len(traces))))
    faults = [f"trace {number}: {fault}" for number, (_, found) in enumerate(played) for fault in found]
    tasks, whole = sum(done for done, _ in played), sum(not found for _, found in played)
    calls = [call for trace in traces for call in _calls(trace["traj"])]
    largest = max(len(call["function"]["arguments"]) for call in calls)
    return Replayed(len(traces), whole, tasks, len(calls), largest, faults)


async def _trace(
    world: TaskWorld, recordings: Recordings, messages: list[dict[str, Any]], number: int
) -> tuple[int, list[str]]:
    faults: list[str] = []
    tasks = 0
    async with world.client(f"u{number}") as client:
        session = await client.sessions.create()
        for question, following in _turns(messages):
            if not following:
                await client.sessions.append(session.id, [{"role": "user", "content": question}])
                continue
            recording = recordings.playing[number] = Recording()
            expected = _record(recording, following)
            task = await client.tasks.submit(
                "airline", session_id=session.id, input=f"{question}\n\nTrace {number}", request_id=uuid.uuid4().hex
            )
            task = await client.tasks.wait(task.id, timeout_s=120)
            tasks += 1
            steps = [step async for step in client.tasks.steps(task.id)]
            got = [str((step.output or {}).get("content")) for step in steps if step.kind == "tool_call"]
            said = [(json.loads(content).get("result") or {}).get("said") for content in got]
            if task.state != "succeeded":
                faults.append(f"{task.state} {task.error_code}: {question[:60]!r}")
            elif said != expected or recording.replies or recording.results:
                faults.append(f"not as recorded: {question[:60]!r}")
            del recordings.playing[number]
    return tasks, faults


def _turns(messages: Sequence[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for message in messages:
        if message["role"] == "user":
            turns.append((str(message["content"]), []))
        elif message["role"] != "system":
            turns[-1][1].append(message)
    return turns


def _record(recording: Recording, following: Sequence[dict[str, Any]]) -> list[str]:
    """Take up one turn; give the recorded results in order. A turn that ends with a result gets an answer."""
    results = {m["tool_call_id"]: str(m["content"]) for m in following if m["role"] == "tool"}
    expected: list[str] = []
    for message in following:
        if message["role"] != "assistant":
            continue
        calls = []
        for call in message.get("tool_calls") or ():
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            calls.append(ScriptedCall(name=name, arguments=arguments, id=call["id"]))
            recording.results.append((name, canonical_json(arguments), results[call["id"]]))
            expected.append(results[call["id"]])
        recording.replies.append(ScriptedReply(content=str(message["content"] or ""), tool_calls=calls))
    if following[-1]["role"] == "tool":
        recording.replies.append(ScriptedReply(content="The conversation ends here."))
    return expected


def _calls(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [call for message in messages for call in message.get("tool_calls") or ()]


@dataclass(frozen=True)
class Talked:
    """What came of many users who talk at once."""

    sessions: int
    turns: int
    mixed: int
    """Requests to the model, and answers, that held another user's canary."""
    failed: int
    open_sessions: int
    worker_bytes: int
    """Memory of the one worker with that many sessions open, each with a task under way."""


async def crosswoz(data: Path, *, sessions: int = 50, turns: int = 20, open_sessions: int = 500) -> Talked:
    """Talk as recorded, every user with a canary of their own, and remember what was said; then open many sessions."""
    by_session: dict[str, list[str]] = defaultdict(list)
    for turn in _lines(data / CROSSWOZ):
        if turn["speaker"] == "usr":
            by_session[turn["session"]].append(turn["text"])
    texts = [text for said in by_session.values() for text in said]
    heard: Counter[str] = Counter()

    def script(request: dict[str, Any]) -> ScriptedReply | str:
        shown = json.dumps(request["messages"], ensure_ascii=False)
        canaries = sorted(set(_CANARY.findall(shown)))
        heard["mixed"] += len(canaries) > 1
        messages = request["messages"]
        asked = max(n for n, message in enumerate(messages) if message["role"] == "user")
        said = str(messages[asked]["content"])
        if said.startswith("wait"):
            return ScriptedReply(content="waited", delay_s=60)
        made = [c["function"]["name"] for m in messages[asked:] for c in m.get("tool_calls") or ()]
        if "memory__write" in made:
            return f"好的 {' '.join(canaries)}"
        user = re.findall(r"u-talk-\d+", said)[0]
        path = f"/tenants/acme/memory/episodic/{user}"
        arguments = {"path": path, "content": said, "origin": "stated"}
        return ScriptedReply(tool_calls=[ScriptedCall(name="memory__write", arguments=arguments)])

    agent = {
        "name": "talker",
        "instructions": "你陪用户聊旅行。",
        "skills": ["memory.read", "memory.write"],
        "memory": {
            "read": ["/tenants/{tenant}/memory/episodic/{user}"],
            "write": ["/tenants/{tenant}/memory/episodic/{user}"],
            "recall": [{"path": "/tenants/{tenant}/memory/episodic/{user}", "top_k": 5}],
        },
        "limits": {"steps": 40, "calls": 10, "seconds": 600},
    }
    async with running(
        script, lambda asked: (404, b"{}"), skills=[], agents=[agent], settings=["harness.concurrency=256"]
    ) as world:
        async with asyncio.TaskGroup() as group:
            jobs = [
                group.create_task(_talk(world, number, texts[number * turns :][:turns])) for number in range(sessions)
            ]
        outcomes = [outcome for job in jobs for outcome in job.result()]
        worker_bytes = await _open_many(world, open_sessions)
    wrong = sum(outcome == "mixed" for outcome in outcomes)
    failed = sum(outcome == "failed" for outcome in outcomes)
    return Talked(sessions, len(outcomes), heard["mixed"] + wrong, failed, open_sessions, worker_bytes)


async def _talk(world: TaskWorld, number: int, texts: Sequence[str]) -> list[str]:
    canary = f"CANARY-{1000 + number}"
    outcomes = []
    async with world.client(f"u-talk-{number}") as client:
        session = await client.sessions.create()
        for text in texts:
            task = await client.tasks.submit(
                "talker",
                session_id=session.id,
                input=f"{text} ({canary}, u-talk-{number})",
                request_id=uuid.uuid4().hex,
            )
            task = await client.tasks.wait(task.id, timeout_s=300)
            found = set(_CANARY.findall(task.output))
            outcomes.append("failed" if task.state != "succeeded" else "ok" if found == {canary} else "mixed")
    return outcomes


async def _open_many(world: TaskWorld, count: int) -> int:
    """Open sessions with a task each that is under way; give the memory of the worker then."""

    async def one(client: Client, number: int) -> None:
        session = await client.sessions.create()
        await client.tasks.submit("talker", session_id=session.id, input=f"wait {number}", request_id=uuid.uuid4().hex)

    async with world.client("u-many") as client:
        for start in range(0, count, 10):
            await asyncio.gather(*(one(client, start + n) for n in range(10)))
        await asyncio.sleep(10)  # a measure: as many as it takes at once are under way now
        status = json.loads((world.stack.folder / "run" / "status.json").read_text(encoding="utf-8"))
        pid = next(int(child["pid"]) for child in status["children"] if child["name"] == "harness-worker")
        top = psutil.Process(pid)
        return sum(process.memory_info().rss for process in (top, *top.children(recursive=True)))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
