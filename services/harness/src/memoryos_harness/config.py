"""Configuration of the harness and its worker."""

from __future__ import annotations

from typing import ClassVar

from memoryos_core.config import ConfigPath, Section
from pydantic import Field


class HarnessSection(Section):
    """Agents, and how workers hold tasks."""

    section: ClassVar[str] = "harness"

    agents_dir: ConfigPath = Field(description="Folder of agent files, one {name}.yaml per agent.")
    worker_name: str = Field(
        default="worker", min_length=1, max_length=64, description="Name of this worker, for people; gives no rights."
    )
    concurrency: int = Field(default=8, ge=1, le=256, description="Tasks that one worker process runs at once.")
    tenant_concurrency: int = Field(
        default=64, ge=1, le=10_000, description="Tasks of one tenant that are held at once, over all workers."
    )
    lease_s: float = Field(
        default=300.0,
        gt=0,
        le=3600,
        description="A task is taken over when its worker is gone, or lives but was silent for so long.",
    )
    heartbeat_s: float = Field(
        default=5.0, gt=0, le=600, description="How often a worker renews its leases and looks for a cancel."
    )
    sweep_s: float = Field(
        default=0.5, gt=0, le=60, description="How often a worker looks for tasks whose wake-up was lost."
    )
    queue_poll_s: float = Field(
        default=0.5, gt=0, le=60, description="How often scheduled wake-ups are looked for; others come at once."
    )
    wake_up_grace_s: float = Field(
        default=5.0, gt=0, le=600, description="How long a sent wake-up is trusted before another is sent."
    )
    lost_worker_s: float = Field(
        default=60.0, gt=0, le=3600, description="Queue jobs of workers silent for so long are dropped."
    )
    model_deadline_s: float = Field(default=120.0, gt=0, le=3600, description="Longest that one model reply may take.")
    tries: int = Field(default=3, ge=1, le=10, description="Tries of one model or tool call within an attempt.")
    retry_base_s: float = Field(default=1.0, gt=0, le=60, description="First wait before a retry; doubles.")
    retry_max_s: float = Field(default=60.0, gt=0, le=3600, description="Longest wait before a retry.")
    wait_in_place_s: float = Field(
        default=2.0,
        ge=0,
        le=60,
        description="Longest wait before a retry that a worker sits out; for a longer one the task is given back.",
    )
    review_poll_min_s: float = Field(
        default=0.4, gt=0, le=60, description="Shortest wait before a review is looked at."
    )
    review_poll_max_s: float = Field(
        default=2.0, gt=0, le=600, description="Longest wait before a review is looked at."
    )
    binding_s: float = Field(
        default=3600.0,
        ge=60,
        le=86_400,
        description="How long a task's working memory outlives a worker that is gone, unless another takes the task.",
    )
    drain_s: float = Field(
        default=20.0, ge=0, le=600, description="How long steps may still run after the stop signal."
    )
