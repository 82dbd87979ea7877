"""An input document to try rules with: what is given, the rest as an ordinary call has it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from memoryos_core.canonical import canonical_json, parse_json

_ORDINARY: Final[dict[str, Any]] = {
    "version": 1,
    "purpose": "call",
    "subject": {"tenant": "acme", "user": "alice", "roles": ["user"], "groups": [], "clearance": 0},
    "actor": {"chain": [], "service": "tool-gateway"},
    "action": {
        "skill": "",
        "version": "1",
        "definition_digest": "0" * 64,
        "permissions": [],
        "effect_class": "read",
        "risk": "low",
        "opened": True,
        "egress": "none",
        "destructive": False,
        "returns": [],
        "identity": "user",
        "recipients": [],
        "sensitive_arguments": [],
    },
    "resource": {"type": "", "id": "", "properties": {}},
    "args": {},
    "action_digest": "0" * 64,
    "context": {
        "call_id": "call_00000000000000000000000000",
        "attempt": 1,
        "session_id": "",
        "task_id": "",
        "time": "",
        "review": None,
        "session_facts": {
            "untrusted_content": False,
            "personal_data": False,
            "sources": [],
            "said": [],
            "named": [],
            "asked": False,
        },
    },
}
_OPEN: Final = frozenset({"args", "properties", "review"})
"""Parts of the document whose keys are not ours: what is given takes their place whole."""


class SampleInvalid(ValueError):
    """What was given is no part of an input document; the text says where."""


def sample_input(given: Any) -> dict[str, Any]:
    """Give the document of an ordinary call with the parts that are given; the time is now unless it is given.

    Raises SampleInvalid for a key that no input has: a typing error would be a rule that never fires.
    """
    if not isinstance(given, Mapping):
        raise SampleInvalid("the input is no JSON object")
    document = _merged(_ORDINARY, given, "")
    if not document["context"]["time"]:
        document["context"]["time"] = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if document["purpose"] == "list":
        for part in ("resource", "args", "action_digest"):
            document.pop(part)
        document["context"].pop("session_facts")
    return document


def _merged(ordinary: Mapping[str, Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    unknown = sorted(set(given) - set(ordinary))
    if unknown:
        known = ", ".join(sorted(ordinary))
        raise SampleInvalid(f"{where}/{unknown[0]} is no part of the input; there are {known}")
    merged: dict[str, Any] = parse_json(canonical_json(dict(ordinary)), max_bytes=65_536)  # type: ignore[assignment]
    for key, value in given.items():
        if isinstance(ordinary[key], dict) and key not in _OPEN:
            if not isinstance(value, Mapping):
                raise SampleInvalid(f"{where}/{key} is no object")
            merged[key] = _merged(ordinary[key], value, f"{where}/{key}")
        else:
            merged[key] = value
    return merged
