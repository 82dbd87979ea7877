"""What `mos skill lint` says of a file: what keeps it away, and what its owner may have forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memoryos_toolgateway.adapters.skill_documents import line_of, read_document
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.poison import findings
from memoryos_toolgateway.domain.schema_keywords import subschemas
from memoryos_toolgateway.errors import SkillFileInvalid

_RECEIVES: Final = ("to", "cc", "bcc", "recipient", "recipients", "email", "emails", "participants", "webhook", "phone")
_SECRET: Final = ("password", "secret", "token", "api_key", "apikey", "card", "card_number", "iban", "id_number", "ssn")


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to say about one place of a skill file."""

    file: str
    line: int
    pointer: str
    level: str
    """error: it cannot be registered; quarantine: a person must accept it first; advice: it works."""
    rule: str
    text: str


def remarks(file: Path, endpoints: Mapping[str, str]) -> list[Remark]:
    """Give all that is to say about one file; a file with an error has that one remark."""
    try:
        load_skill(file, endpoints)
        document = read_document(file)
    except SkillFileInvalid as error:
        line = line_of(file, error.pointer)
        return [Remark(str(file), line, error.pointer or "/", "error", "skill_file", error.text)]
    hidden = [
        Remark(str(file), line_of(file, f.pointer), f.pointer, "quarantine", f.rule, f.text) for f in findings(document)
    ]
    forgotten = [
        Remark(str(file), line_of(file, pointer), pointer, "advice", rule, text)
        for pointer, rule, text in _forgotten(document)
    ]
    return hidden + forgotten


def _forgotten(document: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    writes = document["effect_class"] != "read"
    if writes and "egress" not in document:
        yield (
            "/effect_class",
            "egress",
            "it writes and does not say where that can go, so policy takes it for external: say egress: none, internal"
            " or external",
        )
    if "returns" not in document and not writes:
        yield (
            "/effect_class",
            "returns",
            "say what results hold: returns: [untrusted] where strangers write what is read, [personal] for data of"
            " persons, [] for neither",
        )
    removes = any(word in document["name"].lower() for word in ("delete", "remove", "drop", "purge"))
    if writes and removes and "destructive" not in document:
        yield "/name", "destructive", "the name says that it removes something: say destructive: true or false"
    yield from _of_parameters(document["parameters"], ("parameters",))


def _of_parameters(schema: Any, parts: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    if not isinstance(schema, dict):
        return
    for keyword, more, inner in subschemas(schema):
        here = (*parts, *more)
        if keyword == "properties" and isinstance(inner, dict):
            name = more[1].lower()
            if "description" not in inner and "title" not in inner:
                yield pointers.join(here), "description", "a parameter without a description is guessed at: add one"
            if name in _RECEIVES and not _says(inner, "x-recipient"):
                yield (
                    pointers.join(here),
                    "recipient",
                    "it may say who receives what is sent: x-recipient: true, or false where it does not",
                )
            if name in _SECRET and not _says(inner, "x-sensitive"):
                yield (
                    pointers.join(here),
                    "sensitive",
                    "it may be secret: x-sensitive: true masks it, false says it is not",
                )
        yield from _of_parameters(inner, here)


def _says(schema: dict[str, Any], mark: str) -> bool:
    """Tell whether a parameter, or the elements of a list, are marked either way."""
    elements = schema.get("items")
    return mark in schema or (isinstance(elements, dict) and mark in elements)
