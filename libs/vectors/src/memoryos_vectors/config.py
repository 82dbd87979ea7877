"""Settings of the dense index on PostgreSQL."""

from __future__ import annotations

from typing import ClassVar

from memoryos_core.config import Section
from pydantic import Field


class PgVectorSection(Section):
    """When a tenant gets an approximate index of its own, and when that is asked."""

    section: ClassVar[str] = "pgvector"

    ann_rows_min: int = Field(
        default=20_000,
        ge=1,
        description="Rows of a tenant from which on it gets an HNSW index of its own; it goes again below half of it.",
    )
    ann_indexes_max: int = Field(
        default=32,
        ge=0,
        le=32,
        description="Such indexes at most: each adds to the time of every plan. Further tenants keep the exact scan.",
    )
    exact_below: int = Field(
        default=5_000, ge=0, description="Fewer matching rows than this are compared one by one, whatever the tenant."
    )
    ef_search: int = Field(default=320, ge=10, le=1000, description="Candidates that a search in HNSW keeps.")
    scan_tuples_max: int = Field(
        default=20_000, ge=1_000, description="Rows that a search in HNSW looks at before the exact scan is asked."
    )
    upkeep_s: float = Field(
        default=60.0, gt=0, le=86_400, description="How often the upkeep looks for tenants that grew or shrank."
    )
    build_memory_mb: int = Field(
        default=512, ge=16, le=65_536, description="Memory of one build; a graph that does not fit is built slowly."
    )
    build_workers: int = Field(
        default=0, ge=0, le=16, description="Workers beside the builder; they need shared memory of build_memory_mb."
    )
