"""The server of a service: its servicers behind the interceptors, health, reflection, graceful end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from memoryos_core.clock import Clock, SystemClock
from memoryos_core.tokens import TokenVerifier
from memoryos_telemetry import Telemetry

from memoryos_grpc.chain import Registry, find_methods, serving_handler
from memoryos_grpc.config import GrpcSection
from memoryos_grpc.interceptors.authenticate import Authenticate
from memoryos_grpc.interceptors.authorise import Authorise
from memoryos_grpc.interceptors.bound import Bound
from memoryos_grpc.interceptors.deadline import Deadline
from memoryos_grpc.interceptors.errors import Errors
from memoryos_grpc.interceptors.share import Share
from memoryos_grpc.interceptors.tracing import Tracing
from memoryos_grpc.interceptors.validate import Validate
from memoryos_grpc.methods import METHOD_RULES, MethodRule
from memoryos_grpc.ports import AuditSink, Interceptor, LogAuditSink, ScopeBound

Servicers = Sequence[tuple[Callable[[Any, Any], None], Any]]
"""Pairs of a generated add_…Servicer_to_server function and the servicer."""

OPEN_CALLS_SPARE: Final = 64
"""Calls beside concurrent_calls_max that gRPC itself takes, so that health answers a busy server."""
METADATA_BYTES_MAX: Final = 24 * 1024
"""Both tokens at their largest (8 kB each) and the rest; gRPC's default refuses at random above 8 kB."""
_SERVING: Final = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING


class Server:
    """Serves one service's RPCs. Health and reflection are open; everything else needs tokens."""

    def __init__(
        self,
        name: str,
        servicers: Servicers,
        *,
        verifier: TokenVerifier,
        telemetry: Telemetry,
        config: GrpcSection,
        audit: AuditSink | None = None,
        clock: Clock | None = None,
        bound: ScopeBound | None = None,
        rules: Mapping[str, MethodRule] = METHOD_RULES,
    ) -> None:
        """Raise NotServable when a method has no rule, no async handler or rules that cannot be checked."""
        self.name = name
        self.port = 0
        self._config = config
        registry = Registry()
        for add, servicer in servicers:
            add(servicer, registry)
        methods = find_methods(registry, rules)
        self._deadline = Deadline(config)
        interceptors: list[Interceptor] = [
            Tracing(telemetry),
            Errors(audit or LogAuditSink()),
            self._deadline,
            Authenticate(verifier, clock or SystemClock()),
            Authorise(),
            Share(config),
            Validate(method for method, _ in methods),
        ]
        if bound is not None:
            interceptors.append(Bound(bound))
        self._handlers: dict[str, dict[str, grpc.RpcMethodHandler]] = {}
        for method, handler in methods:
            by_name = self._handlers.setdefault(method.service, {})
            by_name[method.name] = serving_handler(method, handler, interceptors)
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        """host:port that clients on this machine reach."""
        return f"{self._config.host}:{self.port}"

    async def start(self) -> int:
        """Bind, serve, write the port file, and give the port; raises OSError when the port is taken."""
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", self._config.message_bytes_max),
                ("grpc.max_send_message_length", self._config.message_bytes_max),
                ("grpc.max_metadata_size", METADATA_BYTES_MAX),
                ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
                # Without this a second process binds the same port and takes half of the calls.
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=self._config.concurrent_calls_max + OPEN_CALLS_SPARE,
        )
        for service, by_name in self._handlers.items():
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, by_name),))
            server.add_registered_method_handlers(service, by_name)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((*self._handlers, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        self.port = self._bind(server)
        await server.start()
        self._server = server
        await self.set_health(serving=True)
        if self._config.port_file is not None:
            _write_whole(self._config.port_file, f"{self.port}\n")
        return self.port

    async def set_health(self, *, serving: bool) -> None:
        """Say whether the service can do its work; load balancers and `mos status` ask."""
        for service in ("", *self._handlers):
            await self._health.set(service, _SERVING if serving else _NOT_SERVING)

    async def set_part_health(self, part: str, *, serving: bool) -> None:
        """Say whether a part that the service can do without works, under a name of its own."""
        await self._health.set(part, _SERVING if serving else _NOT_SERVING)

    async def serve_until(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then end gracefully. Starts when that was not done yet."""
        if self._server is None:
            await self.start()
        await stop.wait()
        await self.stop()

    async def stop(self, grace_s: float | None = None) -> None:
        """Take no more calls, end streams, give running calls `grace_s` (default: config), then cancel them."""
        if self._server is None:
            return
        await self._health.enter_graceful_shutdown()
        stopping = asyncio.ensure_future(self._server.stop(self._config.drain_s if grace_s is None else grace_s))
        self._deadline.end_streams()
        await stopping
        if self._config.port_file is not None:
            self._config.port_file.unlink(missing_ok=True)

    def _bind(self, server: grpc.aio.Server) -> int:
        address = f"{self._config.host}:{self._config.port}"
        credentials = _credentials(self._config)
        try:
            port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
        except RuntimeError:
            raise OSError(f"cannot listen on {address}") from None
        return int(port)


def _credentials(config: GrpcSection) -> grpc.ServerCredentials | None:
    if config.tls_cert_file is None and config.tls_key_file is None:
        return None
    if config.tls_cert_file is None or config.tls_key_file is None:
        raise ValueError("grpc.tls_cert_file and grpc.tls_key_file come together")
    client_ca = config.tls_client_ca_file.read_bytes() if config.tls_client_ca_file else None
    return grpc.ssl_server_credentials(
        [(config.tls_key_file.read_bytes(), config.tls_cert_file.read_bytes())],
        root_certificates=client_ca,
        require_client_auth=client_ca is not None,
    )


def _write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(text, encoding="ascii")
    os.replace(temporary, path)
