"""Configuration sections that every service reads: identity, sealing and the addresses of its peers."""

from __future__ import annotations

from typing import ClassVar, Final

from memoryos_core.config import ConfigPath, Section

ALL_SECTIONS: Final = frozenset({
    "audit", "grpc", "harness", "identity", "memoryfs", "models", "peers", "policy", "postgres", "sealing", "telemetry",
    "tool-gateway",
})  # fmt: skip
"""Names of the sections that the one configuration file of an installation may have, for `load(known=…)`."""


class IdentitySection(Section):
    """Whom a service believes, and how it names itself."""

    section: ClassVar[str] = "identity"
    keys_file: ConfigPath
    """JWKS file of trusted keys, with `iss` and `use` per key."""
    service_key_file: ConfigPath | None = None
    """Private key (use "service") with which this service signs its calls to others."""
    task_key_file: ConfigPath | None = None
    """Private key (use "subject", issuer memoryos-harness) of task tokens; harness and its worker only."""


class SealingSection(Section):
    """The key that wraps all data keys."""

    section: ClassVar[str] = "sealing"
    epoch_key_file: ConfigPath
    """File with the epoch key, 32 bytes as hex."""


class PeersSection(Section):
    """Addresses (host:port) of the four services; empty where a service does not call that peer."""

    section: ClassVar[str] = "peers"
    memoryfs: str = ""
    policy: str = ""
    tool_gateway: str = ""
    harness: str = ""
