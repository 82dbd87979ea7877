"""Add to a conversation."""

from __future__ import annotations

from collections.abc import Sequence

from memoryos_core.scope import Scope

from memoryos_harness.domain.sessions import Message, MessageDraft
from memoryos_harness.ports import Request, SessionStore


async def append_messages(
    store: SessionStore, scope: Scope, session_id: str, drafts: Sequence[MessageDraft], request: Request
) -> tuple[Message, ...]:
    """Give the messages as kept at the end of the caller's session, all or none.

    The same request gives the same messages; nothing is added twice.
    """
    return await store.append(scope, session_id, drafts, request)
