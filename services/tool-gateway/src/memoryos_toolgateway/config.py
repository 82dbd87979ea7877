"""Configuration of the tool gateway."""

from __future__ import annotations

from typing import ClassVar

from memoryos_core.config import ConfigPath, Section
from pydantic import Field


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
    policy_timeout_s: float = Field(
        default=3.0, gt=0, le=30, description="How long policy may take; later the call is refused."
    )
    wait_s: float = Field(
        default=30.0, ge=0, le=110, description="How long CallSkill waits for a result before it says DISPATCHED."
    )
    sweep_interval_s: float = Field(
        default=1.0, gt=0, le=60, description="How often calls past their deadline are looked for."
    )
    probe_interval_s: float = Field(
        default=1.0, gt=0, le=60, description="How often health asks whether database and policy answer."
    )
