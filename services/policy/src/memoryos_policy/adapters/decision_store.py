"""Decisions in PostgreSQL: what they are made from, and keeping them. They are read by decision_log.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoryos_audit import record
from memoryos_core.clock import Clock
from memoryos_core.ids import IdSource
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing, TenantKeys
from memoryos_postgres import Database, Tx, queries
from memoryos_postgres.session_facts import FACTS, Fact, facts_from, facts_params, hashes_of
from memoryos_postgres.transaction import Row
from memoryos_telemetry.context import current_trace_id

from memoryos_policy.adapters.decision_commits import DecisionCommits
from memoryos_policy.adapters.decision_rows import NewDecision, kept, listing_event
from memoryos_policy.domain.decisions import Decision, Draft
from memoryos_policy.domain.questions import Circumstances, Question, ReviewFacts, Session

_QUERIES: Final = queries.load("memoryos_policy")
_CIRCUMSTANCES: Final = _QUERIES["circumstances"].replace("/*session_facts*/", FACTS)


class PostgresDecisionStore:
    """DecisionStore on the schema policy."""

    def __init__(self, database: Database, keyring: KeyRing[Tx], ids: IdSource, clock: Clock) -> None:
        self._database = database
        self._keyring = keyring
        self._clock = clock
        self._commits = DecisionCommits(database, keyring, ids)

    async def circumstances_of(self, scope: Scope, calls: Sequence[Question]) -> Sequence[Circumstances]:
        """See DecisionStore."""
        asked_words = set[str]().union(*(question.words for question in calls))
        async with self._database.tenant(scope.tenant) as tx:
            keys = await self._keyring.tenant_keys(tx, scope.tenant)
            asked = hashes_of(keys, asked_words)
            params = {**facts_params(scope, asked), "call_ids": [question.call_id for question in calls]}
            (row,) = await tx.fetch_alone(_CIRCUMSTANCES, params)
        facts = facts_from(row, asked)
        session = Session(
            untrusted_content=Fact.UNTRUSTED_CONTENT in facts.seen,
            personal_data=Fact.PERSONAL_DATA in facts.seen,
            sources=facts.sources,
            words=facts.words,
        )
        reviews = {review["call_id"]: review for review in row["reviews"] or ()}
        return [Circumstances(session=session, review=_review(reviews.get(one.call_id), keys, one)) for one in calls]

    async def keep(self, scope: Scope, drafts: Sequence[Draft]) -> Sequence[Decision]:
        """See DecisionStore."""
        return await self._commits.keep(scope, drafts)

    async def note_listing(self, scope: Scope, service: str, drafts: Sequence[Draft]) -> Sequence[Decision]:
        """See DecisionStore."""
        now = self._clock.now()
        async with self._database.scoped(scope) as tx:
            record(tx, listing_event(scope, service, drafts))
        trace_id = current_trace_id()
        return [
            kept(NewDecision(scope=scope, draft=draft, id="", digest_hmac="", trace_id=trace_id), now)
            for draft in drafts
        ]


def _review(row: Row | None, keys: TenantKeys, question: Question) -> ReviewFacts | None:
    if row is None:
        return None
    return ReviewFacts(
        id=row["review_id"],
        state=row["state"],
        group=row["group_name"],
        approvals=row["approvals"],
        same_action=row["action_digest_hmac"] == keys.digest_hmac(question.action_digest),
    )
