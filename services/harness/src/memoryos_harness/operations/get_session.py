"""Look at a conversation."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_harness.domain.sessions import Session
from memoryos_harness.ports import SessionStore


async def get_session(store: SessionStore, scope: Scope, session_id: str) -> Session:
    """Give a session of the caller; anybody else's is SessionNotFound."""
    return await store.get(scope, session_id)
