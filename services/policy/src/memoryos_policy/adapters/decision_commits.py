"""Keeping decisions: callers of one tenant that come at the same time share one commit.

While one commit is on its way the next decisions gather; a lone one waits for
nobody. What several brought is kept in one transaction, and when that fails
each caller's is tried by itself: nobody's bad row takes another's decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from memoryos_audit import record
from memoryos_core.crashpoints import crash_point
from memoryos_core.ids import IdSource
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing
from memoryos_postgres import Database, Tx, queries
from memoryos_postgres.errors import DatabaseUnavailable
from memoryos_telemetry.context import current_trace_id

from memoryos_policy.adapters.decision_rows import NEW_ROW, NewDecision, event_of, kept, row_of
from memoryos_policy.domain.decisions import Decision, Draft

ROWS_MAX: Final = 64
"""Rows of one INSERT; a batch may bring more and has several."""
CALLERS_MAX: Final = 64
"""Callers that share one commit."""

_INSERT: Final = queries.load("memoryos_policy")["insert_decisions"]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One caller's decisions, and who waits for them."""

    scope: Scope
    drafts: Sequence[Draft]
    trace_id: str
    done: asyncio.Future[Sequence[Decision]]


class DecisionCommits:
    """Group commit of decisions, one tenant at a time."""

    def __init__(self, database: Database, keyring: KeyRing[Tx], ids: IdSource) -> None:
        self._database = database
        self._keyring = keyring
        self._ids = ids
        self._waiting: dict[str, list[_Waiting]] = {}
        self._committing: dict[str, asyncio.Task[None]] = {}

    async def keep(self, scope: Scope, drafts: Sequence[Draft]) -> Sequence[Decision]:
        """Give the decisions once they are committed; raises when they are not."""
        done: asyncio.Future[Sequence[Decision]] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(scope.tenant, [])
        waiting.append(_Waiting(scope, drafts, current_trace_id(), done))
        if scope.tenant not in self._committing:
            # A task of its own: a caller that goes away takes nobody else's decision with it.
            self._committing[scope.tenant] = asyncio.create_task(self._commit_all(scope.tenant))
        return await done

    async def _commit_all(self, tenant: str) -> None:
        try:
            while waiting := self._waiting[tenant]:
                batch, self._waiting[tenant] = waiting[:CALLERS_MAX], waiting[CALLERS_MAX:]
                await self._commit(tenant, batch)
        finally:
            del self._waiting[tenant], self._committing[tenant]

    async def _commit(self, tenant: str, batch: Sequence[_Waiting]) -> None:
        try:
            decisions = await self._write(tenant, batch)
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, DatabaseUnavailable):
                for one in batch:
                    await self._commit(tenant, [one])
                return
            for one in batch:
                if not one.done.done():  # its caller was cancelled
                    one.done.set_exception(error)
        else:
            for one, kept_ones in zip(batch, decisions, strict=True):
                if not one.done.done():
                    one.done.set_result(kept_ones)

    async def _write(self, tenant: str, batch: Sequence[_Waiting]) -> list[list[Decision]]:
        """Keep the decisions of these callers, each with its audit row, in one transaction."""
        async with self._database.tenant(tenant) as tx:
            keys = await self._keyring.tenant_keys(tx, tenant)
            groups = [[self._named(one, draft, keys.digest_hmac) for draft in one.drafts] for one in batch]
            rows = []
            for one, group in zip(batch, groups, strict=True):
                data_key = await self._keyring.subject_key(tx, tenant, one.scope.user)
                rows += [row_of(new, data_key) for new in group]
                record(tx, event_of(group))
            crash_point("policy.decide.before_commit")
            times = await _insert(tx, rows)
        return [[kept(new, times[new.id]) for new in group] for group in groups]

    def _named(self, one: _Waiting, draft: Draft, digest_hmac: Any) -> NewDecision:
        digest = digest_hmac(draft.question.action_digest)
        name = self._ids.new("dec")
        return NewDecision(scope=one.scope, draft=draft, id=name, digest_hmac=digest, trace_id=one.trace_id)


async def _insert(tx: Tx, rows: Sequence[tuple[Any, ...]]) -> dict[str, datetime]:
    """Insert these rows, and commit with the last of them; give their times by name."""
    parts = [rows[start : start + ROWS_MAX] for start in range(0, len(rows), ROWS_MAX)]
    found = []
    for part in parts:
        statement = _INSERT.replace("/*rows*/", ", ".join([NEW_ROW] * len(part)))
        values = [value for row in part for value in row]
        found += await (tx.fetch_last if part is parts[-1] else tx.fetch_all)(statement, values)
    return {row["decision_id"]: row["create_time"] for row in found}
