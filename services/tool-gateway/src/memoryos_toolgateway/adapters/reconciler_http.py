"""Asks an upstream over HTTP what became of a call, as the skill's `reconcile` says."""

from __future__ import annotations

from typing import Any, Final

from memoryos_core.canonical import canonical_json, parse_json
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.adapters.http_edge import HttpEdge, NoCredentials
from memoryos_toolgateway.adapters.http_sender import Answer, Contact
from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.calls import Call
from memoryos_toolgateway.domain.http_template import CannotRender
from memoryos_toolgateway.domain.skill import Sign, Skill

_BYTES_MAX: Final = 4_194_304


class HttpReconciler:
    """ports.Reconciler. An answer that is neither sign, or both, says nothing."""

    def __init__(self, edge: HttpEdge) -> None:
        self._edge = edge

    async def ask(self, skill: Skill, call: Call) -> bool | None:
        """Tell whether the call took effect; see ports.Reconciler."""
        how = skill.reconciliation
        if how is None:
            return None
        try:
            seen: dict[str, Any] = {
                "call_id": call.id,
                "arguments": parse_json(call.arguments, max_bytes=max(len(call.arguments), 1)),
            }
            sent = await self._edge.send(
                how.lookup.request, seen, timeout_s=how.lookup.timeout_s, exchange=how.lookup.exchange
            )
        except (CannotRender, InvalidField, NoCredentials):
            return None
        happened, not_happened = _shows(sent.answer, how.happened), _shows(sent.answer, how.did_not_happen)
        return None if happened is not_happened else happened


def _shows(answer: Answer, sign: Sign) -> bool:
    if answer.contact is not Contact.ANSWERED or answer.status != sign.status:
        return False
    if sign.pointer is None:
        return True
    try:
        value = parse_json(answer.body, max_bytes=_BYTES_MAX)
    except InvalidField:
        return False
    found: Any = pointers.find(value, sign.pointer)
    # Compared in canonical form: 0 is not false.
    return answer.complete and found is not pointers.MISSING and canonical_json(found) == canonical_json(sign.equals)
