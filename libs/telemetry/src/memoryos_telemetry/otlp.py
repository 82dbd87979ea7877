"""Spans to a collector, from a thread of their own: a dead collector costs no call anything."""

from __future__ import annotations

import collections
import threading
from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Status, StatusCode

from memoryos_telemetry.recorded import RecordedSpan

BATCH_MAX: Final = 512
INTERVAL_S: Final = 1.0
EXPORT_TIMEOUT_S: Final = 3.0
SHUTDOWN_S: Final = 2.0


class OtlpExport:
    """Queues ended spans and exports them in batches; drops the oldest when the queue is full.

    The SDK's batch processor waits up to 30 s at shutdown, wakes its thread
    from the calling one and logs per span when full; hence this one.
    """

    def __init__(self, endpoint: str, service: str, *, queue_max: int) -> None:
        self.dropped = 0
        self._resource = Resource({"service.name": service})
        self._exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S)
        self._queue: collections.deque[RecordedSpan] = collections.deque(maxlen=queue_max)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp-export", daemon=True)
        self._thread.start()

    def ended(self, span: RecordedSpan) -> None:
        """Queue a span; never waits."""
        self.dropped += len(self._queue) == self._queue.maxlen
        self._queue.append(span)

    def close(self) -> None:
        """Try to send what is queued, for at most `SHUTDOWN_S`."""
        self._stop.set()
        self._thread.join(SHUTDOWN_S)
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            self._drain()
        self._drain()

    def _drain(self) -> None:
        while batch := self._take():
            self._exporter.export(batch)
            if self._stop.is_set() and len(batch) < BATCH_MAX:
                return

    def _take(self) -> Sequence[ReadableSpan]:
        batch: list[ReadableSpan] = []
        while self._queue and len(batch) < BATCH_MAX:
            batch.append(_readable(self._queue.popleft(), self._resource))
        return batch


def _readable(span: RecordedSpan, resource: Resource) -> ReadableSpan:
    """Give the SDK's form of a span."""
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=resource,
        attributes=span.attributes,
        kind=span.kind,
        instrumentation_scope=InstrumentationScope(span.scope),
        status=Status(StatusCode.ERROR if span.failed else StatusCode.UNSET),
        start_time=span.start_ns,
        end_time=span.end_ns,
    )
