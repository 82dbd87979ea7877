"""One task as a story: what it knew, what it decided and did, what was allowed, what it cost; sub-agents indented.

What is not this caller's to see is left out. Models, tools, users and memory may all be hostile: nothing on it can
be disguised (review_sheet.shown), and what is cut is cut between characters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from memoryos_sdk.decisions import Decision
from memoryos_sdk.reviews import Review
from memoryos_sdk.tasks import Step, Task

from memoryos_cli.output import moment
from memoryos_cli.review_sheet import cut, relative, shown

STATES: Final[Mapping[str, str]] = {
    "idle": "waits for a worker",
    "thinking": "the model is asked",
    "tool_calling": "a tool is called",
    "responding": "the answer is written",
    "waiting_review": "a call waits for a person's approval",
    "waiting_task": "a sub-agent works",
    "cancelling": "asked to stop",
    "succeeded": "ended with an answer",
    "failed": "an attempt failed; it is tried again",
    "dead": "ended without an answer",
    "cancelled": "stopped on request",
    "paused": "rests until a person resumes it",
    "retry": "about to go on",
}
KINDS: Final[Mapping[str, str]] = {
    "model_call": "the model",
    "memory_read": "memory",
    "tool_call": "tool",
    "child_task": "sub-agent",
    "page_out": "put away",
    "hand_off": "hand-off",
}
EXCERPT_CELLS: Final = 240
INDENT: Final = "    "
_BECAUSE: Final = {
    "retry": "the same again",
    "other_arguments": "with other arguments",
    "other_skill": "another skill instead",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A task with its steps, of its calls' decisions and reviews what the caller may see, and its sub-agents' tasks."""

    task: Task
    steps: Sequence[Step]
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    reviews: Mapping[str, Review] = field(default_factory=dict)
    children: Mapping[str, Told] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    """One line; `heading` ones are set off."""

    text: str
    heading: bool = False


def story(told: Told, now: datetime, *, full: bool = False) -> list[Line]:
    """Give the lines in the order in which they are read. `full`: nothing is cut."""
    return list(_told(told, now, 0 if full else EXCERPT_CELLS))


def readable(text: str) -> str:
    """Give a text of several lines in which nothing is hidden."""
    return "\n".join(shown(line) for line in text.replace("\r\n", "\n").split("\n"))


def step_line(step: Step, cells: int = EXCERPT_CELLS) -> str:
    """Give what a step is in one line."""
    what = f"#{step.sequence} {KINDS.get(step.kind, step.kind)} {shown(step.target)}"
    state = {"started": "…", "done": "done", "failed": "FAILED"}.get(step.state, step.state)
    took = _took(step)
    said = next(iter(_happened(step, cells)), "") if step.state != "started" else ""
    return "  ".join(part for part in (what, state, took, said) if part)


def _told(told: Told, now: datetime, cells: int) -> Iterator[Line]:
    task, steps = told.task, told.steps
    who = shown(" → ".join((task.actor.user, *task.actor.agent_chain)))
    yield Line(f"{task.id}  {task.state}: {STATES.get(task.state, '')}", heading=True)
    when = f"{moment(task.create_time)} ({relative(task.create_time, now)})" if task.create_time else ""
    label = f" {shown(task.agent_label)}" if task.agent_label else ""
    yield Line(f"{INDENT}asked for {who}, {when}, in {task.session_id}")
    yield Line(f"{INDENT}agent {shown(task.agent)}{label} ({task.agent_version[:12]})")
    yield Line(f"{INDENT}“{cut(shown(task.input), cells)}”")
    known = [step for step in steps if step.kind == "memory_read"]
    if known:
        yield Line("What it knew", heading=True)
        for step in known:
            yield from (Line(INDENT + text) for text in _knew(step, cells))
    done = [step for step in steps if step.kind != "memory_read"]
    if done:
        yield Line("What it decided, and what was allowed", heading=True)
        for step in done:
            yield from _step(told, step, now, cells)
    yield Line("What it cost", heading=True)
    yield from (Line(INDENT + text) for text in cost(told))
    if task.error_code or task.error_message:
        yield Line("Why there is no answer", heading=True)
        yield Line(f"{INDENT}{shown(task.error_message)} ({shown(task.error_code)})")
    if task.output:
        yield Line("Its answer", heading=True)
        yield from (Line(INDENT + text) for text in readable(task.output).split("\n"))


def _knew(step: Step, cells: int) -> Iterator[str]:
    given, found = _object(step.input), _object(step.output)
    place = "the user's own conversations" if step.target == "sessions" else str(given.get("path") or "memory")
    hits = found.get("hits")
    if not isinstance(hits, list):
        yield f"#{step.sequence} {shown(place)}: {shown(str(found.get('error') or 'under way'))}"
        return
    yield f"#{step.sequence} {shown(place)}, asked for “{cut(shown(str(given.get('query') or '')), cells // 2)}”"
    if not hits:
        yield f"{INDENT}nothing"
    for hit in map(_object, hits):
        trust = "  untrusted" if hit.get("trusted") is False else ""
        said = f"  {shown(str(hit['said_by']))}" if hit.get("said_by") else ""
        name = " in ".join(str(hit[key]) for key in ("id", "session_id") if hit.get(key))
        score = hit.get("score")
        number = f"{score:.2f}" if isinstance(score, int | float) else ""
        yield f"{INDENT}[{shown(name)}]  {number}{said}{trust}  {cut(shown(str(hit.get('content') or '')), cells)}"
        answer = _object(hit.get("answer"))
        if answer:
            excerpt = cut(shown(str(answer.get("content") or "")), cells)
            yield f"{INDENT * 2}answered [{shown(str(answer.get('id')))}]  {excerpt}"


