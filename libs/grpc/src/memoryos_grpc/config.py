"""Configuration of the server and of the channels to other services."""

from __future__ import annotations

from typing import ClassVar

from memoryos_core.config import ConfigPath, Section
from pydantic import Field


class GrpcSection(Section):
    """Where a service listens, and the limits of calls to it and from it."""

    section: ClassVar[str] = "grpc"

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=0, ge=0, le=65535, description="Port to listen on; 0: any free one, see port_file.")
    port_file: ConfigPath | None = Field(default=None, description="File that gets the bound port, once it is bound.")
    message_bytes_max: int = Field(
        default=16 * 1024 * 1024, ge=1024, description="Largest request or answer; larger ones are RESOURCE_EXHAUSTED."
    )
    concurrent_calls_max: int = Field(
        default=512, ge=1, description="Calls served at once; more are RESOURCE_EXHAUSTED with RetryInfo."
    )
    calls_per_user_max: int = Field(
        default=128, ge=1, description="Calls of one user served at once; more are RESOURCE_EXHAUSTED with RetryInfo."
    )
    call_s_max: float = Field(default=120.0, gt=0, description="Longest a call may take, whatever its caller allows.")
    stream_s_max: float = Field(default=3600.0, gt=0, description="Longest a stream may take; watchers resume.")
    remaining_s_min: float = Field(
        default=0.005, ge=0, description="A call that comes with less time left is refused at once."
    )
    drain_s: float = Field(default=10.0, ge=0, description="How long calls may still run after the stop signal.")
    client_timeout_s: float = Field(
        default=10.0, gt=0, description="Longest that an outgoing call waits where neither caller nor code says less."
    )
    tls_cert_file: ConfigPath | None = Field(default=None, description="Certificate chain of this service (PEM).")
    tls_key_file: ConfigPath | None = Field(default=None, description="Private key of that certificate (PEM).")
    tls_client_ca_file: ConfigPath | None = Field(
        default=None, description="Clients must show a certificate of this CA (mTLS)."
    )
    tls_peer_ca_file: ConfigPath | None = Field(
        default=None, description="Calls to other services use TLS and trust this CA; none: no TLS."
    )
