"""A skill: what an agent may call, as its file declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from memoryos_core.canonical import JsonValue

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
    """Field to pointer, or to a text with ${secret:NAME}."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Header to a text with {argument} and ${secret:NAME}."""
    body: Literal["none", "arguments"] | Mapping[str, str] = NO_BODY
    body_template: JsonValue = None
    """A JSON value with places, instead of `body`."""
    form: bool = False
    """The body is a form and no JSON."""
    redirects: int = 0
    """Redirects of a GET that are followed, at the same endpoint only."""
    idempotency_header: str = ""
    response_bytes_max: int = 262_144


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseMapping:
    """What of an answer is the result, and when it is one at all."""

    pick: str | Mapping[str, str] | None = None
    """The value at this pointer, or an object of the values at these."""
    schema: CompiledSchema | None = None
    """What the result must be after picking."""
    success: Mapping[str, JsonValue] = field(default_factory=dict)
    """Pointer to the value that the answer has when it was done: some upstreams refuse with status 200."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """How the caller's token becomes one that the upstream takes (RFC 8693)."""

    server: str
    """Name in the configuration tool-gateway.token_exchanges."""
    audience: str = ""
    scope: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConnector:
    """Calls an upstream over HTTP."""

    request: RequestTemplate
    response: ResponseMapping = ResponseMapping()
    exchange: Exchange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpConnector:
    """Hands a mail to a mail server. Pointers lead to arguments, `to` and `cc` to one address or a list of them."""

    endpoint: str
    tls: Literal["none", "starttls", "tls"]
    sender: str
    to: str
    cc: str | None
    subject: str
    body: str
    username: str = ""
    password_secret: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinConnector:
    """Calls a service of Memory OS."""

    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """How to find out what the resource is before policy decides."""

    request: RequestTemplate
    timeout_s: float
    exchange: Exchange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceMapping:
    """What the call is done to."""

    type: str = ""
    id_pointer: str | None = None
    lookup: Lookup | None = None


class FallbackKind(StrEnum):
    """What answers when the upstream has failed several times in a row."""

    RESULT = "result"
    """A fixed result; reads only."""
    GUIDANCE = "guidance"
    """What the model should do instead."""
    HANDOFF = "handoff"
    """Which person it should send the user to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """The answer instead of a failed upstream's."""

    kind: FallbackKind
    result: bytes = b""
    """Canonical JSON, for RESULT."""
    text: str = ""
    """A sentence for the model, for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What an answer must be to mean something: of this status and, where a pointer is given, of this value there."""

    status: int = 200
    pointer: str | None = None
    equals: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """How to ask the upstream whether a call took effect. The request sees /call_id and /arguments/…."""

    lookup: Lookup
    happened: Sign
    did_not_happen: Sign


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
    connector: HttpConnector | BuiltinConnector | SmtpConnector
    definition_digest: str
    fallback: Fallback | None = None
    reconciliation: Reconciliation | None = None
    system: str = ""
    """Name and description of the system that it belongs to; search finds its skills by them."""

    @property
    def upstream(self) -> str:
        """Whom its calls reach, for circuits and bulkheads."""
        if isinstance(self.connector, HttpConnector):
            return self.connector.request.endpoint
        return self.connector.endpoint if isinstance(self.connector, SmtpConnector) else "memoryfs"
