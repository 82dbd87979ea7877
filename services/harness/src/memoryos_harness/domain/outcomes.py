"""What the model is told of a tool call: success, refusal, or that it is not known (I11)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from memoryos_core.canonical import JsonValue, canonical_json

from memoryos_harness.domain.states import StepState
from memoryos_harness.domain.tasks import NO_CALL, CallIds, StepResult

TOOL_CONTENT_BYTES_MAX: Final = 65_536
"""Longest tool answer that a model is shown; more is cut off and said so."""
ARGUMENTS_BYTES_MAX: Final = 262_144
"""Longest arguments that the gateway takes."""

UNKNOWN_MESSAGE: Final = (
    "Contact was lost. It is not known whether this happened. Do not call it again; say that it is not known."
)
REFUSED_MESSAGE: Final = "This call is not allowed."
FAILED_MESSAGE: Final = "The call failed."
STOPPED_MESSAGE: Final = (
    "This call was not made: with these arguments it has failed in the same way before, or it is not known whether it "
    "happened. Do not ask for it again in this task. Do without it, or say what could not be done."
)


REPEATED_MESSAGE: Final = (
    "This call was made before in this task, with the same arguments, and was not made again. Its answer is given here."
)


class CallOutcomeKind(StrEnum):
    """What became of a call in the tool-gateway."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    REFUSED = "REFUSED"
    INVALID = "INVALID"
    UNKNOWN = "UNKNOWN"
    PARKED = "PARKED"
    IN_FLIGHT = "IN_FLIGHT"
    STOPPED = "STOPPED"
    """Not made: it had failed in the same way too often."""
    REPEATED = "REPEATED"
    """Not made: it was made before; `result` is what the model was told then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """A call as the tool-gateway tells it. `message` is safe for the model, `code` is for programs."""

    kind: CallOutcomeKind
    result: JsonValue = None
    message: str = ""
    code: str = ""
    ids: CallIds = NO_CALL
    fallback: bool = False
    """The skill's fallback answers instead of the skill: it was out of order several times in a row."""
    at_the_door: bool = False
    """It was refused before the gateway looked at its journal: this asking did nothing, an earlier one may have."""

    @property
    def ended(self) -> bool:
        """Whether there is something to tell the model."""
        return self.kind not in (CallOutcomeKind.PARKED, CallOutcomeKind.IN_FLIGHT)


def tool_result(outcome: CallOutcome) -> StepResult:
    """Give the journal entry of an ended call, whose `content` is the tool message for the model."""
    state = StepState.DONE if outcome.kind is CallOutcomeKind.SUCCEEDED else StepState.FAILED
    output: dict[str, Any] = {"outcome": str(outcome.kind), "content": _content(outcome)}
    if outcome.kind is CallOutcomeKind.FAILED or (outcome.kind is CallOutcomeKind.SUCCEEDED and outcome.code):
        output["code"] = outcome.code
    if outcome.fallback:
        output["fallback"] = True
    return StepResult(state=state, output=output, ids=outcome.ids, call_count=1)


def told_content(output: JsonValue) -> str:
    """Give the tool message for the model from a journal entry; one without words was given up halfway."""
    if isinstance(output, Mapping) and output.get("content"):
        return str(output["content"])
    return canonical_json({"status": "unknown", "message": UNKNOWN_MESSAGE}).decode()


def told_message(output: JsonValue) -> str:
    """Give the sentence of a journal entry's tool message, "" where there is none."""
    content = json.loads(told_content(output))
    return str(content.get("message") or "")


def person_content(note: str) -> str:
    """Give the tool message for the model when a person took over."""
    return canonical_json({"status": "person", "note": note}).decode()


def _content(outcome: CallOutcome) -> str:
    """Give the JSON that the model reads. Of a refusal it holds the safe sentence and nothing else."""
    match outcome.kind:
        case CallOutcomeKind.SUCCEEDED:
            answered: dict[str, Any] = {"status": "ok", "result": outcome.result}
            answered |= {"message": outcome.message} if outcome.message else {}
            answered |= {"fallback": True} if outcome.fallback else {}
            return _cut(canonical_json(answered).decode())
        case CallOutcomeKind.UNKNOWN:
            answer = {"status": "unknown", "message": UNKNOWN_MESSAGE}
        case CallOutcomeKind.INVALID:
            answer = {"status": "invalid", "message": outcome.message or FAILED_MESSAGE}
        case CallOutcomeKind.FAILED:
            answer = {"status": "failed", "message": outcome.message or FAILED_MESSAGE, "code": outcome.code}
        case CallOutcomeKind.STOPPED:
            answer = {"status": "stopped", "message": STOPPED_MESSAGE}
        case CallOutcomeKind.REPEATED:
            repeated: dict[str, Any] = {"status": "repeated", "message": REPEATED_MESSAGE, "answer": outcome.result}
            return _cut(canonical_json(repeated).decode())
        case _:
            answer = {"status": "refused", "message": outcome.message or REFUSED_MESSAGE}
    return canonical_json(answer).decode()


def _cut(text: str) -> str:
    raw = text.encode()
    if len(raw) <= TOOL_CONTENT_BYTES_MAX:
        return text
    kept = raw[:TOOL_CONTENT_BYTES_MAX].decode("utf-8", "ignore")
    return canonical_json({"status": "ok", "result_cut_off": kept, "size_bytes": len(raw)}).decode()
