"""How a skill file says what becomes of calls that failed or whose outcome is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memoryos_core.canonical import canonical_json

from memoryos_toolgateway.adapters.skill_connectors import ConnectorReader
from memoryos_toolgateway.domain.skill import EffectClass, Fallback, FallbackKind, Reconciliation, Sign
from memoryos_toolgateway.errors import SkillFileInvalid

RESULT_BYTES_MAX: Final = 16_384


def fallback_of(file: str, document: dict[str, Any], effect_class: EffectClass) -> Fallback | None:
    """Give the fallback, or raise SkillFileInvalid."""
    declared = document.get("fallback")
    if declared is None:
        return None
    kind = FallbackKind(declared["kind"])
    if kind is not FallbackKind.RESULT:
        return Fallback(kind=kind, text=declared["text"])
    if effect_class is not EffectClass.READ:
        raise SkillFileInvalid(file, "/fallback", "a fixed result would say of a write that it was done: only read")
    result = canonical_json(declared["result"])
    if len(result) > RESULT_BYTES_MAX:
        raise SkillFileInvalid(file, "/fallback/result", f"has more than {RESULT_BYTES_MAX} bytes")
    return Fallback(kind=kind, result=result)


def reconciliation_of(
    file: str, document: dict[str, Any], effect_class: EffectClass, endpoints: Mapping[str, str]
) -> Reconciliation | None:
    """Give how the upstream is asked what became of a call, or raise SkillFileInvalid.

    The request's places are /call_id, which is the idempotency key, and the
    arguments below /arguments.
    """
    declared = document.get("reconcile")
    if declared is None:
        return None
    if effect_class is EffectClass.READ:
        raise SkillFileInvalid(file, "/reconcile", "a read has no effect to be in doubt about")
    seen = {
        "type": "object",
        "required": ["call_id", "arguments"],
        "properties": {"call_id": {"type": "string"}, "arguments": document["parameters"]},
    }
    reader = ConnectorReader(file, {"parameters": seen}, endpoints)
    happened, not_happened = _sign(declared["happened"]), _sign(declared["did_not_happen"])
    if happened == not_happened:
        raise SkillFileInvalid(file, "/reconcile", "happened and did_not_happen are the same sign")
    return Reconciliation(
        lookup=reader.lookup("/reconcile/lookup", declared["lookup"]), happened=happened, did_not_happen=not_happened
    )


def _sign(declared: dict[str, Any]) -> Sign:
    return Sign(status=declared.get("status", 200), pointer=declared.get("pointer"), equals=declared.get("equals"))
