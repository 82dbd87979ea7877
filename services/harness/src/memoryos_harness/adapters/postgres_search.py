"""MessageSearch on PostgreSQL: the words of a user's messages, read and written in the user's own scope only."""

from __future__ import annotations

from typing import Final

from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_core.errors import SealedKeyUnavailable
from memoryos_core.scope import Scope
from memoryos_core.search_words import query_tokens
from memoryos_postgres import Database
from memoryos_postgres.session_facts import carry_over
from memoryos_postgres.transaction import Row, Tx

from memoryos_harness.adapters.message_rows import QUERIES, SEARCH, insert_words, open_content, read_message
from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.domain.sessions import Look, Message, MessageHit

MESSAGES_MAX: Final = 20_000
"""Newest messages of a user that are searched."""
BATCH: Final = 100
WORDLESS_MAX: Final = 2_000
"""Messages without words that one search makes up for (some seconds); what is left is made up for by the next ones."""


class PostgresSearch:
    """See `MessageSearch`."""

    def __init__(self, database: Database, sealed: SealedColumns) -> None:
        self._database = database
        self._sealed = sealed

    async def search(self, scope: Scope, look: Look) -> tuple[MessageHit, ...]:
        """See `MessageSearch.search`."""
        words = list(query_tokens(look.query))
        if not words:
            return ()
        await self._make_up(scope)
        async with self._database.scoped(scope) as tx:
            params = {
                "asked": await self._sealed.word_hashes(tx, scope, words),
                "roles": [str(role) for role in look.roles],
                "shown_session": look.shown_session,
                "shown_from": look.shown_from,
                "messages": MESSAGES_MAX,
                "min_score": look.min_score,
                "limit": look.top_k,
            }
            scored = await tx.fetch_all(SEARCH["search_words"], params)
            if not scored:
                return ()
            hits = await self._read(tx, scope, scored, replies=look.replies)
            carry_over(tx, scope, [hit.session_id for hit in hits])
            record(tx, _audit(scope, hits))
            return hits

    async def _read(self, tx: Tx, scope: Scope, scored: list[Row], *, replies: bool) -> tuple[MessageHit, ...]:
        """Give the messages themselves: what is no longer there, or cannot be opened any more, is no hit."""
        places = [(row["session_id"], row["sequence"]) for row in scored]
        scores = {place: row["score"] for place, row in zip(places, scored, strict=True)}
        params = {"sessions": [name for name, _ in places], "sequences": [n for _, n in places], "replies": replies}
        hits = []
        for row in await tx.fetch_all(SEARCH["found_messages"], params):
            try:
                message, reply = await self._opened(tx, scope, row)
            except SealedKeyUnavailable:
                continue
            score = scores[row["session_id"], row["sequence"]]
            hits.append(
                MessageHit(
                    session_id=row["session_id"],
                    message=message,
                    score=score,
                    reply_id=row["reply_id"] or "",
                    reply=reply,
                )
            )
        return tuple(hits)

    async def _opened(self, tx: Tx, scope: Scope, row: Row) -> tuple[Message, str]:
        reply = ""
        if row["reply_id"]:
            reply = await open_content(tx, self._sealed, scope, row["reply_id"], row["reply_content"])
        return await read_message(tx, self._sealed, scope, row), reply

    async def _make_up(self, scope: Scope) -> None:
        """Give words to messages of the user that have none, up to WORDLESS_MAX, in short transactions."""
        for _ in range(WORDLESS_MAX // BATCH):
            async with self._database.scoped(scope) as tx:
                session = await tx.fetch_one(SEARCH["session_without_words"])
                if session is None:
                    return
                await self._make_up_session(tx, scope, session)

    async def _make_up_session(self, tx: Tx, scope: Scope, session: Row) -> None:
        session_id = session["id"]
        place = {"session_id": session_id, "after": session["worded_count"], "limit": BATCH}
        rows = await tx.fetch_all(QUERIES["list_messages"], place)
        for row in rows:
            try:
                text = await open_content(tx, self._sealed, scope, row["id"], row["sealed_content"])
            except SealedKeyUnavailable:
                continue  # of an erased person: the row goes, too
            message = {"session_id": session_id, "sequence": row["sequence"], "id": row["id"], "role": row["role"]}
            await insert_words(tx, self._sealed, scope, message, text)
        # Writers of this session wait for its row, which is locked here.
        last = rows[-1]["sequence"] if rows else session["message_count"]
        tx.defer(SEARCH["words_up_to"], {"id": session_id, "sequence": last})


def _audit(scope: Scope, hits: tuple[MessageHit, ...]) -> AuditEvent:
    return AuditEvent(
        kind=Kind.SESSION_READ,
        actor=Actor.of(scope),
        service="harness",
        method="memoryos.harness.v1.Sessions/SearchMessages",
        target_type="message",
        target_ids=[hit.message.id for hit in hits],
    )
