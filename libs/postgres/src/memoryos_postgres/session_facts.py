"""What a session has seen, and what its user has said in it (DESIGN §5).

    async with db.scoped(scope) as tx:
        note(tx, scope, {Fact.UNTRUSTED_CONTENT}, source="skill:web.fetch")   # before the content is handed out
        facts = await facts_of(tx, scope, hashes_of(keys, words))             # policy, before it asks the rules
        await saw_untrusted(tx, scope)                                        # before an agent's words are kept

Session and user come from the token of the call. Facts are only ever added: a
detour through memory, another agent or a retry takes none away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from memoryos_core.scope import Scope
from memoryos_core.sealing import TenantKeys
from memoryos_core.words import said_words, spoken_words

from memoryos_postgres.transaction import Row, Tx

WORDS_MAX: Final = 4_000
"""Words of one message that are kept; a longer one is a document, not an order."""
MESSAGES_MAX: Final = 200
"""Latest messages of a session whose words count as said."""
SOURCES_MAX: Final = 64
"""Sources that are named; that there are more changes no fact."""
SESSIONLESS_HOURS: Final = 24
"""How long what was seen outside of any session counts for its user, from the beginning of the hour in which it was."""

_NOTE: Final = (
    "INSERT INTO core.session_facts (tenant, holder, fact, source, user_name)"
    " VALUES (%(tenant)s, %(holder)s, %(fact)s, %(source)s, %(user)s) ON CONFLICT DO NOTHING"
)
# Outside of any session a fact ends: seen again in another hour it is another row, which lasts as much longer.
_HOUR: Final = "to_char(clock_timestamp() AT TIME ZONE 'UTC', '\"@\"YYYY-MM-DD\"T\"HH24')"
_NOTE_HOURLY: Final = _NOTE.replace("%(source)s", f"%(source)s || {_HOUR}")
_NOTE_SAID: Final = (
    "INSERT INTO core.session_facts (tenant, holder, fact, source, user_name, words)"
    " VALUES (%(tenant)s, %(holder)s, 'said', %(source)s, %(user)s, %(words)s) ON CONFLICT DO NOTHING"
)
_CARRY_OVER: Final = (
    "INSERT INTO core.session_facts (tenant, holder, fact, source, user_name)"
    " SELECT DISTINCT tenant, %(holder)s, fact, /*source*/, %(user)s FROM core.session_facts"
    " WHERE tenant = %(tenant)s AND holder = ANY (%(sessions)s::text[]) AND holder <> %(holder)s AND fact <> 'said'"
    " ORDER BY 3, 4 ON CONFLICT DO NOTHING"
)
_HAND_ON: Final = (
    "INSERT INTO core.session_facts (tenant, holder, fact, source, user_name)"
    " SELECT tenant, %(session)s, fact, source, %(user)s FROM core.session_facts"
    " WHERE tenant = %(tenant)s AND holder = %(holder)s AND fact <> 'said'"
    " AND (%(hours)s = 0 OR create_time > clock_timestamp() - make_interval(hours => %(hours)s))"
    " ORDER BY fact, source ON CONFLICT DO NOTHING"
)
FACTS: Final = (
    "SELECT ARRAY(SELECT DISTINCT fact FROM core.session_facts"
    " WHERE tenant = %(tenant)s AND holder = %(holder)s AND fact <> 'said'"
    " AND (%(hours)s = 0 OR create_time > clock_timestamp() - make_interval(hours => %(hours)s))) AS seen,"
    " ARRAY(SELECT source FROM core.session_facts"
    " WHERE tenant = %(tenant)s AND holder = %(holder)s AND fact <> 'said'"
    " AND (%(hours)s = 0 OR create_time > clock_timestamp() - make_interval(hours => %(hours)s))"
    " ORDER BY create_time LIMIT %(sources)s) AS sources,"
    " ARRAY(SELECT DISTINCT spoken.word FROM (SELECT words FROM core.session_facts"
    " WHERE tenant = %(tenant)s AND holder = %(holder)s AND fact = 'said'"
    " ORDER BY create_time DESC LIMIT %(messages)s) AS message"
    " CROSS JOIN unnest(message.words) AS spoken (word) JOIN unnest(%(asked)s::int8[]) AS asked (word) USING (word)"
    ") AS said"
)
"""One row, by `facts_params`; for whoever asks for more in the same round trip. `facts_from` reads it."""
SAW_UNTRUSTED: Final = (
    "EXISTS (SELECT FROM core.session_facts"
    " WHERE tenant = %(tenant)s AND holder = %(holder)s AND fact = 'untrusted_content'"
    " AND (%(hours)s = 0 OR create_time > clock_timestamp() - make_interval(hours => %(hours)s)))"
)
"""A condition by `holder_params`, for a statement that rests on it."""


class Fact(StrEnum):
    """What a session has seen."""

    UNTRUSTED_CONTENT = "untrusted_content"
    PERSONAL_DATA = "personal_data"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """What is known of one session. `sources` names where its facts came by, for people."""

    seen: frozenset[Fact] = frozenset()
    sources: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()
    """Those of the words asked about that the user said."""

    def said(self, text: str) -> bool:
        """Tell whether the user said every word of `text`, all of which were asked about; without words nothing is."""
        words = spoken_words(text)
        return bool(words) and words <= self.words


def holder_of(scope: Scope) -> str:
    """Give whose facts a call adds to and is judged by: its session's, else its user's."""
    return scope.session_id or f"user:{scope.user}"


def note(tx: Tx, scope: Scope, facts: Iterable[Fact], *, source: str) -> None:
    """Add facts at the end of the transaction that hands the content out, or that keeps it."""
    for fact in sorted(facts):  # in one order: no two transactions wait for each other
        params = {"tenant": scope.tenant, "holder": holder_of(scope), "user": scope.user, "source": source}
        tx.defer(_NOTE if scope.session_id else _NOTE_HOURLY, {**params, "fact": fact.value})


def hand_on(tx: Tx, scope: Scope, session_id: str) -> None:
    """Let another session have seen what the caller's has: what it is told there may come of that.

    A person by itself brings its own words only.
    """
    if not scope.alone and scope.session_id != session_id:
        tx.defer(_HAND_ON, {**holder_params(scope), "session": session_id, "user": scope.user})


def carry_over(tx: Tx, scope: Scope, session_ids: Iterable[str]) -> None:
    """Let the caller's session have seen what others have, at the end of the transaction that hands out what they hold.

    A conversation washes nothing off either: an answer may repeat what a stranger wrote.
    """
    others = sorted({session_id for session_id in session_ids if session_id != scope.session_id})
    if others:
        source = "source" if scope.session_id else f"split_part(source, '@', 1) || {_HOUR}"
        params = {"tenant": scope.tenant, "holder": holder_of(scope), "user": scope.user, "sessions": others}
        tx.defer(_CARRY_OVER.replace("/*source*/", source), params)


def note_said(tx: Tx, scope: Scope, keys: TenantKeys, *, session_id: str, message_id: str, text: str) -> None:
    """Add the words of a message that the user wrote; what an agent puts into the user's mouth is left out.

    The user speaks where no agent stands in the chain and the token has the role of a user.
    """
    if scope.chain or "user" not in scope.roles:
        return
    words = sorted(said_words(text))[:WORDS_MAX]
    params = {"tenant": scope.tenant, "holder": session_id, "source": message_id, "user": scope.user}
    tx.defer(_NOTE_SAID, {**params, "words": [keys.token_hash(word) for word in words]})


async def saw_untrusted(tx: Tx, scope: Scope) -> bool:
    """Tell whether the session of a call has seen untrusted content."""
    return bool(await tx.fetch_value(f"SELECT {SAW_UNTRUSTED}", holder_params(scope)))


async def facts_of(tx: Tx, scope: Scope, asked: Mapping[int, str] | None = None) -> SessionFacts:
    """Give what is known of the session of a call; `asked`: see `hashes_of`."""
    row = await tx.fetch_one(FACTS, facts_params(scope, asked or {}))
    assert row is not None
    return facts_from(row, asked or {})


def hashes_of(keys: TenantKeys, words: Iterable[str]) -> dict[int, str]:
    """Give the words to ask about by their hashes: what a user said is kept as such."""
    return {keys.token_hash(word): word for word in words}


def holder_params(scope: Scope) -> dict[str, Any]:
    """Give the parameters of SAW_UNTRUSTED."""
    hours = 0 if scope.session_id else SESSIONLESS_HOURS
    return {"tenant": scope.tenant, "holder": holder_of(scope), "hours": hours}


def facts_params(scope: Scope, asked: Mapping[int, str]) -> dict[str, Any]:
    """Give the parameters of FACTS."""
    return {**holder_params(scope), "messages": MESSAGES_MAX, "sources": SOURCES_MAX, "asked": list(asked)}


def facts_from(row: Row, asked: Mapping[int, str]) -> SessionFacts:
    """Give the facts of the one row of FACTS."""
    return SessionFacts(
        seen=frozenset(map(Fact, row["seen"])),
        sources=tuple(dict.fromkeys(row["sources"])),
        words=frozenset(asked[word] for word in row["said"]),
    )
