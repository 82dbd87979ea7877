"""Collectors: a live one gets the spans, a dead one costs nothing."""

from __future__ import annotations

import socket
import threading
import time
from concurrent import futures

import grpc
import pytest
from memoryos_core.clock import SystemClock
from memoryos_telemetry import Telemetry, TelemetrySection
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector that keeps names."""

    def __init__(self):
        self.names = []
        self.services = set()
        self.got = threading.Event()

    def Export(self, request, context):
        for resource in request.resource_spans:
            self.services |= {a.value.string_value for a in resource.resource.attributes if a.key == "service.name"}
            self.names += [span.name for scope in resource.scope_spans for span in scope.spans]
        self.got.set()
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collector():
    server = grpc.server(futures.ThreadPoolExecutor(1))
    collector = Collector()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    collector.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield collector
    server.stop(0)


def telemetry_to(endpoint, folder, **more):
    return Telemetry(TelemetrySection(span_dir=folder, otlp_endpoint=endpoint, **more), "svc", SystemClock())


def test_spans_reach_a_collector(collector, tmp_path):
    telemetry = telemetry_to(collector.endpoint, tmp_path)
    for name in ("a", "b"):
        with telemetry.tracer("t").span(name):
            pass
    assert collector.got.wait(10)
    telemetry.shutdown()
    assert sorted(collector.names) == ["a", "b"]
    assert collector.services == {"svc"}


def test_what_is_queued_is_sent_at_shutdown(collector, tmp_path):
    telemetry = telemetry_to(collector.endpoint, tmp_path)
    with telemetry.tracer("t").span("last"):
        pass
    telemetry.shutdown()
    assert collector.names == ["last"]


@pytest.mark.parametrize("kind", ["closed", "silent"])
def test_a_dead_collector_costs_no_call_anything(kind, tmp_path):
    """A refused connection, and one that is accepted and never answered."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    if kind == "silent":
        listener.listen(8)
    telemetry = telemetry_to(f"http://127.0.0.1:{listener.getsockname()[1]}", tmp_path, otlp_queue_max=64)
    tracer = telemetry.tracer("t")
    slowest_s = 0.0
    for _ in range(3_000):
        start_s = time.perf_counter()
        with tracer.span("a"):
            pass
        slowest_s = max(slowest_s, time.perf_counter() - start_s)
    assert slowest_s < 1  # an export, its time-out or its retries would be 3 s and more
    start_s = time.perf_counter()
    telemetry.shutdown()
    assert time.perf_counter() - start_s < 5
    listener.close()
    assert telemetry.span_file.dropped == 0
