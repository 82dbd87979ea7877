"""Read a conversation in pages."""

from __future__ import annotations

from typing import Final

from memoryos_core.scope import Scope

from memoryos_harness.domain.pages import page_length
from memoryos_harness.domain.sessions import Message
from memoryos_harness.ports import SessionStore

PAGE_SIZE_DEFAULT: Final = 50
PAGE_BYTES_MAX: Final = 3_145_728
"""A page of large messages ends early: gRPC clients take 4 MiB unless told otherwise."""


async def list_messages(
    store: SessionStore, scope: Scope, session_id: str, *, after_sequence: int, page_size: int
) -> tuple[tuple[Message, ...], bool]:
    """Give messages of the caller's session after a place, and whether there are more."""
    size = page_size or PAGE_SIZE_DEFAULT
    found = await store.list_messages(scope, session_id, after_sequence=after_sequence, limit=size + 1)
    fit = page_length([len(message.content.encode()) for message in found[:size]], PAGE_BYTES_MAX)
    return found[:fit], len(found) > fit
