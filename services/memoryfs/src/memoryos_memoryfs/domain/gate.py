"""The confidence gate (I8): doubt stays a candidate and dies within a day."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from memoryos_memoryfs.domain.items import Origin, State

GATE: Final = 0.8
"""Where neither a path nor the configuration says another one."""
CANDIDATE_TTL: Final = timedelta(hours=24)

_CAPS: Final = {
    Origin.STATED: 1.0,
    Origin.OBSERVED: 0.95,
    Origin.INFERRED: 0.9,
    Origin.IMPORTED: 0.95,
    Origin.MERGED: 0.95,
}
"""Highest confidence by origin: a conclusion is never as sure as a statement."""


def capped_confidence(asked: float | None, origin: Origin) -> float:
    """Give the confidence an item gets; absent: 1 for stated, 0.9 for others, then the caps."""
    wanted = asked if asked is not None else (1.0 if origin is Origin.STATED else 0.9)
    return min(wanted, _CAPS[origin])


def gated_state(confidence: float, before: State | None, gate: float = GATE) -> State:
    """Give the state of a new (`before` None) or changed item.

    A candidate stays one whatever confidence a later write claims: only
    independent evidence or a person promotes it. An active item whose
    confidence falls below the gate becomes a candidate.
    """
    if before is State.CANDIDATE or confidence < gate:
        return State.CANDIDATE
    return State.ACTIVE


def candidate_expiry(asked: datetime | None, since: datetime) -> datetime:
    """Give when a candidate of age `since` ends: never later than a day on."""
    latest = since + CANDIDATE_TTL
    return latest if asked is None else min(asked, latest)
