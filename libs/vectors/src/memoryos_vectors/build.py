"""Builds the configured copy of the dense index."""

from __future__ import annotations

from memoryos_vectors.models import IndexedModels
from memoryos_vectors.ports import DerivedIndex
from memoryos_vectors.qdrant_config import QdrantSection


def build_derived(section: QdrantSection, models: IndexedModels) -> DerivedIndex | None:
    """Give the index on the Qdrant of the configuration, None where it names none.

    It connects when it is first asked. Raises `ValueError` for a URL that is none.
    """
    if not section.url:
        return None
    # Importing the client takes more than a second: only for those who use it.
    from memoryos_vectors.adapters.qdrant import connect

    return connect(
        section.url,
        models,
        api_key=section.api_key_file.read() if section.api_key_file else None,
        prefix=section.collection_prefix,
        timeout_s=section.write_timeout_s,
    )
