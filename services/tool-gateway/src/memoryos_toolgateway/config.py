"""Configuration of the tool gateway."""

from __future__ import annotations

from typing import ClassVar, Literal

from memoryos_core.config import ConfigPath, SecretFile, Section
from pydantic import BaseModel, ConfigDict, Field, field_validator

from memoryos_toolgateway.domain.addresses import Networks

ROBOTS = Literal["text", "wecom", "dingtalk", "feishu", "slack"]


class TokenExchange(BaseModel):
    """An authorisation server that gives tokens for upstreams (RFC 8693)."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    endpoint: str = Field(description="host:port of the token endpoint.")
    scheme: Literal["http", "https"] = "https"
    path: str = Field(pattern=r"^/[\x21-\x7e]*$", description="Path of the token endpoint.")
    client_id: str = Field(min_length=1, max_length=255, pattern=r"^[\x20-\x7e]+$")
    client_secret_file: SecretFile | None = None


class NotifyChannel(BaseModel):
    """A webhook that people read."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    url_file: SecretFile = Field(description="File that holds the URL: webhooks have their key in it.")
    robot: ROBOTS = Field(default="text", description="Whose form the message has.")


class ToolGatewaySection(Section):
    """Which skills exist, and how long calls may take."""

    section: ClassVar[str] = "tool-gateway"

    skill_dirs: tuple[ConfigPath, ...] = Field(
        default=(), description="Folders of skill files (.yaml, .yml, .json), beside the built-in ones."
    )
    builtin_skills: bool = Field(default=True, description="Register memory.read and memory.write.")
    endpoints: dict[str, str] = Field(
        default_factory=dict, description="Values of ${NAME} in the endpoints of skill files, e.g. a host:port."
    )
    networks: tuple[str, ...] = Field(
        default=(),
        description="Networks (10.1.0.0/16) and host:port that upstreams may have although they are not public: "
        "private, loopback, link-local, shared and reserved ranges are refused otherwise.",
    )
    secrets: dict[str, SecretFile] = Field(
        default_factory=dict, description="Files of ${secret:NAME} in headers and queries of skill files."
    )
    token_exchanges: dict[str, TokenExchange] = Field(
        default_factory=dict,
        description="Authorisation servers that give the user's token for an upstream (RFC 8693), by name: "
        "endpoint, scheme, path, client_id, client_secret_file.",
    )
    notify_channels: dict[str, NotifyChannel] = Field(
        default_factory=dict,
        description="Webhooks that policy may have told something, by name: url_file, robot.",
    )
    ca_file: ConfigPath | None = Field(
        default=None, description="Certificates of authorities that are trusted beside the system's (PEM)."
    )
    policy_timeout_s: float = Field(
        default=3.0, gt=0, le=30, description="How long policy may take; later the call is refused."
    )
    wait_s: float = Field(
        default=30.0, ge=0, le=110, description="How long CallSkill waits for a result before it says DISPATCHED."
    )
    watch_s: float = Field(default=300.0, gt=0, le=3600, description="How long WatchCall watches one call.")
    upstream_failures_max: int = Field(
        default=5, ge=1, le=1000, description="Failures in a row after which nobody of the tenant calls an upstream."
    )
    upstream_open_s: float = Field(
        default=10.0, gt=0, le=600, description="How long nobody calls it then; after that one call tries."
    )
    upstream_calls_max: int = Field(
        default=64, ge=1, le=256, description="Calls that one upstream has at once, of this process."
    )
    full_results_user_bytes: int = Field(
        default=67_108_864, ge=0, description="Bytes of whole results, where they were cut, that are kept for a user."
    )
    full_results_tenant_bytes: int = Field(
        default=1_073_741_824, ge=0, description="Bytes of whole results that are kept for a tenant."
    )
    full_results_hours: int = Field(
        default=24, ge=1, le=8760, description="How long whole results can be read; older ones make room."
    )
    sweep_interval_s: float = Field(
        default=1.0, gt=0, le=60, description="How often calls past their deadline are looked for."
    )
    probe_interval_s: float = Field(
        default=1.0, gt=0, le=60, description="How often health asks whether database and policy answer."
    )

    @field_validator("networks")
    @classmethod
    def _known_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        Networks.parse(value)
        return value
