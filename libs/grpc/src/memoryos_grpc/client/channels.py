"""The factory of channels to other services."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import grpc
from memoryos_core.clock import Clock, SystemClock
from memoryos_core.tokens import TokenSigner
from memoryos_telemetry import Telemetry

from memoryos_grpc.client.channel import ServiceChannel
from memoryos_grpc.client.outgoing import Outgoing
from memoryos_grpc.client.service_tokens import ServiceTokens
from memoryos_grpc.config import GrpcSection
from memoryos_grpc.methods import METHOD_RULES, MethodRule

# gRPC adds ±20 % jitter to each back-off and gives up when the deadline would pass.
RETRY_POLICY: Final = {
    "maxAttempts": 4,
    "initialBackoff": "0.05s",
    "maxBackoff": "1s",
    "backoffMultiplier": 3,
    "retryableStatusCodes": ["UNAVAILABLE"],
}


class Channels:
    """Opens channels whose calls carry both credentials, the trace and the time that is left.

    Calls are those of gRPC itself, nothing awaits them in between: cancelling
    one reaches the server at once.
    """

    def __init__(
        self,
        service_name: str,
        signer: TokenSigner | None,
        telemetry: Telemetry,
        config: GrpcSection,
        clock: Clock | None = None,
    ) -> None:
        if signer is not None and signer.issuer != service_name:
            raise ValueError(f"the service key of {service_name} names {signer.issuer}")
        self._tokens = ServiceTokens(signer, clock or SystemClock()) if signer else None
        self._telemetry = telemetry
        self._config = config
        self._open: dict[tuple[str, str], ServiceChannel] = {}

    def open(self, address: str, audience: str) -> grpc.aio.Channel:
        """Give the channel to the service `audience` at `address` (host:port); the same one for the same pair.

        It connects when it is first used. Close all of them by `close`.
        """
        channel = self._open.get((address, audience))
        if channel is None:
            outgoing = Outgoing(
                tracer=self._telemetry.tracer("memoryos_grpc"),
                service_tokens=self._tokens,
                audience=audience,
                timeout_s=self._config.client_timeout_s,
            )
            channel = ServiceChannel(self._connect(address), outgoing)
            self._open[address, audience] = channel
        return channel

    async def close(self) -> None:
        """Close every channel; running calls are cancelled."""
        channels, self._open = list(self._open.values()), {}
        for channel in channels:
            await channel.close(None)

    def _connect(self, address: str) -> grpc.aio.Channel:
        options = channel_options(self._config.message_bytes_max)
        credentials = _credentials(self._config)
        if credentials is None:
            return grpc.aio.insecure_channel(address, options=options)
        return grpc.aio.secure_channel(address, credentials, options=options)


def service_config(rules: Mapping[str, MethodRule] = METHOD_RULES) -> str:
    """Give gRPC's service config: safe methods are retried on UNAVAILABLE, no other ever."""
    names = [
        {"service": service, "method": method}
        for full_name, rule in sorted(rules.items())
        if rule.safe
        for service, method in [full_name[1:].split("/")]
    ]
    return json.dumps({"methodConfig": [{"name": names, "retryPolicy": RETRY_POLICY}]})


def channel_options(message_bytes_max: int) -> list[tuple[str, Any]]:
    """Give the options of a channel between services."""
    return [
        ("grpc.service_config", service_config()),
        ("grpc.max_receive_message_length", message_bytes_max),
        ("grpc.max_send_message_length", message_bytes_max),
        # A proxy of the environment must not see calls between services.
        ("grpc.enable_http_proxy", 0),
        # A restarted peer is found again within a second or two.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.use_local_subchannel_pool", 1),
    ]


def _credentials(config: GrpcSection) -> grpc.ChannelCredentials | None:
    if config.tls_peer_ca_file is None:
        return None
    own = config.tls_cert_file is not None and config.tls_key_file is not None
    return grpc.ssl_channel_credentials(
        root_certificates=config.tls_peer_ca_file.read_bytes(),
        private_key=config.tls_key_file.read_bytes() if own and config.tls_key_file else None,
        certificate_chain=config.tls_cert_file.read_bytes() if own and config.tls_cert_file else None,
    )
