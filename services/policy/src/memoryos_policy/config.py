"""Configuration of the policy service."""

from __future__ import annotations

from typing import ClassVar

from memoryos_core.config import ConfigPath, Section
from pydantic import Field


class PolicySection(Section):
    """Where OPA is and how long it may take. There is no switch that turns decisions off."""

    section: ClassVar[str] = "policy"

    opa_host: str = "127.0.0.1"
    opa_port: int = Field(default=8181, ge=1, le=65535)
    opa_token_file: ConfigPath
    """File with the bearer token that OPA demands."""
    bundle_dir: ConfigPath | None = None
    """Folder of the rules that `mos up` gives to OPA; none: those that come with Memory OS."""
    opa_timeout_s: float = Field(default=1.0, gt=0, le=10)
    """Everything about one question, connecting included; later is a deny."""
    probe_interval_s: float = Field(default=1.0, gt=0, le=60)
    """How often health asks OPA whether it answers from a bundle."""
