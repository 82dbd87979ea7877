"""Decisions in PostgreSQL: what they are made from, keeping them, reading them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoryos_audit import record
from memoryos_core.canonical import canonical_json
from memoryos_core.clock import Clock
from memoryos_core.ids import IdSource
from memoryos_core.paging import PageTokens
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing, TenantKeys
from memoryos_postgres import Database, Tx, queries
from memoryos_postgres.session_facts import FACTS, Fact, facts_from, facts_params, hashes_of
from memoryos_postgres.transaction import Row
from memoryos_telemetry.context import current_trace_id

from memoryos_policy.adapters.decision_commits import DecisionCommits
from memoryos_policy.adapters.decision_rows import NewDecision, decision_of, kept, listing_event
from memoryos_policy.domain.decisions import Decision, Draft
from memoryos_policy.domain.questions import Circumstances, Question, ReviewFacts, Session
from memoryos_policy.errors import DecisionNotFound
from memoryos_policy.ports import DecisionFilter, Page

_LIST_METHOD: Final = "memoryos.policy.v1.Policy/ListDecisions"
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
        async with self._database.scoped(scope) as tx:
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

    async def find(self, scope: Scope, decision_id: str) -> Decision:
        """See DecisionStore."""
        async with self._database.scoped(scope) as tx:
            params = {"tenant": scope.tenant, "decision_id": decision_id}
            row = await tx.fetch_one(_QUERIES["decision"], params)
        if row is None:
            raise DecisionNotFound
        return decision_of(row)

    async def newest(self, scope: Scope, wanted: DecisionFilter, page: Page) -> tuple[Sequence[Decision], str]:
        """See DecisionStore."""
        effect = wanted.effect.value if wanted.effect else None
        filter_bytes = canonical_json([wanted.user, wanted.call_id, effect])
        async with self._database.scoped(scope) as tx:
            tokens = PageTokens((await self._keyring.tenant_keys(tx, scope.tenant)).pages)
            position = tokens.decode(scope, _LIST_METHOD, filter_bytes, page.token)
            rows = await tx.fetch_all(
                _QUERIES["decisions_newest"],
                {
                    "tenant": scope.tenant,
                    "user": wanted.user,
                    "chain": list(scope.chain),
                    "call_id": wanted.call_id,
                    "effect": effect,
                    "before": position[0] if position else None,
                    "limit": page.size + 1,
                },
            )
        decisions = [decision_of(row) for row in rows[: page.size]]
        more = len(rows) > page.size
        return decisions, tokens.encode(scope, _LIST_METHOD, filter_bytes, (decisions[-1].id,)) if more else ""


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
