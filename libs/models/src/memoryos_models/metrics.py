"""Counters of model calls, through OpenTelemetry's metrics API: no content, no user, no tenant."""

from __future__ import annotations

from memoryos_core.errors import MemoryOSError
from opentelemetry import metrics

from memoryos_models.errors import (
    ModelContextExceeded,
    ModelNotFound,
    ModelRejected,
    ModelReplyInvalid,
    ModelUnavailable,
)

_REASONS: tuple[tuple[type[MemoryOSError], str], ...] = (
    (ModelContextExceeded, "MODEL_CONTEXT_EXCEEDED"),
    (ModelNotFound, "MODEL_NOT_FOUND"),
    (ModelRejected, "MODEL_REJECTED"),
    (ModelReplyInvalid, "MODEL_REPLY_INVALID"),
    (ModelUnavailable, "MODEL_UNAVAILABLE"),
)


def reason_of(error: MemoryOSError) -> str:
    """Give the word for an error in `ModelTry.reason` and in metrics."""
    return next((word for kind, word in _REASONS if isinstance(error, kind)), error.reason)


class Counted:
    """`memoryos.model.tries` by endpoint and outcome, and how long each took."""

    def __init__(self) -> None:
        meter = metrics.get_meter("memoryos.models")
        self._tries = meter.create_counter("memoryos.model.tries", description="Requests to chat endpoints.")
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration", unit="s", description="Time to a chat reply or its failure."
        )

    def tried(self, endpoint: str, outcome: str, seconds: float) -> None:
        """Count one request."""
        labels = {"memoryos.endpoint": endpoint, "outcome": outcome}
        self._tries.add(1, labels)
        self._seconds.record(seconds, labels)
