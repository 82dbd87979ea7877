"""Configuration of the policy service."""

from __future__ import annotations

from typing import ClassVar

from memoryos_core.config import ConfigPath, Section
from pydantic import BaseModel, ConfigDict, Field


class StaleAfter(BaseModel):
    """Seconds since the source last confirmed the rules, after which they decide no more, by the risk of the action."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float = Field(default=86_400, gt=0)
    medium: float = Field(default=3_600, gt=0)
    high: float = Field(default=600, gt=0)
    critical: float = Field(default=120, gt=0)


class PolicySection(Section):
    """Where OPA is and how long it may take. There is no switch that turns decisions off."""

    section: ClassVar[str] = "policy"

    opa_host: str = "127.0.0.1"
    opa_port: int = Field(default=8181, ge=1, le=65535)
    opa_token_file: ConfigPath
    """File with the bearer token that OPA demands."""
    bundle_dir: ConfigPath | None = None
    """Folder of the rules that `mos up` gives to OPA; none: those that come with Memory OS."""
    opa_binary: ConfigPath | None = None
    """The opa executable that decisions are explained with; none: they are not. `mos up` names the one it runs."""
    opa_timeout_s: float = Field(default=1.0, gt=0, le=10)
    """Everything about one question, connecting included; later is a deny."""
    probe_interval_s: float = Field(default=1.0, gt=0, le=60)
    """How often health asks OPA whether it answers from a bundle."""
    source_interval_s: float = Field(default=5.0, gt=0, le=60)
    """How often `bundle_dir` is read to confirm that OPA serves what it holds."""
    stale_after_s: StaleAfter = StaleAfter()
    """How old a confirmation may be, by risk: {low, medium, high, critical}. Beyond it a call is denied."""
