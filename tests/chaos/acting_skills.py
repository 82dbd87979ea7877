"""Skills of every effect class with their rules, before the counting upstream."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import yaml
from memoryos_policy.bundles import default_bundle_dir
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.adapters.skill_locks import pin_skill
from memoryos_toolgateway.domain.skill_lock import Pin

GROUP: Final = "finance"
RATE: Final = 12
"""Calls of `chaos.rated` that one user has in all."""
_RULES: Final = """\
package memoryos.skills["{name}"]

import data.memoryos.subjects

visible if subjects.known

"""
_ALLOW: Final = 'allow contains {"code": "ok", "text": "ok"}\n'
_REVIEW: Final = """\
manual_review contains {
	"code": "look",
	"text": "look",
	"approval": {"group": "%s", "quorum": 1, "expires_in_s": 86400},
}
"""
_RATED: Final = """\
obligations contains {
	"kind": "rate_limit",
	"key": sprintf("chaos:%%s", [input.subject.user]),
	"limit": %d,
	"window_s": 86400,
	"cost": 1,
}
"""
_TOLD: Final = 'obligations contains {"kind": "notify", "channel": "team", "text": "It ended."}\n'
_DENY: Final = 'deny contains {"code": "never", "text": "never"}\n'

# Skill → effect class, place at the upstream, whether it can be asked, rules.
SKILLS: Final[dict[str, tuple[str, str, bool, str]]] = {
    "chaos.read": ("read", "read", False, _ALLOW),
    "chaos.put": ("idempotent", "do", True, _ALLOW),
    "chaos.keyed": ("keyed", "keyed", True, _ALLOW + _TOLD),
    "chaos.once": ("non_idempotent", "do", True, _ALLOW),
    "chaos.blind": ("non_idempotent", "do", False, _ALLOW),
    "chaos.reviewed": ("non_idempotent", "do", True, _REVIEW % GROUP + _TOLD),
    "chaos.rated": ("non_idempotent", "do", True, _ALLOW + _RATED % RATE),
    "chaos.denied": ("non_idempotent", "do", False, _DENY),
}


def write_bundle(folder: Path) -> Path:
    """Copy the repository's bundle and add the rules of these skills."""
    shutil.copytree(default_bundle_dir(), folder)
    for name, (_, _, _, rules) in SKILLS.items():
        place = folder / "memoryos" / "skills" / name
        place.mkdir()
        (place / f"{name}.rego").write_text(_RULES.replace("{name}", name) + rules)
    return folder


def write_skills(folder: Path) -> Path:
    """Write the skill files, each accepted by a person and opened."""
    folder.mkdir()
    for name in SKILLS:
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(_document(name)))
        found = load_skill(file, {"UPSTREAM": "127.0.0.1:1"})
        pin = Pin(digest=found.definition_digest, opened=True, accepted_by="test", accept_time="2026-01-01T00:00:00Z")
        pin_skill(folder, name, pin)
    return folder


def _document(name: str) -> dict[str, Any]:
    effect_class, place, asked, _ = SKILLS[name]
    reads = effect_class == "read"
    document: dict[str, Any] = {
        "name": name,
        "version": "1",
        "description": "A tool of a test.",
        "parameters": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        "effect_class": effect_class,
        # What is approved must outlive a policy service that has just started: the shortest of all limits.
        "risk": "critical" if name == "chaos.reviewed" else "low",
        "egress": "none",
        "timeout_s": 0.5,
        "attempts": 2 if effect_class in ("read", "idempotent", "keyed") else 1,
        "connector": {
            "type": "http",
            "endpoint": "${UPSTREAM}",
            "method": "GET" if reads else "POST",
            "path": f"/{place}/{{name}}",
        },
    }
    if not reads:
        document["connector"]["idempotency_header"] = "Idempotency-Key"
    if asked:
        document["reconcile"] = {
            "lookup": {"endpoint": "${UPSTREAM}", "path": "/known/{call_id}"},
            "happened": {"pointer": "/known", "equals": True},
            "did_not_happen": {"pointer": "/known", "equals": False},
        }
    return document
