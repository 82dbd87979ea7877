"""Message rows: appended inside the transaction of what says them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from memoryos_core.ids import IdSource
from memoryos_core.scope import Scope
from memoryos_core.search_words import text_tokens
from memoryos_postgres import queries
from memoryos_postgres.session_facts import hand_on, note_said
from memoryos_postgres.transaction import Row, Tx

from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.domain.sessions import Message, MessageDraft, MessageRole
from memoryos_harness.errors import SessionNotFound

QUERIES = queries.load("memoryos_harness")
SEARCH: Final = queries.load("memoryos_harness", "sessions.sql")
WORDS_MAX: Final = 4_000
"""Distinct words of one message that it is found by; of a longer one those of its beginning."""
_CONTENT = "messages.content"


async def append_messages(
    tx: Tx, sealed: SealedColumns, ids: IdSource, scope: Scope, session_id: str, drafts: Sequence[MessageDraft]
) -> int:
    """Insert messages at the end of a session; give the place of the first. SessionNotFound when it is not there.

    What the user says in them is known to policy as said in this session from then on, and what the session of
    an agent that speaks has seen as seen in this one.
    The session's row is locked until the commit, which carries the messages: call it late.
    """
    turns = sum(1 for draft in drafts if draft.role is MessageRole.USER)
    places = {"id": session_id, "messages": len(drafts), "turns": turns}
    row = await tx.fetch_one(QUERIES["extend_session"], places)
    if row is None:
        raise SessionNotFound
    hand_on(tx, scope, session_id)
    first = int(row["message_count"]) - len(drafts) + 1
    for sequence, draft in enumerate(drafts, start=first):
        message_id = ids.new("msg")
        message = {
            "session_id": session_id,
            "sequence": sequence,
            "id": message_id,
            "role": str(draft.role),
            "sealed_content": await sealed.seal_text(tx, scope, _CONTENT, message_id, draft.content),
            "tool_call_id": draft.tool_call_id,
            "tool_name": draft.tool_name,
            "token_count": draft.token_count,
        }
        tx.defer(QUERIES["insert_message"], message)
        await insert_words(tx, sealed, scope, message, draft.content)
        if draft.role is MessageRole.USER:
            keys = await sealed.tenant_keys(tx, scope)
            note_said(tx, scope, keys, session_id=session_id, message_id=message_id, text=draft.content)
    return first


async def insert_words(tx: Tx, sealed: SealedColumns, scope: Scope, message: Mapping[str, Any], text: str) -> None:
    """Keep the words of a message as hashes, at the end of the transaction."""
    hashes = await sealed.word_hashes(tx, scope, list(islice(text_tokens(text), WORDS_MAX)))
    row = {name: message[name] for name in ("session_id", "sequence", "role")}
    tx.defer(SEARCH["insert_words"], {**row, "message_id": message["id"], "hashes": hashes})


async def open_content(tx: Tx, sealed: SealedColumns, scope: Scope, message_id: str, content: bytes) -> str:
    """Give what is said in a message."""
    return await sealed.open_text(tx, scope, _CONTENT, message_id, content)


async def read_message(tx: Tx, sealed: SealedColumns, scope: Scope, row: Row) -> Message:
    """Give the message of a row."""
    return Message(
        id=row["id"],
        sequence=row["sequence"],
        role=MessageRole(row["role"]),
        content=await open_content(tx, sealed, scope, row["id"], row["sealed_content"]),
        tool_call_id=row["tool_call_id"],
        tool_name=row["tool_name"],
        token_count=row["token_count"],
        create_time=row["create_time"],
    )
