"""Tools: the skills a caller may use and the calls it makes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from memoryos.policy.v1 import policy_pb2
from memoryos.toolgateway.v1 import tool_gateway_pb2

from memoryos_sdk.calls import Call, Changes, Withdrawal, call
from memoryos_sdk.entries import json_object, json_value
from memoryos_sdk.errors import Unavailable
from memoryos_sdk.invocation import Invocation, new_request_id
from memoryos_sdk.names import number, word
from memoryos_sdk.paging import Pager

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
    egress: str = "unspecified"
    """Where what it sends can go: none, internal or external."""
    destructive: bool = False
    """It removes or overwrites what cannot be brought back."""


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

    async def get_call(self, id: str, *, full_result: bool = False, timeout_s: float | None = None) -> Call:
        """Give one call of the journal; `full_result`: with the whole of a result that was cut."""
        request = tool_gateway_pb2.GetCallRequest(id=id, full_result=full_result)
        answer = await self._invocation.unary(self._stub.GetCall, request, timeout_s=timeout_s)
        return call(answer.call, answer.full_result)

    def list_calls(
        self, *, state: str | None = None, skill: str = "", session_id: str = "", task_id: str = "", page_size: int = 50
    ) -> Pager[Call]:
        """Give calls, newest first, without results: one's own; all of the tenant to auditors and operators."""
        request = tool_gateway_pb2.ListCallsRequest(
            page_size=page_size, skill=skill, session_id=session_id, task_id=task_id
        )
        if state is not None:
            request.state = number(tool_gateway_pb2.CallState, state, "state")

        async def fetch(token: str) -> tuple[list[Call], str]:
            request.page_token = token
            answer = await self._invocation.unary(self._stub.ListCalls, request)
            return [call(found) for found in answer.calls], answer.next_page_token

        return Pager(fetch)

    async def watch_call(self, id: str) -> AsyncGenerator[Call, None]:
        """Give a call as it stands, then after every change, until it has ended.

        A lost connection, and a stream that the service ends in between, is taken
        up again; Unavailable only when that fails as often in a row as a call is tried.
        """
        retry, failures, changes = self._invocation.retry, 0, Changes()
        while True:
            request = tool_gateway_pb2.WatchCallRequest(id=id)
            try:
                async with aclosing(changes.of(self._invocation.stream(self._stub.WatchCall, request))) as states:
                    async for found in states:
                        failures = 0
                        yield found
                        if found.ended:
                            return
                pause_s = retry.first_pause_s
            except Unavailable:
                failures += 1
                if failures >= retry.attempts_max:
                    raise
                pause_s = retry.pause_s(failures)
            await asyncio.sleep(pause_s)

    async def cancel_call(
        self, id: str = "", *, call_request_id: str = "", timeout_s: float | None = None
    ) -> Withdrawal:
        """Withdraw a call that was not sent, by its name or by the `request_id` that it has, or would have.

        By the latter also one that has not come yet: when it comes it is refused.
        """
        request = tool_gateway_pb2.CancelCallRequest(id=id, call_request_id=call_request_id)
        answer = await self._invocation.unary(self._stub.CancelCall, request, timeout_s=timeout_s)
        return Withdrawal(call=call(answer.call), proof=word(tool_gateway_pb2.CancelProof, answer.proof))

    async def reconcile_call(
        self, id: str, *, outcome: str | None = None, comment: str = "", timeout_s: float | None = None
    ) -> Call:
        """End the doubt about a call whose outcome is unknown: its upstream is asked, unless a person says it.

        `outcome` is happened or did_not_happen, from an operator or tenant-admin in
        person, with a `comment` that says how they know. The call is still unknown
        when the upstream could not tell.
        """
        request = tool_gateway_pb2.ReconcileCallRequest(id=id, comment=comment)
        if outcome is not None:
            request.outcome = number(tool_gateway_pb2.ReconcileOutcome, outcome, "outcome")
        answer = await self._invocation.unary(self._stub.ReconcileCall, request, timeout_s=timeout_s or CALL_TIMEOUT_S)
        return call(answer.call)

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
        egress=word(policy_pb2.Egress, message.egress),
        destructive=message.destructive,
    )
