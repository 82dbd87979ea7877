"""From the body of OPA's answer to a verdict, or to the kind of its fault.

The form is closed: exactly these keys, known effects, known obligations, sizes
and finite numbers, as in schemas/result.schema.json. What is not understood is
never an allow.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from memoryos_core.canonical import JsonValue

from memoryos_policy.adapters.faults import Fault, Missing
from memoryos_policy.adapters.obligation_parser import parse_obligations
from memoryos_policy.domain.obligations import Approval, Obligation, RewriteArgs
from memoryos_policy.domain.verdicts import RISKS, Effect, Reason, Verdict

REASONS_MAX: Final = 64
CODE_CHARS_MAX: Final = 128
TEXT_CHARS_MAX: Final = 500
_KEYS: Final = {"decision", "risk", "reasons", "agent_message", "obligations", "confirm_time"}
_EFFECTS: Final = {effect.value: effect for effect in Effect}
_CODE: Final = re.compile(r"[a-z][a-z0-9_:.]*", re.ASCII)
_POLICY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*", re.ASCII)
_TIME: Final = re.compile(r"[1-9]\d{3}-\d{2}-\d{2}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?Z", re.ASCII)
_REVISION: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


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
    verdict = parse_result(result)
    if revisions is None or len(revisions) != 1 or not _REVISION.fullmatch(revisions[0]):
        raise Fault("revision")
    return replace(verdict, revision=revisions[0])


def parse_result(result: JsonValue) -> Verdict:
    """Give the verdict of a result, without revision: exactly what schemas/result.schema.json admits, or Fault."""
    if not isinstance(result, dict):
        raise Fault("not_an_object")
    if result.keys() != _KEYS:
        raise Fault("keys")
    effect = _effect(result["decision"])
    if not isinstance(result["risk"], str) or result["risk"] not in RISKS:
        raise Fault("risk")
    return Verdict(
        effect=effect,
        reasons=_reasons(result["reasons"]),
        agent_message=_text(result["agent_message"], "agent_message"),
        obligations=_obligations(effect, result["obligations"]),
        risk=result["risk"],
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
    if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX or "\0" in value:  # no text of PostgreSQL has it
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


def _obligations(effect: Effect, value: Any) -> tuple[Obligation, ...]:
    """Give the obligations: none of a deny, one approval of a review and of nothing else, at most one rewrite."""
    obligations = parse_obligations(value)
    approvals = sum(isinstance(one, Approval) for one in obligations)
    rewrites = sum(isinstance(one, RewriteArgs) for one in obligations)
    wanted = 1 if effect is Effect.MANUAL_REVIEW else 0
    if (effect is Effect.DENY and obligations) or approvals != wanted or rewrites > 1:
        raise Fault("obligations")
    return obligations


def _confirm_time(effect: Effect, value: Any) -> datetime | None:
    if value == "" and effect is Effect.DENY:
        return None
    try:
        if not _TIME.fullmatch(value):
            raise Fault("confirm_time")
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise Fault("confirm_time") from None
