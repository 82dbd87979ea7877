"""Spans to a collector, from a thread of their own: a dead collector costs no call anything."""

from __future__ import annotations

import collections
import threading
from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

BATCH_MAX: Final = 512
INTERVAL_S: Final = 1.0
EXPORT_TIMEOUT_S: Final = 3.0
SHUTDOWN_S: Final = 2.0


class OtlpExport(SpanProcessor):
    """Queues ended spans and exports them in batches; drops the oldest when the queue is full.

    The SDK's batch processor waits up to 30 s at shutdown, wakes its thread
    from the calling one and logs per span when full; hence this one.
    """

    def __init__(self, endpoint: str, *, queue_max: int) -> None:
        self.dropped = 0
        self._exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S)
        self._queue: collections.deque[ReadableSpan] = collections.deque(maxlen=queue_max)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp-export", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span; never waits."""
        self.dropped += len(self._queue) == self._queue.maxlen
        self._queue.append(span)

    def shutdown(self) -> None:
        """Try to send what is queued, for at most `SHUTDOWN_S`."""
        self._stop.set()
        self._thread.join(SHUTDOWN_S)
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Tell whether the queue is empty; the thread empties it."""
        return not self._queue

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
            batch.append(self._queue.popleft())
        return batch
