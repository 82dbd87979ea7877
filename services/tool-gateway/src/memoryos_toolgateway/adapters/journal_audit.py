"""Audit rows of the journal: CALL_TOOL when a call is asked for or resumed, TOOL_RESULT when it ends."""

from __future__ import annotations

from typing import Final

from memoryos_audit import Actor, AuditEvent, Kind, Outcome, record
from memoryos_core.scope import Scope
from memoryos_postgres import Tx
from memoryos_telemetry import current_trace_id, trace_id_of

from memoryos_toolgateway.domain.calls import Call, CallState

SERVICE: Final = "tool-gateway"
_METHOD: Final = "memoryos.toolgateway.v1.ToolGateway/CallSkill"
_OUTCOMES: Final = {
    CallState.SUCCEEDED: Outcome.OK,
    CallState.FAILED: Outcome.ERROR,
    CallState.UNKNOWN: Outcome.UNKNOWN,
    CallState.DENIED: Outcome.DENIED,
    CallState.CANCELLED: Outcome.DENIED,
}


def asked(tx: Tx, scope: Scope, call: Call) -> None:
    """Record that a call was asked for and what was decided."""
    outcome = Outcome.DENIED if call.state is CallState.DENIED else Outcome.OK
    record(tx, _event(Kind.CALL_TOOL, Actor.of(scope), call, outcome, step=call.state.value.lower()))


def resumed(tx: Tx, scope: Scope, call: Call) -> None:
    """Record that a parked call is made now, and on which review."""
    record(tx, _event(Kind.CALL_TOOL, Actor.of(scope), call, Outcome.OK, step="resumed"))


def ended(tx: Tx, call: Call) -> None:
    """Record how a call ended; the actor is the one that asked, whoever found it ended."""
    principal = f"agent:{call.user}/{call.chain[-1]}" if call.chain else f"user:{call.user}"
    actor = Actor(call.tenant, call.user, principal, call.chain, call.session_id, call.task_id)
    record(tx, _event(Kind.TOOL_RESULT, actor, call, _OUTCOMES[call.state], step=call.state.value.lower()))


def withdrawn(tx: Tx, scope: Scope, call: Call) -> None:
    """Record who withdrew a call."""
    record(tx, _event(Kind.CALL_TOOL, Actor.of(scope), call, Outcome.DENIED, step="cancelled"))


def settled(tx: Tx, scope: Scope, call: Call, *, by_person: bool) -> None:
    """Record that a person, or an upstream that was asked, has ended a doubt, and who asked."""
    step = "reconciled_by_person" if by_person else "reconciled_by_upstream"
    record(tx, _event(Kind.ADMIN_ACT, Actor.of(scope), call, _OUTCOMES[call.state], step=step))


def _event(kind: Kind, actor: Actor, call: Call, outcome: Outcome, *, step: str) -> AuditEvent:
    duration = call.end_time - call.dispatch_time if call.end_time and call.dispatch_time else None
    attributes: dict[str, str | int | bool] = {
        "state": step,
        "version": call.version,
        "action_digest_hmac": call.action_digest_hmac,
        "issuer": call.issuer,
        "request_id": call.request_id,
        "dispatches": call.dispatches,
    }
    if call.rewritten:
        attributes["rewritten"] = True
    if call.fallback:
        attributes["fallback"] = True
    if call.review_id:
        attributes["review_id"] = call.review_id
    return AuditEvent(
        kind=kind,
        actor=actor,
        service=SERVICE,
        method=_METHOD,
        outcome=outcome,
        reason=call.error_code,
        target_type="skill",
        target_ids=(call.skill,) if call.skill else (),
        call_id=call.id,
        decision_id=call.decision_id,
        trace_id=current_trace_id() or trace_id_of(call.traceparent),
        duration_us=round(duration.total_seconds() * 1e6) if duration is not None else None,
        attributes=attributes,
    )
