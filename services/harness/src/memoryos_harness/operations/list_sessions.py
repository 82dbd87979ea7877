"""List conversations in pages."""

from __future__ import annotations

from typing import Final

from memoryos_core.errors import RoleRequired
from memoryos_core.scope import Scope

from memoryos_harness.domain.sessions import OVERSEERS, SessionPage, SessionPlace
from memoryos_harness.ports import SessionStore

PAGE_SIZE_DEFAULT: Final = 50


async def list_sessions(
    store: SessionStore, scope: Scope, *, all_users: bool, after: SessionPlace | None, page_size: int
) -> SessionPage:
    """Give a page of the caller's sessions, or of those of the whole tenant to operators and auditors.

    Last active first. No session that was there when the first page was asked
    for is lost, however they move meanwhile: one that becomes active between
    pages is given at the end, also where it was given before.
    """
    if all_users and not scope.roles & OVERSEERS:
        raise RoleRequired
    return await store.list_sessions(scope, all_users=all_users, after=after, limit=page_size or PAGE_SIZE_DEFAULT)
