"""Find what was said in a user's own conversations."""

from __future__ import annotations

from typing import Final

from memoryos_core.scope import Scope

from memoryos_harness.domain.pages import page_length
from memoryos_harness.domain.sessions import Look, MessageHit, MessageRole
from memoryos_harness.ports import MessageSearch

TOP_K_DEFAULT: Final = 10
ANSWER_BYTES_MAX: Final = 3_145_728
"""Text of all hits: gRPC clients take 4 MiB unless told otherwise. The best come first, the rest is left out."""


async def search_messages(
    search: MessageSearch, scope: Scope, *, query: str, top_k: int, role: MessageRole | None
) -> tuple[MessageHit, ...]:
    """Give the messages of the caller's own sessions that share most with the query, best first, newer ones first.

    Whoever else the caller is, nobody else's messages are among them; what the
    sessions of the hits have seen, the caller's has seen from then on.
    """
    look = Look(query=query, top_k=top_k or TOP_K_DEFAULT)
    if role is not None:
        look = Look(query=query, top_k=look.top_k, roles=frozenset({role}))
    found = await search.search(scope, look)
    return found[: page_length([len(hit.message.content.encode()) for hit in found], ANSWER_BYTES_MAX)]
