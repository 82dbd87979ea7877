"""skills.lock: which definition of each skill a person has accepted, and which may write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from memoryos_core.canonical import parse_json
from memoryos_core.errors import InvalidField

LOCK_FILE: Final = "skills.lock"
LOCK_BYTES_MAX: Final = 1_048_576
_FORM: Final = 1
_FIELDS: Final[Mapping[str, type]] = {"digest": str, "opened": bool, "accepted_by": str, "accept_time": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What a person said of one skill."""

    digest: str
    """SHA-256 of the definition that was accepted, hex; any other is quarantined."""
    opened: bool
    """It may do more than read."""
    accepted_by: str
    accept_time: str
    """RFC 3339."""


class LockInvalid(ValueError):
    """skills.lock is not readable as what it must be."""


def parse_lock(raw: bytes) -> dict[str, Pin]:
    """Give the pins by name of skill, or raise LockInvalid: half a lock pins nothing."""
    try:
        document: Any = parse_json(raw, max_bytes=LOCK_BYTES_MAX, field=LOCK_FILE)
    except InvalidField as error:
        raise LockInvalid(str(error)) from None
    if not isinstance(document, dict) or document.keys() != {"form", "skills"} or document["form"] != _FORM:
        raise LockInvalid(f'is no lock of form {_FORM}: {{"form": {_FORM}, "skills": {{…}}}}')
    skills = document["skills"]
    if not isinstance(skills, dict):
        raise LockInvalid("/skills: is no object of names")
    return {name: _pin(name, entry) for name, entry in skills.items()}


def _pin(name: str, entry: Any) -> Pin:
    if not isinstance(entry, dict) or entry.keys() != _FIELDS.keys():
        raise LockInvalid(f"/skills/{name}: has exactly {', '.join(_FIELDS)}")
    for field, kind in _FIELDS.items():
        if not isinstance(entry[field], kind):
            raise LockInvalid(f"/skills/{name}/{field}: is no {kind.__name__}")
    return Pin(**entry)


def format_lock(pins: Mapping[str, Pin]) -> str:
    """Give the text of a lock: sorted, one field a line, so that a change is easy to review."""
    skills = {
        name: {"digest": p.digest, "opened": p.opened, "accepted_by": p.accepted_by, "accept_time": p.accept_time}
        for name, p in sorted(pins.items())
    }
    return json.dumps({"form": _FORM, "skills": skills}, indent=2, ensure_ascii=False) + "\n"
