"""Configuration sections that every service reads: identity, sealing and the addresses of its peers."""

from __future__ import annotations

import importlib
import importlib.util
from typing import ClassVar, Final

from memoryos_core.config import ConfigPath, Section

SECTION_MODULES: Final = {
    "audit": "memoryos_audit.sealer.config",
    "grpc": "memoryos_grpc.config",
    "harness": "memoryos_harness.config",
    "identity": "memoryos_core.sections",
    "memoryfs": "memoryos_memoryfs.config",
    "models": "memoryos_models.config",
    "peers": "memoryos_core.sections",
    "pgvector": "memoryos_vectors.config",
    "policy": "memoryos_policy.config",
    "postgres": "memoryos_postgres.config",
    "qdrant": "memoryos_vectors.qdrant_config",
    "sealing": "memoryos_core.sections",
    "telemetry": "memoryos_telemetry.config",
    "tool-gateway": "memoryos_toolgateway.config",
}
"""Every section that the one configuration file of an installation may have, and the module of its owner."""
ALL_SECTIONS: Final = frozenset(SECTION_MODULES)
"""Their names, for `load(known=…)`."""


def installed_sections() -> list[type[Section]]:
    """Give the section classes of the packages that are installed here, by name.

    For who must see the whole file: the supervisor, `mos config`, the reference.
    A service names the sections that it reads itself.
    """
    found = []
    for name, module_name in SECTION_MODULES.items():
        if importlib.util.find_spec(module_name.split(".")[0]) is not None:
            module = importlib.import_module(module_name)
            found += [
                value
                for value in vars(module).values()
                if isinstance(value, type) and issubclass(value, Section) and getattr(value, "section", "") == name
            ]
    return found


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
