"""Plays one case and says what is not as it must be."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from memoryos_sdk.tasks import Step, Task

from evals.agent_cases import Case, Expected, Known, Person
from evals.agent_world import AgentWorld

WAIT_S: Final = 120.0
_GROUPS: Final = ("finance", "office", "reviewers")


@dataclass(frozen=True)
class Verdict:
    """What came of a case; no faults: it passed."""

    case: Case
    faults: Sequence[str]
    task_id: str = ""


async def play(world: AgentWorld, case: Case) -> Verdict:
    """Prepare what the case knows, ask, and compare."""
    for known in case.memory:
        await _remember(world, known)
    for said in case.sessions:
        client = world.client(said.by)
        session = await client.sessions.create()
        roles = ("user", "assistant")
        await client.sessions.append(
            session.id, [{"role": roles[n % 2], "content": text} for n, text in enumerate(said.messages)]
        )
    before = world.effects()
    client = world.client(case.person)
    session = await client.sessions.create()
    task = await client.tasks.submit(case.agent, session_id=session.id, input=case.ask, request_id=uuid.uuid4().hex)
    reviewing = asyncio.create_task(_review(world, case)) if case.review else None
    try:
        task = await client.tasks.wait(task.id, timeout_s=WAIT_S)
    except TimeoutError:
        return Verdict(case, [f"not ended within {WAIT_S:g} s"], task.id)
    finally:
        if reviewing is not None:
            reviewing.cancel()
            with suppress(asyncio.CancelledError):
                await reviewing
    steps = [step async for step in client.tasks.steps(task.id)]
    done = world.effects()
    done.subtract(before)
    faults = [*_of_task(task, case.expect), *_of_steps(steps, case.expect), *_of_secrecy(world, case, task, steps)]
    for name in sorted({*case.expect.effects, *(name for name, times in done.items() if times)}):
        wanted = case.expect.effects.get(name, 0)
        if done[name] != wanted:
            faults.append(f"{name} was done {done[name]} times, not {wanted}")
    if case.expect.cites and not any(item in task.output for step in steps for item in step.item_ids):
        faults.append("the answer cites no item that was recalled")
    return Verdict(case, faults, task.id)


async def _remember(world: AgentWorld, known: Known) -> None:
    by = known.by
    meta: dict[str, Any] = {"user": by.user}
    if known.readers:
        meta["readers"] = list(known.readers)
    if known.sensitivity:
        meta["sensitivity"] = known.sensitivity
    if known.valid_from:
        meta["time"] = datetime.fromisoformat(known.valid_from)
    if known.untrusted:
        meta["trust"] = "untrusted"
    path = f"/tenants/{by.tenant}/memory/{known.path or f'episodic/{by.user}'}"
    await world.client(by).memory.write(path, content=known.content, meta=meta)


async def _review(world: AgentWorld, case: Case) -> None:
    """Say of every call of this person that waits what the case says."""
    reviewer = world.client(Person(user="fatima", roles=("reviewer",), groups=_GROUPS, tenant=case.person.tenant))
    while True:
        async for review in reviewer.reviews.list(state="pending"):
            if review.requester.user == case.person.user:
                verdict = reviewer.reviews.approve if case.review == "approve" else reviewer.reviews.deny
                await verdict(review.id, comment="as the case says")
        await asyncio.sleep(0.1)


def _of_task(task: Task, expect: Expected) -> Iterator[str]:
    if task.state != expect.state:
        yield f"the task is {task.state} ({task.error_code}), not {expect.state}"
    if expect.error_code and task.error_code != expect.error_code:
        yield f"its code is {task.error_code}, not {expect.error_code}"
    for text in expect.answer:
        if text not in task.output:
            yield f"the answer does not hold {text!r}: {task.output[:200]!r}"
    for text in expect.not_answer:
        if text in task.output:
            yield f"the answer holds {text!r}"


def _of_steps(steps: Sequence[Step], expect: Expected) -> Iterator[str]:
    made = [(step.target, str((step.output or {}).get("outcome")), step) for step in steps if step.kind == "tool_call"]
    if expect.calls is not None:
        wanted = [(call.skill, call.outcome) for call in expect.calls]
        found = [(skill, outcome) for skill, outcome, _ in made]
        if found != wanted:
            yield f"the calls are {found}, not {wanted}"
        for call, (_, _, step) in zip(expect.calls, made, strict=False):
            given = str((step.input or {}).get("arguments"))
            if call.arguments is not None and json.loads(given) != call.arguments:
                yield f"{call.skill} was called with {given}, not {dict(call.arguments)}"
    hits = [
        str(hit.get("content")) for step in steps if step.kind == "memory_read" for hit in (step.output or {})["hits"]
    ]
    for text in expect.recalled:
        if not any(text in hit for hit in hits):
            yield f"no item that holds {text!r} was recalled"
    if expect.first and (not hits or expect.first not in hits[0]):
        yield f"what was recalled first does not hold {expect.first!r}: {hits[:1]}"


def _of_secrecy(world: AgentWorld, case: Case, task: Task, steps: Sequence[Step]) -> Iterator[str]:
    """What must never be seen is in nothing that the model was shown, nor in what its user is told."""
    shown = [*(text for asked in (case.ask, *case.children) for text in world.script.shown[asked]), task.output]
    shown += [json.dumps(step.output, ensure_ascii=False) for step in steps]
    for text in case.never:
        if any(text in seen for seen in shown):
            yield f"{text!r} was seen"
