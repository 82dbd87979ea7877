"""Calls that are one HTTP request."""

from __future__ import annotations

from typing import Any, Final

from memoryos_toolgateway.adapters.http_sender import Answer, Contact, HttpSender
from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Outcome, OutcomeKind
from memoryos_toolgateway.domain.http_template import CannotRender, render
from memoryos_toolgateway.domain.results import result_json
from memoryos_toolgateway.domain.skill import HttpConnector as HttpDefinition
from memoryos_toolgateway.domain.skill import RequestTemplate, Skill
from memoryos_toolgateway.errors import ArgumentsInvalid
from memoryos_toolgateway.ports import Attempt

_SERVER_FAULT: Final = 500
"""From here on an upstream speaks of itself, not of the request: the effect may have happened."""


class HttpConnector:
    """ports.Connector over HTTP."""

    def __init__(self, sender: HttpSender) -> None:
        self._sender = sender

    def check(self, skill: Skill, arguments: dict[str, Any]) -> None:
        """Raise ArgumentsInvalid when the request cannot be made of these arguments."""
        try:
            render(_template(skill), arguments)
        except CannotRender as error:
            raise ArgumentsInvalid.of([(error.pointer, f"expected {error}")]) from None

    async def attempt(self, attempt: Attempt) -> Outcome:
        """Send the request once and say what is known then."""
        template = _template(attempt.skill)
        headers = {template.idempotency_header: attempt.call_id} if template.idempotency_header else {}
        answer = await self._sender.send(
            render(template, attempt.arguments),
            timeout_s=attempt.skill.timeout_s,
            bytes_max=template.response_bytes_max,
            headers=headers,
        )
        return _outcome(answer, attempt)


def _template(skill: Skill) -> RequestTemplate:
    assert isinstance(skill.connector, HttpDefinition)
    return skill.connector.request


def _outcome(answer: Answer, attempt: Attempt) -> Outcome:
    if answer.contact is Contact.NOT_SENT:
        return Outcome(kind=OutcomeKind.NOT_SENT, error_code=messages.NOT_SENT_CODE, agent_message=messages.NOT_SENT)
    if answer.contact is Contact.ANSWERED and 400 <= answer.status < _SERVER_FAULT:
        return Outcome(
            kind=OutcomeKind.REFUSED,
            error_code=messages.REFUSED_CODE,
            agent_message=messages.refused(answer.status),
        )
    if answer.contact is Contact.ANSWERED and 200 <= answer.status < 300:
        result = result_json(answer.body, attempt.skill, attempt.arguments, complete=answer.complete)
        return Outcome(kind=OutcomeKind.SUCCEEDED, result=result)
    # No answer, a server fault, or a redirect: a POST that worked often answers with one.
    return Outcome(kind=OutcomeKind.UNKNOWN, error_code=messages.UNKNOWN_CODE, agent_message=messages.UNKNOWN)
