"""What the tool-gateway says of calls that were made, as plain values."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from memoryos.toolgateway.v1 import tool_gateway_pb2

from memoryos_sdk.entries import json_value
from memoryos_sdk.names import word
from memoryos_sdk.times import moment

ENDED: Final = frozenset({"succeeded", "failed", "denied", "cancelled"})
"""States that nothing follows; an unknown outcome can still be settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """For whom something was done: the user, and the agents from the outermost."""

    user: str
    agent_chain: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the effect journal.

    `state`: succeeded (with `result`), denied, failed, cancelled, parked (a
    review is open: call again with the same request_id afterwards), unknown
    (it may or may not have happened), intended, dispatched.
    """

    id: str
    skill: str
    version: str
    state: str
    result: Any
    error_code: str
    agent_message: str
    decision_id: str
    review_id: str
    action_digest_hmac: str
    actor: Actor
    create_time: datetime | None
    dispatch_time: datetime | None
    """When it was sent last."""
    end_time: datetime | None
    trace_id: str
    dispatches: int = 0
    """How often it was sent."""
    fallback: bool = False
    """The result is what the skill's fallback gives."""
    full_result_bytes: int = 0
    """Size of the whole result where `result` is head and tail of it; else 0."""
    full_result_sha256: str = ""
    rewritten: bool = False
    """Policy changed the arguments before they were decided on."""
    full_result: Any = None
    """The whole result, where it was asked for and is still kept."""

    @property
    def ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """A call that was to be withdrawn, and what that proves.

    `proof`: not_sent (it never was and never will be), sent (see its state), ended_unsent (it had ended before).
    """

    call: Call
    proof: str


class Changes:
    """Tells the states of one call apart, over any number of streams that each begin with the call as it stands."""

    def __init__(self) -> None:
        self._last: tuple[str, int, str] | None = None

    async def of(self, messages: AsyncGenerator[Any, None]) -> AsyncGenerator[Call, None]:
        """Give what is new."""
        async with aclosing(messages):
            async for message in messages:
                found = call(message.call)
                now = (found.state, found.dispatches, found.review_id)
                if now != self._last:
                    self._last = now
                    yield found


def actor(message: Any) -> Actor:
    """Give the value of an Actor message."""
    return Actor(user=message.user, agent_chain=tuple(message.agent_chain))


def call(message: tool_gateway_pb2.Call, full_result: bytes = b"") -> Call:
    """Give the value of a Call message."""
    return Call(
        id=message.id,
        skill=message.skill,
        version=message.version,
        state=word(tool_gateway_pb2.CallState, message.state),
        result=json_value(message.result_json),
        error_code=message.error_code,
        agent_message=message.agent_message,
        decision_id=message.decision_id,
        review_id=message.review_id,
        action_digest_hmac=message.action_digest_hmac,
        actor=actor(message.actor),
        create_time=moment(message, "create_time"),
        dispatch_time=moment(message, "dispatch_time"),
        end_time=moment(message, "end_time"),
        trace_id=message.trace_id,
        dispatches=message.dispatches,
        fallback=message.fallback,
        full_result_bytes=message.full_result_bytes,
        full_result_sha256=message.full_result_sha256,
        rewritten=message.rewritten,
        full_result=json_value(full_result),
    )
