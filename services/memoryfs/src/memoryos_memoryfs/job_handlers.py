"""What each kind of job does: one line a kind."""

from __future__ import annotations

from collections.abc import Mapping

from memoryos_postgres.jobs import Handler

from memoryos_memoryfs.parts import Parts


def handlers_of(parts: Parts) -> Mapping[str, Handler]:
    """Give the handlers of this service by the kind of job."""
    return {}
