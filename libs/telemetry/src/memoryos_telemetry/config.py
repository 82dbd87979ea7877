"""Configuration of traces and logs."""

from __future__ import annotations

from typing import ClassVar, Literal

from memoryos_core.config import ConfigPath, Section
from pydantic import Field


class TelemetrySection(Section):
    """Where spans and logs go. The local span file cannot be turned off."""

    section: ClassVar[str] = "telemetry"

    span_dir: ConfigPath = Field(description="Folder of the local span files, one per process.")
    span_file_bytes_max: int = Field(
        default=64 * 1024 * 1024, ge=64 * 1024, description="Bytes a process keeps in span files; older spans go first."
    )
    span_files_max: int = Field(
        default=64, ge=1, description="Span files kept in the folder beside those of running processes."
    )
    otlp_endpoint: str | None = Field(
        default=None, description="OTLP/gRPC collector, e.g. http://127.0.0.1:4317; none: spans stay local."
    )
    otlp_queue_max: int = Field(
        default=4096, ge=64, description="Spans that wait for the collector; beyond it the oldest are dropped."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least severe level that is logged."
    )
