"""Tools: the skills a caller may use and the calls it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from memoryos.policy.v1 import policy_pb2
from memoryos.toolgateway.v1 import tool_gateway_pb2

from memoryos_sdk.entries import json_object, json_value
from memoryos_sdk.invocation import Invocation, new_request_id
from memoryos_sdk.names import word
from memoryos_sdk.paging import Pager
from memoryos_sdk.times import moment

CALL_TIMEOUT_S: Final = 60.0
"""A skill may take longer than the other calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A tool that agents may use, as its file declares it."""

    name: str
    version: str
    description: str
    parameters: dict[str, Any]
    permissions: tuple[str, ...]
    effect_class: str
    risk: str
    timeout: timedelta
    definition_digest: str
    opened: bool = False
    """A person has opened it for writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillHit:
    """A skill that was found, and how well it fits: 0 to 1, comparable within one answer."""

    skill: Skill
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSkills:
    """Skills, best first. `words_only`: meaning could not be compared just now."""

    hits: tuple[SkillHit, ...]
    words_only: bool


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
    end_time: datetime | None
    trace_id: str


class Tools:
    """Skills and calls of the tool-gateway."""

    def __init__(self, stub: Any, invocation: Invocation) -> None:
        self._stub = stub
        self._invocation = invocation

    async def call(
        self,
        skill: str,
        arguments: Mapping[str, Any] | str | bytes | None = None,
        *,
        request_id: str | None = None,
        lease_epoch: int = 0,
        timeout_s: float | None = None,
    ) -> Call:
        """Make a call, or learn what became of it: the same `request_id` is the same call for ever.

        A refusal is an answer (state "denied" with a safe `agent_message`), not
        an error. Arguments given as text or bytes are sent unchanged.
        """
        request = tool_gateway_pb2.CallSkillRequest(
            skill=skill,
            arguments_json=json_object({} if arguments is None else arguments, "arguments"),
            request_id=request_id or new_request_id(),
            lease_epoch=lease_epoch,
        )
        answer = await self._invocation.unary(self._stub.CallSkill, request, timeout_s=timeout_s or CALL_TIMEOUT_S)
        return call(answer.call)

    async def get_call(self, id: str, *, timeout_s: float | None = None) -> Call:
        """Give one call of the journal."""
        request = tool_gateway_pb2.GetCallRequest(id=id)
        return call((await self._invocation.unary(self._stub.GetCall, request, timeout_s=timeout_s)).call)

    def list(self, *, page_size: int = 100) -> Pager[Skill]:
        """Give the skills that the caller could be allowed to call, by name."""
        request = tool_gateway_pb2.ListSkillsRequest(page_size=page_size)

        async def fetch(token: str) -> tuple[list[Skill], str]:
            request.page_token = token
            answer = await self._invocation.unary(self._stub.ListSkills, request)
            return [skill(found) for found in answer.skills], answer.next_page_token

        return Pager(fetch)

    async def search(self, query: str, *, top_k: int = 10, timeout_s: float | None = None) -> FoundSkills:
        """Find skills by what they are for, in any words, among those that `list` would give."""
        request = tool_gateway_pb2.SearchSkillsRequest(query=query, top_k=top_k)
        answer = await self._invocation.unary(self._stub.SearchSkills, request, timeout_s=timeout_s)
        hits = tuple(SkillHit(skill=skill(hit.skill), score=hit.score) for hit in answer.hits)
        return FoundSkills(hits=hits, words_only=answer.words_only)

    async def get(self, name: str, *, timeout_s: float | None = None) -> Skill:
        """Give one skill, or NotFound when it is not there or not for this caller."""
        request = tool_gateway_pb2.GetSkillRequest(name=name)
        return skill((await self._invocation.unary(self._stub.GetSkill, request, timeout_s=timeout_s)).skill)


def actor(message: Any) -> Actor:
    """Give the value of an Actor message."""
    return Actor(user=message.user, agent_chain=tuple(message.agent_chain))


def skill(message: tool_gateway_pb2.Skill) -> Skill:
    """Give the value of a Skill message."""
    return Skill(
        name=message.name,
        version=message.version,
        description=message.description,
        parameters=json_value(message.parameters_json) or {},
        permissions=tuple(message.permissions),
        effect_class=word(policy_pb2.EffectClass, message.effect_class),
        risk=message.risk,
        timeout=message.timeout.ToTimedelta(),
        definition_digest=message.definition_digest,
        opened=message.opened,
    )


def call(message: tool_gateway_pb2.Call) -> Call:
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
    )
