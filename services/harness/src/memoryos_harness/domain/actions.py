"""What a worker can do next in a task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memoryos_harness.domain.agents import Recall
from memoryos_harness.domain.tasks import Step


class Purpose(StrEnum):
    """What the model is asked for."""

    ACT = "act"
    """The next calls of tools, or what came of them in words."""
    PLAN = "plan"
    """What is to be done, step by step, with what is expected of each."""
    REFLECT = "reflect"
    """Whether what was done met what was expected."""
    ANSWER = "answer"
    """The final answer; no tool any more."""


@dataclass(frozen=True, slots=True)
class DoRecall:
    """Recall from memory as `recall` says."""

    recall: Recall


@dataclass(frozen=True, slots=True)
class DoRecallSessions:
    """Recall what was said in the user's own conversations."""


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model with the whole journal so far, and with `say` from the harness after it, where there is any."""

    purpose: Purpose = Purpose.ACT
    say: str = ""


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """One tool call that the model asked for in the model step at `model_step`."""

    model_step: int
    index: int
    tool_call_id: str
    name: str
    arguments: str
    arguments_error: str = ""
    """Why the arguments cannot be used, safe for the model; empty when they are one JSON object."""


class Because(StrEnum):
    """Why a call is tried after another one failed."""

    RETRY = "retry"
    OTHER_ARGUMENTS = "other_arguments"
    OTHER_SKILL = "other_skill"


class Stop(StrEnum):
    """Why a call is not made and the model is told so."""

    SAME_FAILURES = "same_failures"
    """It failed equally too often, or it is not known whether it happened."""
    REPEATED = "repeated"
    """It was made before, and the model has its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One try of a call: a step of its own, and a call of its own at the gateway."""

    skill: str
    """"" when the model was offered no tool of that name."""
    number: int = 1
    because: Because | None = None
    of: int = 0
    """Sequence of the step that failed, or of the one that has the answer already."""
    wait_s: float = 0.0
    """Counted from the end of the step that failed."""
    stop: Stop | None = None


@dataclass(frozen=True, slots=True)
class CallTool:
    """Call the tool that the model asked for, or its stand-in."""

    request: ToolRequest
    attempt: Try


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOff:
    """Let the task rest until a person takes over; what the person says is the answer of the call."""

    request: ToolRequest
    skill: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class StartChildren:
    """Let sub-agents work on these calls of one reply at the same time, each as a task of its own."""

    requests: tuple[ToolRequest, ...]


@dataclass(frozen=True, slots=True)
class PageOut:
    """Put the conversation's oldest turns away: the steps from `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Carry a step to its end that was started and not finished."""

    step: Step


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer the user with `text`; the task has succeeded."""

    text: str


@dataclass(frozen=True, slots=True)
class Die:
    """Stop: the task is dead for this reason."""

    code: str
    message: str


Action = DoRecall | DoRecallSessions | AskModel | CallTool | HandOff | StartChildren | PageOut | Resume | Respond | Die
