"""Traces, logs and the local span file of every process."""

from memoryos_telemetry.config import TelemetrySection
from memoryos_telemetry.context import (
    continue_trace,
    current_trace_id,
    current_traceparent,
    remote_context,
    trace_id_of,
)
from memoryos_telemetry.telemetry import Telemetry, configure, tracer
from memoryos_telemetry.trace_tree import TraceTree, trace_tree

__all__ = [
    "Telemetry",
    "TelemetrySection",
    "TraceTree",
    "configure",
    "continue_trace",
    "current_trace_id",
    "current_traceparent",
    "remote_context",
    "trace_id_of",
    "trace_tree",
    "tracer",
]
