"""From the body of OPA's answer to a verdict, or to the kind of its fault.

The form is closed: exactly these keys, known effects, known obligations, sizes
and finite numbers. What is not understood is never an allow.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

from memoryos_core.canonical import JsonValue

from memoryos_policy.domain.verdicts import Approval, Effect, Reason, Verdict

REASONS_MAX: Final = 64
CODE_CHARS_MAX: Final = 128
TEXT_CHARS_MAX: Final = 500
QUORUM_MAX: Final = 10
EXPIRES_IN_S_MAX: Final = 7 * 24 * 3600

_EFFECTS: Final = {effect.value: effect for effect in Effect}
_CODE: Final = re.compile(r"[a-z][a-z0-9_:.]*", re.ASCII)
_POLICY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*", re.ASCII)
_GROUP: Final = re.compile(r"[\w.@:/+\-]+")
_REVISION: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Fault(Exception):
    """The answer is not usable; `kind` says in what, for `policy_error:<kind>`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Missing(Fault):
    """OPA serves no decision bundle."""

    def __init__(self) -> None:
        super().__init__("missing")


def parse_answer(body: JsonValue) -> Verdict:
    """Give the verdict of a 200 answer. Raises Fault; Missing when OPA has no bundle to answer from."""
    if not isinstance(body, dict):
        raise Fault("not_an_answer")
    revisions = _revisions(body.get("provenance"))
    if "result" not in body:
        # OPA says undefined with 200 and no result.
        if revisions is not None and not revisions:
            raise Missing
        raise Fault("undefined")
    result = body["result"]
    if not isinstance(result, dict):
        raise Fault("not_an_object")
    if set(result) != {"decision", "reasons", "agent_message", "obligations", "confirm_time"}:
        raise Fault("keys")
    effect = _effect(result["decision"])
    if revisions is None or len(revisions) != 1 or not _REVISION.fullmatch(revisions[0]):
        raise Fault("revision")
    return Verdict(
        effect=effect,
        reasons=_reasons(result["reasons"]),
        agent_message=_text(result["agent_message"], "agent_message"),
        approval=_approval(effect, result["obligations"]),
        revision=revisions[0],
        confirm_time=_confirm_time(effect, result["confirm_time"]),
    )


def _revisions(provenance: Any) -> list[str] | None:
    """Give the revisions of the bundles that have one; None when the answer does not say."""
    bundles = provenance.get("bundles", {}) if isinstance(provenance, dict) else None
    if not isinstance(bundles, dict):
        return None
    stated = [bundle.get("revision") for bundle in bundles.values() if isinstance(bundle, dict)]
    return [revision for revision in stated if isinstance(revision, str) and revision]


def _effect(value: Any) -> Effect:
    try:
        return _EFFECTS[value]
    except (KeyError, TypeError):
        raise Fault("decision") from None


def _text(value: Any, kind: str) -> str:
    if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX:
        raise Fault(kind)
    return value


def _reasons(value: Any) -> tuple[Reason, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= REASONS_MAX:
        raise Fault("reasons")
    return tuple(_reason(item) for item in value)


def _reason(value: Any) -> Reason:
    if not isinstance(value, dict) or set(value) != {"code", "policy", "text"}:
        raise Fault("reasons")
    code, policy = value["code"], value["policy"]
    if not (isinstance(code, str) and len(code) <= CODE_CHARS_MAX and _CODE.fullmatch(code)):
        raise Fault("reasons")
    if not (isinstance(policy, str) and len(policy) <= 2 * CODE_CHARS_MAX and _POLICY.fullmatch(policy)):
        raise Fault("reasons")
    return Reason(code, policy, _text(value["text"], "reasons"))


def _approval(effect: Effect, value: Any) -> Approval | None:
    """Give the one approval that a manual_review asks for; nothing else may carry obligations yet."""
    if not isinstance(value, list) or len(value) != (1 if effect is Effect.MANUAL_REVIEW else 0):
        raise Fault("obligations")
    if not value:
        return None
    item = value[0]
    if not isinstance(item, dict) or set(item) != {"kind", "group", "quorum", "expires_in_s"}:
        raise Fault("obligations")
    group = item["group"]
    if item["kind"] != "approval" or not (
        isinstance(group, str) and len(group) <= CODE_CHARS_MAX and _GROUP.fullmatch(group)
    ):
        raise Fault("obligations")
    return Approval(group, _whole(item["quorum"], QUORUM_MAX), _whole(item["expires_in_s"], EXPIRES_IN_S_MAX))


def _whole(value: Any, maximum: int) -> int:
    if type(value) is not int or not 1 <= value <= maximum:
        raise Fault("obligations")
    return value


def _confirm_time(effect: Effect, value: Any) -> datetime | None:
    if value == "" and effect is Effect.DENY:
        return None
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise Fault("confirm_time") from None
    if time.tzinfo is None:
        raise Fault("confirm_time")
    return time
