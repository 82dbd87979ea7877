"""The `rules` of a skill file, and the files of values beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from memoryos_core.canonical import parse_json
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.semantic_rules import VALUES_MAX, Listed, Order, Rule, Span
from memoryos_toolgateway.errors import SkillFileInvalid

VALUES_BYTES_MAX: Final = 4_194_304


def rules_of(file: Path, document: Mapping[str, Any], parameters: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Give the rules of a document that matches skill.schema.json, or raise SkillFileInvalid."""
    found: list[Rule] = []
    for index, declared in enumerate(document.get("rules", [])):
        where = f"/rules/{index}"
        for pointer in _pointers(declared):
            if not _is_declared(parameters, pointer):
                raise SkillFileInvalid(str(file), where, f"{pointer} is no declared parameter")
        if "order" in declared:
            found.append(Order(tuple(declared["order"]), declared.get("strict", False)))
        elif "span" in declared:
            start, end = declared["span"]
            found.append(Span(start, end, declared["max"]))
        else:
            values = _values(file, f"{where}/values", declared["values"])
            found.append(Listed(declared["of"], declared["values"], values))
    return tuple(found)


def files_digest(file: Path, document: Mapping[str, Any]) -> dict[str, str]:
    """Give the SHA-256 of each file of values by its name: they are part of the definition."""
    names = sorted({rule["values"] for rule in document.get("rules", []) if "values" in rule})
    return {name: hashlib.sha256(_read(file, "/rules", name)).hexdigest() for name in names}


def _pointers(declared: Mapping[str, Any]) -> list[str]:
    return [*declared.get("order", []), *declared.get("span", []), *([declared["of"]] if "of" in declared else [])]


def _is_declared(parameters: Any, pointer: str) -> bool:
    here = parameters
    for part in pointers.split(pointer):
        if not isinstance(here, dict):
            return False
        here = here.get("items") if part == "*" else here.get("properties", {}).get(part)
    return here is not None


def _read(file: Path, where: str, name: str) -> bytes:
    path = file.parent / name
    try:
        if not path.resolve().is_relative_to(file.parent.resolve()):
            raise SkillFileInvalid(str(file), where, f"{name} leads out of the folder of the skill")
        with path.open("rb") as stream:
            raw = stream.read(VALUES_BYTES_MAX + 1)
    except OSError as error:
        raise SkillFileInvalid(str(file), where, f"{name} cannot be read: {error.strerror}") from None
    if len(raw) > VALUES_BYTES_MAX:
        raise SkillFileInvalid(str(file), where, f"{name} has more than {VALUES_BYTES_MAX} bytes")
    return raw


def _values(file: Path, where: str, name: str) -> frozenset[str | int | float]:
    """Give the values of a JSON list, or of a text with one value a line (# begins a comment)."""
    raw = _read(file, where, name)
    try:
        if name.endswith(".json"):
            values: Any = parse_json(raw, max_bytes=VALUES_BYTES_MAX, field=name)
        else:
            lines = (line.strip() for line in raw.decode("utf-8").splitlines())
            values = [line for line in lines if line and not line.startswith("#")]
    except (InvalidField, UnicodeDecodeError):
        raise SkillFileInvalid(str(file), where, f"{name} is no JSON list and no UTF-8 text") from None
    plain = isinstance(values, list) and all(
        isinstance(v, str | int | float) and not isinstance(v, bool) for v in values
    )
    if not plain or not 0 < len(values) <= VALUES_MAX:
        raise SkillFileInvalid(str(file), where, f"{name} has 1 to {VALUES_MAX} texts or numbers")
    return frozenset(values)
