"""Calls that are one HTTP request."""

from __future__ import annotations

from typing import Any, Final

from memoryos_toolgateway.adapters.http_edge import HttpEdge, NoCredentials, Sent
from memoryos_toolgateway.adapters.http_sender import Contact
from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Outcome, OutcomeKind
from memoryos_toolgateway.domain.http_template import CannotRender, render
from memoryos_toolgateway.domain.responses import NotDone, NotOfTheForm, picked
from memoryos_toolgateway.domain.results import result_json
from memoryos_toolgateway.domain.skill import EffectClass, Skill
from memoryos_toolgateway.domain.skill import HttpConnector as HttpDefinition
from memoryos_toolgateway.errors import ArgumentsInvalid
from memoryos_toolgateway.ports import Attempt

_SERVER_FAULT: Final = 500
"""From here on an upstream speaks of itself, not of the request: the effect may have happened."""


class HttpConnector:
    """ports.Connector over HTTP."""

    def __init__(self, edge: HttpEdge) -> None:
        self._edge = edge

    def check(self, skill: Skill, arguments: dict[str, Any]) -> None:
        """Raise ArgumentsInvalid when the request cannot be made of these arguments."""
        try:
            render(_definition(skill).request, arguments)
        except CannotRender as error:
            raise ArgumentsInvalid.of([(error.pointer, f"expected {error}")]) from None

    async def attempt(self, attempt: Attempt) -> Outcome:
        """Send the request once and say what is known then."""
        definition = _definition(attempt.skill)
        key_header = definition.request.idempotency_header
        try:
            sent = await self._edge.send(
                definition.request,
                attempt.arguments,
                timeout_s=attempt.skill.timeout_s,
                exchange=definition.exchange,
                headers={key_header: attempt.call_id} if key_header else {},
            )
        except NoCredentials as missing:
            return _no_credentials(missing)
        return _outcome(sent, attempt)


def _definition(skill: Skill) -> HttpDefinition:
    assert isinstance(skill.connector, HttpDefinition)
    return skill.connector


def _no_credentials(missing: NoCredentials) -> Outcome:
    if missing.by_user:
        return Outcome(kind=OutcomeKind.REFUSED, error_code=messages.NO_IDENTITY_CODE, agent_message=messages.FORBIDDEN)
    return Outcome(kind=OutcomeKind.NOT_SENT, error_code=messages.NO_IDENTITY_CODE, agent_message=messages.NOT_SENT)


def _outcome(sent: Sent, attempt: Attempt) -> Outcome:
    answer = sent.answer
    if answer.contact is Contact.NOT_SENT:
        return Outcome(kind=OutcomeKind.NOT_SENT, error_code=messages.NOT_SENT_CODE, agent_message=messages.NOT_SENT)
    if answer.contact is Contact.REFUSED:
        return Outcome(
            kind=OutcomeKind.NOT_SENT, error_code=messages.NETWORK_REFUSED_CODE, agent_message=messages.NOT_SENT
        )
    if answer.contact is Contact.ANSWERED and 400 <= answer.status < _SERVER_FAULT:
        return Outcome(
            kind=OutcomeKind.REFUSED,
            error_code=messages.refused_code(answer.status),
            agent_message=messages.refused(answer.status),
        )
    if answer.contact is Contact.ANSWERED and 200 <= answer.status < 300:
        return _success(sent, attempt)
    # No answer, a server fault, or a redirect: a POST that worked often answers with one.
    return Outcome(kind=OutcomeKind.UNKNOWN, error_code=messages.UNKNOWN_CODE, agent_message=messages.UNKNOWN)


def _success(sent: Sent, attempt: Attempt) -> Outcome:
    """Give the outcome of an answer that says it was done; what it says must be of the form that the skill declares."""
    answer, skill = sent.answer, attempt.skill
    try:
        raw = picked(answer.body, _definition(skill).response, complete=answer.complete)
    except NotDone:
        return Outcome(kind=OutcomeKind.REFUSED, error_code=messages.REFUSED_CODE, agent_message=messages.REFUSED)
    except NotOfTheForm:
        if skill.effect_class is EffectClass.READ:
            return Outcome(
                kind=OutcomeKind.REFUSED,
                error_code=messages.RESULT_INVALID_CODE,
                agent_message=messages.READ_INVALID,
            )
        return Outcome(
            kind=OutcomeKind.SUCCEEDED,
            result=b"{}",
            error_code=messages.RESULT_INVALID_CODE,
            agent_message=messages.RESULT_INVALID,
        )
    result = result_json(raw, skill, attempt.arguments, complete=answer.complete, secrets=sent.secrets)
    return Outcome(kind=OutcomeKind.SUCCEEDED, result=result)
