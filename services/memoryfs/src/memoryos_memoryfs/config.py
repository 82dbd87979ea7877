"""Settings of MemoryFS."""

from __future__ import annotations

from typing import ClassVar, Literal

from memoryos_core.config import ConfigPath, Section
from pydantic import Field

from memoryos_memoryfs.domain.gate import GATE


class MemoryFSSection(Section):
    """Limits of recall and of the worker that embeds what an outage left over."""

    section: ClassVar[str] = "memoryfs"

    gate: float = Field(
        default=GATE,
        ge=0,
        le=1,
        description="Confidence below which a new item stays a candidate, where no path says another one.",
    )
    hot_window_days: int = Field(
        default=90,
        ge=0,
        le=36_500,
        description="Days without use after which an item is cold; 0: never. Paths may differ.",
    )
    retention_days: int = Field(
        default=0, ge=0, le=36_500, description="Age at which items are forgotten; 0: never. Paths may differ."
    )
    vector_backend: Literal["pgvector", "qdrant"] = Field(
        default="pgvector",
        description="Which index answers by meaning; PostgreSQL keeps the vectors anyway. qdrant needs qdrant.url.",
    )
    embed_timeout_s: float = Field(
        default=8.0,
        gt=0,
        le=60,
        description="Longest wait for the embedder in one call; the call's deadline is shorter.",
    )
    recall_depth: int = Field(
        default=50,
        ge=20,
        le=2000,
        description="Candidates that each arm of recall gives to the fusion; 20 change no answer of the evaluation.",
    )
    history_days: int = Field(
        default=3650,
        ge=1,
        le=36_500,
        description="How far back Read goes with as_of; an earlier instant is HISTORY_GONE.",
    )
    embed_poll_s: float = Field(
        default=1.0, gt=0, le=60, description="How often the due queue of vectors is looked at."
    )
    embed_batch: int = Field(default=32, ge=1, le=500, description="Items embedded in one turn of the worker.")
    embed_attempts_max: int = Field(
        default=8, ge=1, le=100, description="Tries before an item is left without a vector and reported."
    )
    receipt_key_file: ConfigPath | None = Field(
        default=None,
        description="Private key (PEM, Ed25519) that signs receipts of Purge, made where there is none; "
        "`.pub` beside it verifies. Without the setting Purge is refused.",
    )
    upkeep_s: float = Field(
        default=5.0, gt=0, le=3600, description="How often hits are counted and index rows of expired items removed."
    )
    lifecycle_s: float = Field(
        default=3600.0,
        gt=0,
        le=86_400,
        description="How often each tenant's unused items are made cold, and its retention and budgets looked after.",
    )
    bindings_poll_s: float = Field(
        default=5.0, gt=0, le=3600, description="How often bindings whose time is over are looked for."
    )
    embed_retry_s: float = Field(default=2.0, gt=0, le=3600, description="Wait after the first failed try; doubles.")
