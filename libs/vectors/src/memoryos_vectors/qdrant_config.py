"""Settings of the copy of the dense index on Qdrant."""

from __future__ import annotations

from typing import ClassVar

from memoryos_core.config import SecretFile, Section
from pydantic import Field


class QdrantSection(Section):
    """Where Qdrant is and how long it is waited for; used where memoryfs.vector_backend or a move names it."""

    section: ClassVar[str] = "qdrant"

    url: str = Field(
        default="",
        description="http(s)://host:6334 (gRPC); file:///folder or :memory: for trials in this process. Empty: none.",
    )
    api_key_file: SecretFile | None = Field(default=None, description="File with the API key.")
    collection_prefix: str = Field(
        default="memoryos",
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        description="How collections begin; installations that share a Qdrant have one each.",
    )
    search_timeout_s: float = Field(
        default=0.5, gt=0, le=10, description="Longest wait of a search; then PostgreSQL answers."
    )
    write_timeout_s: float = Field(default=5.0, gt=0, le=20, description="Longest wait of one batch of changes.")
    copy_poll_s: float = Field(default=0.1, gt=0, le=60, description="How often the outbox is looked at.")
    copy_check_s: float = Field(
        default=10.0, gt=0, le=600, description="How often it is made sure that the collections are there."
    )
    copy_batch: int = Field(default=500, ge=1, le=2000, description="Items copied in one turn.")
    copy_attempts_max: int = Field(
        default=8, ge=1, le=100, description="Refusals before an item is given up; outages do not count."
    )
    copy_retry_s: float = Field(default=1.0, gt=0, le=3600, description="Wait after a first refusal; doubles.")
    pending_max: int = Field(
        default=2000,
        ge=0,
        le=100_000,
        description="Changes of a tenant that wait; above it PostgreSQL answers its searches until they are copied.",
    )
