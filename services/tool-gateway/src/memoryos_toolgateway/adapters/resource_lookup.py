"""What a call is done to: from the arguments, and from a GET where the skill says so."""

from __future__ import annotations

from typing import Any, Final

from memoryos_core.canonical import canonical_json, parse_json
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.adapters.http_edge import HttpEdge, NoCredentials, Sent
from memoryos_toolgateway.adapters.http_sender import Contact
from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.decisions import Resource
from memoryos_toolgateway.domain.http_template import CannotRender
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import ArgumentsInvalid

PROPERTIES_BYTES_MAX: Final = 16_384
"""What policy takes; a longer answer counts as none."""
ID_BYTES_MAX: Final = 512


class HttpResourceLookup:
    """ports.ResourceLookup. Whatever fails leaves the properties out, and policy denies what it does not know."""

    def __init__(self, edge: HttpEdge) -> None:
        self._edge = edge

    async def look_up(self, skill: Skill, arguments: dict[str, Any]) -> Resource:
        """Give what the call is done to; see ports.ResourceLookup."""
        mapping = skill.resource
        properties = b""
        if mapping.lookup is not None:
            try:
                sent = await self._edge.send(
                    mapping.lookup.request,
                    arguments,
                    timeout_s=mapping.lookup.timeout_s,
                    exchange=mapping.lookup.exchange,
                )
                properties = _properties(sent)
            except CannotRender as error:
                raise ArgumentsInvalid.of([(error.pointer, f"expected {error}")]) from None
            except NoCredentials:
                properties = b""
        return Resource(type=mapping.type, id=_id(skill, arguments), properties=properties)


def _id(skill: Skill, arguments: dict[str, Any]) -> str:
    pointer = skill.resource.id_pointer
    found = pointers.MISSING if pointer is None else pointers.find(arguments, pointer)
    if found is pointers.MISSING:
        return ""
    plain = isinstance(found, str | int) and not isinstance(found, bool)
    if not plain or len(str(found).encode()) > ID_BYTES_MAX or "\0" in str(found):
        raise ArgumentsInvalid.of(
            [(pointer or "", f"expected a string of at most {ID_BYTES_MAX} bytes without NUL, or an integer")]
        )
    return str(found)


def _properties(sent: Sent) -> bytes:
    answer = sent.answer
    if answer.contact is not Contact.ANSWERED or answer.status != 200 or not answer.complete:
        return b""
    if any(secret.encode() in answer.body for secret in sent.secrets):
        return b""  # properties are kept and shown to auditors; credentials are not
    try:
        value = parse_json(answer.body, max_bytes=PROPERTIES_BYTES_MAX)
    except InvalidField:
        return b""
    encoded = canonical_json(value)
    return encoded if isinstance(value, dict) and len(encoded) <= PROPERTIES_BYTES_MAX else b""
