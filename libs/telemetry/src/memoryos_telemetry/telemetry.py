"""Set-up of traces and logs of one process."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Final

from memoryos_core.clock import Clock
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from memoryos_telemetry.config import TelemetrySection
from memoryos_telemetry.logs import configure_logs
from memoryos_telemetry.otlp import OtlpExport
from memoryos_telemetry.span_file import SpanFile
from memoryos_telemetry.tracer import Tracer

ATTRIBUTES_MAX: Final = 64
ATTRIBUTE_CHARACTERS_MAX: Final = 256
"""An attribute is an id, a name or a number; what is longer is cut."""

_NOTHING: Final = trace.NoOpTracerProvider()
_process_default: Telemetry | None = None
_here: ContextVar[Telemetry | None] = ContextVar("memoryos_telemetry", default=None)


class Telemetry:
    """Traces of one service: local span file always, a collector when configured."""

    def __init__(self, config: TelemetrySection, service_name: str, clock: Clock) -> None:
        self.service_name = service_name
        self.span_file = SpanFile(
            config.span_dir,
            service_name,
            clock.now(),
            bytes_max=config.span_file_bytes_max,
            files_max=config.span_files_max,
        )
        # Always on: a caller's unsampled flag must not make holes in a trace (I9).
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource({"service.name": service_name}),
            span_limits=SpanLimits(
                max_span_attributes=ATTRIBUTES_MAX,
                max_span_attribute_length=ATTRIBUTE_CHARACTERS_MAX,
                max_events=0,
                max_links=8,
            ),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(self.span_file)
        if config.otlp_endpoint:
            self._provider.add_span_processor(OtlpExport(config.otlp_endpoint, queue_max=config.otlp_queue_max))

    @property
    def provider(self) -> trace.TracerProvider:
        """The OpenTelemetry provider, for the libraries that want one."""
        return self._provider

    def tracer(self, name: str) -> Tracer:
        """Give the tracer of a library for this service."""
        return Tracer(lambda: self._provider, name)

    def enter(self) -> Token[Telemetry | None]:
        """Make this the telemetry of `tracer(…)` in the current context (one call or task)."""
        return _here.set(self)

    def shutdown(self) -> None:
        """Send what is queued, for at most two seconds, and close the span file."""
        self._provider.shutdown()


def configure(config: TelemetrySection, service_name: str, clock: Clock) -> Telemetry:
    """Give the telemetry of this process, and make it the default of `tracer(…)`; set up JSON logs."""
    global _process_default  # noqa: PLW0603 -- one per process, like the root logger it goes with
    configure_logs(service_name, config.log_level)
    telemetry = Telemetry(config, service_name, clock)
    _process_default = telemetry
    return telemetry


def tracer(name: str) -> Tracer:
    """Give the tracer of a library, for whichever service runs it.

    Spans go to the telemetry of the call at hand, else to that of the process;
    before `configure` they go nowhere.
    """
    return Tracer(_provider_here, name)


def _provider_here() -> trace.TracerProvider:
    telemetry = _here.get() or _process_default
    return telemetry.provider if telemetry else _NOTHING
