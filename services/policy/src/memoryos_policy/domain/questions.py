"""The closed, versioned document that a decision is asked with (DESIGN §4).

Who asks comes from the verified token only; a review only from our own table.
No token is ever part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from memoryos_core.canonical import JsonValue
from memoryos_core.tokens import Identity

INPUT_VERSION: Final = 1


class Purpose(StrEnum):
    """Why a decision is asked for."""

    CALL = "call"
    LIST = "list"


class EffectClass(StrEnum):
    """What a call does to the world."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    KEYED = "keyed"
    NON_IDEMPOTENT = "non_idempotent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One skill at one version."""

    skill: str
    version: str
    definition_digest: str
    permissions: tuple[str, ...]
    effect_class: EffectClass
    risk: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What it is done to. `properties` is what the gateway looked up."""

    type: str = ""
    id: str = ""
    properties: dict[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFacts:
    """What the policy rules learn of the review of this call.

    `state` is as of the database clock: pending, approved, denied or expired.
    `same_action`: it was opened for the action that is asked about now.
    """

    id: str
    state: str
    group: str
    approvals: int
    same_action: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question to the policy decision point, before it has become a document."""

    purpose: Purpose
    action: Action
    resource: Resource
    arguments: dict[str, JsonValue]
    action_digest: str
    call_id: str
    attempt: int


def input_document(
    identity: Identity, service: str, question: Question, *, time: datetime, review: ReviewFacts | None
) -> dict[str, Any]:
    """Give the input of one decision. PURPOSE_LIST has no arguments, resource, digest and review."""
    document: dict[str, Any] = {
        "version": INPUT_VERSION,
        "purpose": question.purpose.value,
        "subject": {
            "tenant": identity.tenant,
            "user": identity.user,
            "roles": sorted(identity.roles),
            "groups": sorted(identity.groups),
            "clearance": identity.clearance,
        },
        "actor": {"chain": list(identity.chain), "service": service},
        "action": {
            "skill": question.action.skill,
            "version": question.action.version,
            "definition_digest": question.action.definition_digest,
            "permissions": sorted(question.action.permissions),
            "effect_class": question.action.effect_class.value,
            "risk": question.action.risk,
        },
        "context": {
            "call_id": question.call_id,
            "attempt": question.attempt,
            "session_id": identity.session_id or "",
            "task_id": identity.task_id or "",
            "time": time.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "review": None,
        },
    }
    if question.purpose is Purpose.CALL:
        document["resource"] = {
            "type": question.resource.type,
            "id": question.resource.id,
            "properties": question.resource.properties,
        }
        document["args"] = question.arguments
        document["action_digest"] = question.action_digest
        document["context"]["review"] = _review(question, review)
    return document


def _review(question: Question, review: ReviewFacts | None) -> dict[str, Any] | None:
    if review is None:
        return None
    return {
        "id": review.id,
        "state": review.state,
        "group": review.group,
        "approvals": review.approvals,
        # Only an HMAC of the other digest is kept: unequal is all that can be said.
        "action_digest": question.action_digest if review.same_action else "",
    }
