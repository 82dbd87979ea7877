"""The working window: how long the conversation is, and what of it goes to working memory when it is full.

Tokens of a reply are those that its endpoint reported. Everything else is
estimated: bytes of UTF-8 divided by 3 where at least half of the characters are
beyond Latin, Greek and Cyrillic (Chinese, Japanese and Korean take three bytes
a character and about a token), by 4 otherwise; some tokens a message for its
frame. The whole of what was shown last is also known from the endpoint's own
count of that request; the larger of the two counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memoryos_harness.domain.actions import PageOut
from memoryos_harness.domain.journal_forms import (
    ANSWERS,
    as_object,
    model_text,
    position_of,
    replies,
    said_to_model,
    tool_requests,
)
from memoryos_harness.domain.outcomes import person_content, told_content
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import Step

FRAME_TOKENS: Final = 6
"""Of each message, for its role and its ids."""
KEPT_SHARE: Final = 0.7
"""Pages are put away until so much of the window is left full: not one at every step."""
CONTEXT_EXCEEDED: Final = "model_context_exceeded"
_WIDE: Final = re.compile("[\u0530-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Window:
    """How many tokens the conversation may have, and how many of them always stay (instructions, question, history)."""

    tokens: int
    always: int


def estimate_tokens(text: str) -> int:
    """Give about how many tokens a text is to a model."""
    wide = len(_WIDE.findall(text))
    return -(-len(text.encode("utf-8", "replace")) // (3 if wide * 2 >= len(text) > 0 else 4))


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the model with the answers to its calls."""

    reply: Step
    answers: tuple[Step, ...]
    """In the order of the calls; the last try of each."""

    @property
    def last(self) -> int:
        """Sequence of its newest step."""
        return max([self.reply.sequence, *(step.sequence for step in self.answers)])

    @property
    def tokens(self) -> int:
        """Tokens that it takes in the conversation."""
        reported = int(as_object(as_object(self.reply.output).get("usage")).get("output") or 0)
        said = said_to_model(self.reply)
        return (
            (reported or self._reply_estimate())
            + FRAME_TOKENS
            + (estimate_tokens(said) + FRAME_TOKENS if said else 0)
            + sum(estimate_tokens(answer_content(step)) + FRAME_TOKENS for step in self.answers)
        )

    def _reply_estimate(self) -> int:
        calls = "".join(request.name + request.arguments for request in tool_requests(self.reply))
        return estimate_tokens(model_text(self.reply)) + estimate_tokens(calls)


def answer_content(step: Step) -> str:
    """Give the tool message for the model from a step that answers a call."""
    if step.kind is StepKind.HAND_OFF and step.state is StepState.DONE:
        return person_content(str(as_object(step.output).get("note") or ""))
    return told_content(step.output)


def turns_of(steps: Sequence[Step]) -> list[Turn]:
    """Give the turns of a task, oldest first."""
    answers: dict[tuple[int, int], Step] = {}
    for step in steps:
        if step.kind in ANSWERS and step.state is not StepState.STARTED:
            answers[position_of(step)] = step
    found = []
    for reply in replies(steps):
        places = [(request.model_step, request.index) for request in tool_requests(reply)]
        found.append(Turn(reply, tuple(answers[place] for place in places if place in answers)))
    return found


def paged_out(steps: Sequence[Step]) -> list[Step]:
    """Give the finished steps that put turns away."""
    return [step for step in steps if step.kind is StepKind.PAGE_OUT and step.state is StepState.DONE]


def is_away(sequence: int, pages: Sequence[Step]) -> bool:
    """Tell whether the reply of this sequence was put away."""
    return any(_within(sequence, as_object(page.input)) for page in pages)


def page_out(steps: Sequence[Step], window: Window) -> PageOut | None:
    """Give the oldest turns to be put away, None when what there is fits or nothing is left to put away.

    The newest turn stays, and a turn is put away whole: a call is never parted
    from its answer. After the endpoint said that the conversation is too long
    for it, the older half goes whatever the estimate says.
    """
    pages = paged_out(steps)
    shown = [turn for turn in turns_of(steps) if not is_away(turn.reply.sequence, pages)]
    movable = shown[:-1]
    if not movable:
        return None
    if times_too_long(steps):
        gone = movable[: -(-len(movable) // 2)]
        return PageOut(gone[0].reply.sequence, gone[-1].last)
    total = window.always + _recalled_tokens(steps) + sum(turn.tokens for turn in shown)
    total = max(total, _reported(steps, shown[-1]))
    if total <= window.tokens:
        return None
    gone_count, over = 0, total - int(window.tokens * KEPT_SHARE)
    for turn in movable:
        if over <= 0:
            break
        over -= turn.tokens
        gone_count += 1
    return PageOut(movable[0].reply.sequence, movable[gone_count - 1].last)


def times_too_long(steps: Sequence[Step]) -> int:
    """Give how often in a row, up to now, the endpoint said that the conversation is too long for it.

    What was put away since starts a new count of what can be done about it.
    """
    count = 0
    for step in reversed(steps):
        if step.kind is not StepKind.MODEL_CALL or step.state is not StepState.FAILED:
            break
        if as_object(step.output).get("error") != CONTEXT_EXCEEDED:
            break
        count += 1
    return count


def _within(sequence: int, pages: Mapping[str, object]) -> bool:
    return int(str(pages["from"])) <= sequence <= int(str(pages["to"]))


def _recalled_tokens(steps: Sequence[Step]) -> int:
    found = (as_object(step.output).get("hits") or [] for step in steps if step.kind is StepKind.MEMORY_READ)
    return sum(estimate_tokens(str(hit)) + FRAME_TOKENS for hits in found for hit in hits)


def _reported(steps: Sequence[Step], newest: Turn) -> int:
    """Give the endpoint's own count of the newest request and reply, with what was answered since; 0 when unknown."""
    pages = paged_out(steps)
    if pages and pages[-1].sequence > newest.reply.sequence:
        return 0
    usage = as_object(as_object(newest.reply.output).get("usage"))
    counted = int(usage.get("input") or 0)
    if not counted:
        return 0
    answers = sum(estimate_tokens(answer_content(step)) + FRAME_TOKENS for step in newest.answers)
    return counted + int(usage.get("output") or 0) + answers
