"""A skill: what an agent may call, as its file declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from memoryos_toolgateway.domain.schema_check import CompiledSchema


class EffectClass(StrEnum):
    """What a call does to the world."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    KEYED = "keyed"
    NON_IDEMPOTENT = "non_idempotent"

    @property
    def may_repeat(self) -> bool:
        """Whether a second attempt can do no harm: READ and IDEMPOTENT by nature, KEYED by its key."""
        return self is not EffectClass.NON_IDEMPOTENT


class Egress(StrEnum):
    """Where what a call sends can go."""

    NONE = "none"
    INTERNAL = "internal"
    EXTERNAL = "external"


class UpstreamIdentity(StrEnum):
    """In whose name the upstream is called."""

    NONE = "none"
    USER = "user"
    SERVICE = "service"


class Operation(StrEnum):
    """What the built-in connector can do."""

    MEMORY_READ = "memory.read"
    MEMORY_WRITE = "memory.write"


NO_BODY: Final[Literal["none"]] = "none"
WHOLE_BODY: Final[Literal["arguments"]] = "arguments"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTemplate:
    """One HTTP request with places for arguments (rendered by domain.http_template)."""

    endpoint: str
    """host:port, the only one that the request can reach."""
    scheme: str = "http"
    method: str = "GET"
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Literal["none", "arguments"] | Mapping[str, str] = NO_BODY
    idempotency_header: str = ""
    response_bytes_max: int = 262_144


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConnector:
    """Calls an upstream over HTTP."""

    request: RequestTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinConnector:
    """Calls a service of Memory OS."""

    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """How to find out what the resource is before policy decides."""

    request: RequestTemplate
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceMapping:
    """What the call is done to."""

    type: str = ""
    id_pointer: str | None = None
    lookup: Lookup | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One registered skill. Equal digests mean equal definitions."""

    name: str
    version: str
    description: str
    parameters_json: bytes
    schema: CompiledSchema
    permissions: tuple[str, ...]
    effect_class: EffectClass
    risk: str
    timeout_s: float
    attempts_max: int
    output_limit_bytes: int
    sensitive_results: tuple[str, ...]
    sensitive_arguments: tuple[str, ...]
    """JSON pointers; "*" is every element of a list."""
    recipients: tuple[str, ...]
    """JSON pointers to arguments that say who receives what is sent; "*" is every element of a list."""
    returns: tuple[str, ...]
    """What results hold: "untrusted" text of others, "personal" data."""
    intents: tuple[str, ...]
    """Words by which users ask for it, of any language."""
    egress: Egress
    destructive: bool
    """It removes or overwrites what cannot be brought back."""
    identity: UpstreamIdentity
    opened: bool
    """A person has opened it for writing (skills.lock)."""
    resource: ResourceMapping
    connector: HttpConnector | BuiltinConnector
    definition_digest: str
