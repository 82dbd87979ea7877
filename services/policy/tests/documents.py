"""Inputs as the service makes them, for tests that ask the decision point itself."""

from typing import Any


def question(skill: str = "memory.read", args: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A call of `skill`; `changes` replace whole parts of the document."""
    document: dict[str, Any] = {
        "version": 1,
        "purpose": "call",
        "subject": {"tenant": "acme", "user": "u1", "roles": ["agent"], "groups": [], "clearance": 0},
        "actor": {"chain": ["helper"], "service": "tool-gateway"},
        "action": {
            "skill": skill, "version": "1", "definition_digest": "d", "permissions": [], "effect_class": "keyed",
            "risk": "low", "opened": True, "egress": "none", "destructive": False, "returns": [], "identity": "none",
            "recipients": [], "sensitive_arguments": [],
        },
        "resource": {"type": "", "id": "", "properties": {}},
        "args": args or {},
        "action_digest": "a" * 64,
        "context": {
            "call_id": "call_1", "attempt": 1, "session_id": "ses_1", "task_id": "",
            "time": "2026-01-01T00:00:00.000000Z", "review": None,
            "session_facts": {
                "untrusted_content": False, "personal_data": False, "sources": [], "said": [], "named": [],
                "asked": False,
            },
        },
    }  # fmt: skip
    return document | changes


def listing(skill: str = "memory.read") -> dict[str, Any]:
    """The question whether a call of `skill` is thinkable."""
    document = question(skill, purpose="list")
    for name in ("resource", "args", "action_digest"):
        del document[name]
    context = document["context"] | {"call_id": "", "attempt": 0}
    del context["session_facts"]
    return document | {"context": context}
