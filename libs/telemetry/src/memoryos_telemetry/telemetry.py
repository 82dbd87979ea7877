"""Set-up of traces and logs of one process."""

from __future__ import annotations

from contextvars import ContextVar, Token

from memoryos_core.clock import Clock
from opentelemetry import trace

from memoryos_telemetry.config import TelemetrySection
from memoryos_telemetry.logs import configure_logs
from memoryos_telemetry.otel_api import ApiTracerProvider
from memoryos_telemetry.otlp import OtlpExport
from memoryos_telemetry.recorded import RecordedSpan
from memoryos_telemetry.span_file import SpanFile
from memoryos_telemetry.tracer import Tracer

_process_default: Telemetry | None = None
_here: ContextVar[Telemetry | None] = ContextVar("memoryos_telemetry", default=None)


class Telemetry:
    """Traces of one service: local span file always, a collector when configured.

    Every span is recorded: a caller's unsampled flag makes no holes in a trace (I9).
    """

    def __init__(self, config: TelemetrySection, service_name: str, clock: Clock) -> None:
        self.service_name = service_name
        self.span_file = SpanFile(
            config.span_dir,
            service_name,
            clock.now(),
            bytes_max=config.span_file_bytes_max,
            files_max=config.span_files_max,
        )
        self._collector: OtlpExport | None = None
        if config.otlp_endpoint:
            self._collector = OtlpExport(config.otlp_endpoint, service_name, queue_max=config.otlp_queue_max)

    def tracer(self, name: str) -> Tracer:
        """Give the tracer of a library for this service."""
        return Tracer(lambda: self, name)

    def enter(self) -> Token[Telemetry | None]:
        """Make this the telemetry of `tracer(…)` in the current context (one call or task)."""
        return _here.set(self)

    def started(self, span: RecordedSpan) -> None:
        """Take note of a span that starts."""
        self.span_file.started(span)

    def ended(self, span: RecordedSpan) -> None:
        """Keep a span that has ended."""
        self.span_file.ended(span)
        if self._collector is not None:
            self._collector.ended(span)

    def flush(self) -> None:
        """Make sure that spans up to here outlive this process."""
        self.span_file.flush()

    def shutdown(self) -> None:
        """Close the span file and send what is queued, for at most two seconds."""
        self.span_file.close()
        if self._collector is not None:
            self._collector.close()


def configure(config: TelemetrySection, service_name: str, clock: Clock) -> Telemetry:
    """Give the telemetry of this process, and make it the default of `tracer(…)`; set up JSON logs.

    Libraries that ask OpenTelemetry's API for a tracer get ours from here on.
    """
    global _process_default  # noqa: PLW0603 -- one per process, like the root logger it goes with
    configure_logs(service_name, config.log_level)
    telemetry = Telemetry(config, service_name, clock)
    _process_default = telemetry
    if not isinstance(trace.get_tracer_provider(), ApiTracerProvider):
        trace.set_tracer_provider(ApiTracerProvider(_sink_here))
    return telemetry


def tracer(name: str) -> Tracer:
    """Give the tracer of a library, for whichever service runs it.

    Spans go to the telemetry of the call at hand, else to that of the process;
    before `configure` they go nowhere.
    """
    return Tracer(_sink_here, name)


def _sink_here() -> Telemetry | None:
    return _here.get() or _process_default
