"""What the methods of every mixin need of their call."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message
from memoryos_grpc.budget import remaining_s

from memoryos_memoryfs.parts import Parts

_NO_DEADLINE_S: Final = 60.0


class WithParts:
    """A mixin that is given the adapters and settings."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts


def body_of(request: Message) -> bytes:
    """Give the request as sent; the same request sent again gives the same bytes."""
    return request.SerializeToString(deterministic=True)


def deadline_s() -> float:
    """Give the seconds left for this call."""
    left = remaining_s()
    return _NO_DEADLINE_S if left is None else left
