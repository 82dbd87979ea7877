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

from memoryos_policy.domain.spoken import Text, asked, named, said, words_asked

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
    opened: bool
    egress: str
    destructive: bool
    returns: tuple[str, ...]
    identity: str
    recipients: tuple[str, ...]
    sensitive_arguments: tuple[str, ...]
    intents: tuple[str, ...] = ()
    """Words by which users ask for it; rules learn only whether one was said."""


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
class Session:
    """What the session of a call has seen, and which words, of those asked about, its user has said in it."""

    untrusted_content: bool = False
    personal_data: bool = False
    sources: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known of a call beyond its request: read from tables of ours, never from what a caller says."""

    session: Session = Session()
    review: ReviewFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, before it has become a document. `texts` are those of the arguments."""

    purpose: Purpose
    action: Action
    resource: Resource
    arguments: dict[str, JsonValue]
    texts: tuple[Text, ...]
    action_digest: str
    call_id: str
    attempt: int

    @property
    def words(self) -> set[str]:
        """All words whose being said in the session matters to this question."""
        return words_asked(self.texts, self.action.intents)


def input_document(
    identity: Identity, service: str, question: Question, *, time: datetime, circumstances: Circumstances
) -> dict[str, Any]:
    """Give the input of one decision, in the form of schemas/input.schema.json.

    PURPOSE_LIST has no arguments, resource, digest, review and session facts:
    whether a call is thinkable at all does not depend on what a session has
    seen, and rules that need a fact to be false find it absent and stay silent.
    """
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
        "action": _action(question.action),
        "context": {
            "call_id": question.call_id,
            "attempt": question.attempt,
            "session_id": identity.session_id,
            "task_id": identity.task_id,
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
        document["context"]["review"] = _review(question, circumstances.review)
        document["context"]["session_facts"] = _session_facts(question, circumstances.session)
    return document


def _action(action: Action) -> dict[str, Any]:
    return {
        "skill": action.skill,
        "version": action.version,
        "definition_digest": action.definition_digest,
        "permissions": sorted(action.permissions),
        "effect_class": action.effect_class.value,
        "risk": action.risk,
        "opened": action.opened,
        "egress": action.egress,
        "destructive": action.destructive,
        "returns": sorted(action.returns),
        "identity": action.identity,
        "recipients": sorted(action.recipients),
        "sensitive_arguments": sorted(action.sensitive_arguments),
    }


def _session_facts(question: Question, session: Session) -> dict[str, Any]:
    return {
        "untrusted_content": session.untrusted_content,
        "personal_data": session.personal_data,
        "sources": list(session.sources),
        "said": said(question.texts, session.words),
        "named": named(question.texts, session.words),
        "asked": asked(question.action.intents, session.words),
    }


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