def _step(told: Told, step: Step, now: datetime, cells: int) -> Iterator[Line]:
    given = _object(step.input)
    purpose = {"plan": ", for a plan", "reflect": ", looking back", "answer": ", for the answer"}
    about = purpose.get(str(given.get("purpose")), "") if step.kind == "model_call" else ""
    again = _again(given)
    state = "" if step.state == "done" else f"  {step.state}"
    took = f"  {_took(step)}" if step.end_time else ""
    head = f"#{step.sequence} {KINDS.get(step.kind, step.kind)} {shown(step.target)}{about}{again}{state}{took}"
    yield Line(INDENT + head)
    if step.kind in ("tool_call", "child_task") and given.get("arguments"):
        yield Line(f"{INDENT * 2}asked with {cut(shown(str(given['arguments'])), cells)}")
    for text in _happened(step, cells):
        yield Line(INDENT * 2 + text)
    for text in _allowed(told, step):
        yield Line(INDENT * 2 + text)
    child = told.children.get(step.child_task_id)
    if child is not None:
        for line in _told(child, now, cells):
            yield Line(INDENT * 2 + line.text, line.heading)


def _happened(step: Step, cells: int) -> Iterator[str]:
    """Give what came of a step, in its own words."""
    found = _object(step.output)
    structured = _object(found.get("structured"))
    plan = structured.get("steps")
    if isinstance(plan, list) and _object(step.input).get("purpose") == "plan":
        for number, part in enumerate(map(_object, plan), start=1):
            do, expect = (cut(shown(str(part.get(key) or "")), cells // 2) for key in ("do", "expect"))
            yield f"plan {number}. {do}  → expects {expect}"
    elif "met" in structured:
        verdict = "as expected" if structured["met"] else "NOT as expected"
        yield f"{verdict}: {cut(shown(str(structured.get('why') or '')), cells)}"
    elif found.get("text"):
        yield f"“{cut(shown(str(found['text'])), cells)}”"
    calls = found.get("tool_calls")
    for call in map(_object, calls if isinstance(calls, list) else ()):
        yield f"wants {shown(str(call.get('name')))} {cut(shown(str(call.get('arguments') or '')), cells)}"
    if found.get("outcome"):
        code = f" ({shown(str(found['code']))})" if found.get("code") else ""
        yield f"{shown(str(found['outcome'])).lower()}{code}: {cut(shown(str(found.get('content') or '')), cells)}"
    if "note" in found:
        yield f"a person said “{cut(shown(str(found['note'])), cells)}”"
    if step.kind == "hand_off" and step.state == "started":
        given = _object(step.input)
        yield f"waits for a person: {cut(shown(str(given.get('message') or given.get('code') or '')), cells)}"
    if found.get("error"):
        yield f"came to nothing: {shown(str(found['error']))}"


def _allowed(told: Told, step: Step) -> Iterator[str]:
    decision = told.decisions.get(step.decision_id)
    if decision is not None:
        risk = f", {decision.risk} risk" if decision.risk else ""
        yield f"decided {decision.effect}{risk} ({decision.id})"
        for reason in decision.reasons:
            yield f"because {shown(reason.text)} [{shown(reason.code)}]"
    elif step.decision_id:
        yield f"decided ({step.decision_id})"
    review = told.reviews.get(step.review_id)
    if review is not None:
        yield f"reviewed: {review.state} by {shown(review.group)} ({review.id})"
        for vote in review.votes:
            comment = f": {shown(vote.comment)}" if vote.comment else ""
            yield f"{vote.verdict} {shown(vote.reviewer)}{comment}"
    elif step.review_id:
        yield f"reviewed ({step.review_id})"


def cost(told: Told) -> list[str]:
    """Give what a task used up, its sub-agents' aside."""
    task, steps = told.task, told.steps
    usages = [_object(_object(step.output).get("usage")) for step in steps if step.kind == "model_call"]
    into, out = (sum(int(usage.get(name) or 0) for usage in usages) for name in ("input", "output"))
    models = sum(step.kind == "model_call" for step in steps)
    calls = sum(step.kind == "tool_call" for step in steps)
    again = sum(1 for step in steps if int(_object(step.input).get("try") or 1) > 1)
    end = task.end_time or task.update_time
    seconds = (end - task.create_time).total_seconds() if end and task.create_time else 0.0
    of = task.limits
    return [
        f"{into + out:,} tokens{_of(of.tokens)} ({into:,} in, {out:,} out), {models} model calls",
        f"{calls} tool calls{_of(of.calls)}, {again} of them tries after a failure; "
        f"{len(steps)} steps{_of(of.steps)}, {task.attempt} attempts",
        f"{seconds:,.1f} s{_of(of.seconds)} from being asked" + (" to its end" if task.end_time else " until now"),
    ]


def _of(limit: int) -> str:
    return f" of {limit:,}" if limit else ""


def _again(given: Mapping[str, Any]) -> str:
    number = given.get("try")
    if not isinstance(number, int) or number < 2:
        return ""
    because = _BECAUSE.get(str(given.get("because")), "")
    waited = f" after {given['wait_s']:g} s" if isinstance(given.get("wait_s"), int | float) and given["wait_s"] else ""
    return f", try {number}: {because}{waited}"


def _took(step: Step) -> str:
    if step.end_time is None or step.create_time is None:
        return ""
    return f"{(step.end_time - step.create_time).total_seconds():.1f} s"


def _object(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, Mapping) else {}
