"""Telemetry that writes into the folder of a test."""

from __future__ import annotations

import pytest
from memoryos_core.clock import SystemClock
from memoryos_telemetry import Telemetry, TelemetrySection


@pytest.fixture
def telemetry(tmp_path):
    telemetry = Telemetry(TelemetrySection(span_dir=tmp_path / "spans"), "svc", SystemClock())
    yield telemetry
    telemetry.shutdown()
