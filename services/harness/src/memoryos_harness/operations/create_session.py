"""Start a conversation."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_harness.domain.sessions import Session
from memoryos_harness.ports import Request, SessionStore


async def create_session(store: SessionStore, scope: Scope, request: Request) -> Session:
    """Give a new session of the caller; the same request gives the same one."""
    return await store.create(scope, request)
