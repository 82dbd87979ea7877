"""The model step: the next message of the conversation, asked for once and journaled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memoryos_core.canonical import JsonValue, canonical_json
from memoryos_core.crashpoints import crash_point
from memoryos_models.ports import ChatMessage, ChatReply, ChatRequest

from memoryos_harness.domain.actions import AskModel, Purpose
from memoryos_harness.domain.agents import DEFAULT_MODEL
from memoryos_harness.domain.answers import MISTAKES_MAX, Reading, mistakes
from memoryos_harness.domain.children import thinkable
from memoryos_harness.domain.journal_forms import purpose_of, reply_output, said_to_model, tools_of
from memoryos_harness.domain.plans import read_reply, reply_schema
from memoryos_harness.domain.prompt import asked_with, conversation
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import Step, StepResult
from memoryos_harness.operations.complete_chat import complete_chat
from memoryos_harness.operations.offer_skills import listed_for_plan, offered_skills, tool_specs
from memoryos_harness.operations.task_run import AttemptFailed, TaskRun
from memoryos_harness.ports import Skill

_OF_NO_USE: Final[Mapping[Purpose, tuple[str, str]]] = {
    Purpose.PLAN: ("plan_invalid", "The model made no usable plan."),
    Purpose.REFLECT: ("verdict_invalid", "The model did not say whether the result was met."),
}
_ANSWER_INVALID: Final = ("answer_invalid", "The model's answer is not of the agent's output schema.")


async def ask_model(run: TaskRun, *, asking: AskModel | None = None, started: Step | None = None) -> None:
    """Journal the model's next message, or carry a started step to its end.

    JSON that is not of the schema that was asked for is journaled with what is
    wrong with it, and the journal asks again; after a few mistakes in a row the
    attempt fails. See `complete_chat` for the rest.
    """
    lease = run.claim.lease
    skills = await _thinkable(run, asking.purpose if asking else purpose_of(_given(started)))
    shown = conversation(run.claim.agent, run.history, run.claim.question, run.steps)
    if started is None:
        assert asking is not None
        crash_point("harness.step.before_journal")
        target = run.claim.agent.model
        step = await run.ports.journal.begin(
            lease, kind=StepKind.MODEL_CALL, target=target, given=_input(run, asking, skills, len(shown))
        )
    else:
        step = await run.ports.journal.resume(lease, started)
    run.started(step)
    crash_point("harness.step.after_started")
    reply = await complete_chat(run, step, _request(run, step, skills, shown))
    if reply is None:
        return
    crash_point("harness.step.after_effect")
    reading = None if reply.tool_calls else _read(run, step, reply)
    await _check(run, step, reading)
    result = StepResult(
        state=StepState.DONE,
        output=_output(reply, reading),
        token_count=reply.usage.input_tokens + reply.usage.output_tokens,
    )
    await run.finish(step, result, responding=_is_final(run, step, reply, reading))
    crash_point("harness.step.after_done")


def _given(step: Step | None) -> Step:
    assert step is not None
    return step


async def _thinkable(run: TaskRun, purpose: Purpose) -> tuple[Skill, ...]:
    """Give the skills that matter now: to be called, or to be planned with."""
    return await offered_skills(run) if purpose in (Purpose.ACT, Purpose.PLAN) else ()


def _input(run: TaskRun, asking: AskModel, skills: tuple[Skill, ...], shown: int) -> JsonValue:
    say = asking.say
    if asking.purpose is Purpose.PLAN:
        say = f"{say}\n\n{listed_for_plan(skills)}"
    given: dict[str, Any] = {
        "purpose": str(asking.purpose),
        "model": run.claim.agent.model,
        "tools": [skill.name for skill in skills] if asking.purpose is Purpose.ACT else [],
        "repeatable": [skill.name for skill in skills if skill.repeatable] if asking.purpose is Purpose.ACT else [],
        "messages": shown + bool(say),
    }
    return {**given, "say": say} if say else given


def _request(run: TaskRun, step: Step, skills: tuple[Skill, ...], shown: tuple[ChatMessage, ...]) -> ChatRequest:
    agent = run.claim.agent
    tools = tool_specs(skills, tools_of(step))
    schema = reply_schema(agent, purpose_of(step))
    # Endpoints take a schema or tools; and those that take one take that of an object.
    wanted = schema if schema is not None and not tools and schema.get("type") == "object" else None
    return ChatRequest(
        messages=asked_with(shown, said_to_model(step)),
        tools=tools,
        model=None if agent.model == DEFAULT_MODEL else agent.model,
        fallback_models=agent.fallback_models,
        response_schema=wanted,
    )


def _read(run: TaskRun, step: Step, reply: ChatReply) -> Reading | None:
    text = reply.content if reply.structured is None else canonical_json(dict(reply.structured)).decode()
    return read_reply(run.claim.agent, purpose_of(step), text, thinkable(run.claim.agent))


async def _check(run: TaskRun, step: Step, reading: Reading | None) -> None:
    """Fail the attempt for a mistake too many."""
    if reading is not None and reading.problem and mistakes(run.steps) >= MISTAKES_MAX:
        code, message = _OF_NO_USE.get(purpose_of(step), _ANSWER_INVALID)
        await run.fail_step(step, code)
        raise AttemptFailed(code, message)


def _output(reply: ChatReply, reading: Reading | None) -> JsonValue:
    output = reply_output(reply)
    if reading is None:
        return output
    return {**output, "problem": reading.problem} if reading.problem else {**output, "structured": reading.value}


def _is_final(run: TaskRun, step: Step, reply: ChatReply, reading: Reading | None) -> bool:
    """Tell whether the task's answer is known now."""
    if reply.tool_calls or (reading is not None and reading.problem):
        return False
    return run.claim.agent.strategy == "react" or purpose_of(step) is Purpose.ANSWER
