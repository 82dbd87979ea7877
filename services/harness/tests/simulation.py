"""Runs of a task on paper: the journal grows by what a scripted model and scripted tools answer. No I/O, no clock."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from memoryos_harness.domain.actions import (
    AskModel,
    CallTool,
    Die,
    DoRecall,
    HandOff,
    PageOut,
    Purpose,
    Respond,
    Resume,
    Stop,
)
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.journal import next_action
from memoryos_harness.domain.journal_forms import hand_off_input, purpose_of, skill_of, stop_of, tool_input
from memoryos_harness.domain.outcomes import CallOutcome, CallOutcomeKind, tool_result
from memoryos_harness.domain.plans import read_reply
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import CallIds, Counters, Step
from memoryos_harness.domain.window import Window

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WIDE = Window(tokens=1_000_000, always=0)


def calls(*asked: tuple[str, Any]) -> dict[str, Any]:
    """A reply that asks for calls, as (name, arguments)."""
    return {
        "text": "",
        "tool_calls": [
            {"id": f"c{n}", "name": name, "arguments": json.dumps(arguments), "error": ""}
            for n, (name, arguments) in enumerate(asked)
        ],
    }


def says(text: str) -> dict[str, Any]:
    return {"text": text, "tool_calls": []}


def failed(code: str, message: str = "no", **fields: Any) -> CallOutcome:
    return CallOutcome(kind=CallOutcomeKind.FAILED, code=code, message=message, **fields)


OK = CallOutcome(kind=CallOutcomeKind.SUCCEEDED, result={"fine": True})
UNKNOWN = CallOutcome(kind=CallOutcomeKind.UNKNOWN, code="outcome_unknown")
REFUSED = CallOutcome(kind=CallOutcomeKind.REFUSED, message="Not this.")


@dataclass
class Simulation:
    """One task. `model` gets the number of the reply and its purpose; `tool` the step and how many came before it."""

    agent: Agent
    model: Callable[[int, Purpose], dict[str, Any]]
    tool: Callable[[Step, int], CallOutcome] = lambda step, count: OK
    window: Window = WIDE
    steps: list[Step] = field(default_factory=list)
    note: str | None = "done by hand"
    repeatable: tuple[str, ...] = ()
    """Skills that read or are idempotent."""

    def next(self) -> Any:
        return next_action(self.agent, self.steps, self.used, self.window)

    @property
    def used(self) -> Counters:
        made = sum(s.kind is StepKind.TOOL_CALL and s.state is not StepState.STARTED for s in self.steps)
        return Counters(steps=len(self.steps), tokens=0, calls=made)

    def run(self, steps_max: int = 600) -> Respond | Die | HandOff:
        """Go on to the end; a hand-off without a note ends it too."""
        for _ in range(steps_max):
            end = self.step()
            if end is not None:
                return end
        raise AssertionError("the run does not end")

    def step(self) -> Respond | Die | HandOff | None:
        """Do the next thing; give what ends the run."""
        action = self.next()
        if isinstance(action, Respond | Die) or (isinstance(action, HandOff) and self.note is None):
            return action
        self.finish(action.step if isinstance(action, Resume) else self.begin(action))
        return None

    def begin(self, action: Any) -> Step:
        match action:
            case DoRecall():
                kind, given = StepKind.MEMORY_READ, {"query": "q"}
            case AskModel(purpose, say):
                tools = list(self.agent.skills) if purpose is Purpose.ACT else []
                kind, given = StepKind.MODEL_CALL, {"purpose": str(purpose), "tools": tools}
                given["repeatable"] = [name for name in tools if name in self.repeatable]
                given |= {"say": say} if say else {}
            case CallTool(request, attempt):
                kind, given = StepKind.TOOL_CALL, tool_input(request, attempt)
            case HandOff():
                kind, given = StepKind.HAND_OFF, hand_off_input(action)
            case PageOut(first, last):
                kind, given = StepKind.PAGE_OUT, {"from": first, "to": last}
        number = len(self.steps) + 1
        step = Step(
            id=f"step_{number}", sequence=number, kind=kind, state=StepState.STARTED, target="t", input=given,
            output=None, ids=CallIds(), item_ids=(), lease_epoch=1, create_time=NOW, end_time=None,
        )  # fmt: skip
        self.steps.append(step)
        return step

    def finish(self, step: Step) -> None:
        state, output = StepState.DONE, {}
        before = [s for s in self.steps if s.sequence < step.sequence and s.kind is step.kind]
        match step.kind:
            case StepKind.MEMORY_READ:
                output = {"hits": []}
            case StepKind.MODEL_CALL:
                output = self._reply(step, len(before))
            case StepKind.TOOL_CALL:
                result = tool_result(self._outcome(step, before))
                state, output = result.state, result.output
            case StepKind.HAND_OFF:
                output = {"note": self.note}
            case StepKind.PAGE_OUT:
                output = {"item_id": "mem_1", "tokens": 1}
        if output.get("error") and step.kind is StepKind.MODEL_CALL:
            state = StepState.FAILED
        end = NOW + timedelta(seconds=step.sequence)
        self.steps[step.sequence - 1] = replace(step, state=state, output=output, end_time=end)

    def _reply(self, step: Step, count: int) -> dict[str, Any]:
        reply = self.model(count, purpose_of(step))
        reading = None
        if "text" in reply and not reply["tool_calls"]:
            reading = read_reply(self.agent, purpose_of(step), reply["text"], self.agent.skills)
        if reading is None:
            return reply
        return {**reply, "problem": reading.problem} if reading.problem else {**reply, "structured": reading.value}

    def _outcome(self, step: Step, before: list[Step]) -> CallOutcome:
        if stop_of(step) is not None:
            repeated = stop_of(step) is Stop.REPEATED
            return CallOutcome(kind=CallOutcomeKind.REPEATED if repeated else CallOutcomeKind.STOPPED)
        if not skill_of(step):
            return CallOutcome(kind=CallOutcomeKind.INVALID, message="There is no tool of this name.")
        return self.tool(step, len(before))

    def cut(self, length: int, *, started: bool) -> "Simulation":
        """The same task with the first steps of its journal only; the last of them was under way."""
        steps = self.steps[:length]
        if started and steps:
            steps[-1] = replace(steps[-1], state=StepState.STARTED, output=None, end_time=None)
        return replace(self, steps=steps)
