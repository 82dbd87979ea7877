"""One job in the hands of one process."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from memoryos_core.canonical import canonical_json
from memoryos_core.errors import InternalError
from memoryos_core.scope import Scope

from memoryos_postgres.database import Database
from memoryos_postgres.jobs.store import QUERIES
from memoryos_postgres.transaction import Row, Tx


class JobLost(InternalError):
    """Another process has taken the job up, or it has ended: nothing of this one is kept."""


class JobCancelled(Exception):
    """The handler stops because it was asked to; `result` says what was done until then."""

    def __init__(self, result: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.result = dict(result or {})


class JobWaits(Exception):
    """The handler has nothing to do for some time: others have its place meanwhile, then it is called again."""

    def __init__(self, delay_s: float) -> None:
        super().__init__()
        self.delay_s = delay_s


class JobRun:
    """What a handler is given. It may be taken up again at its last checkpoint, by another process, at any time."""

    def __init__(self, database: Database, row: Row, scope: Scope, asked: bytes) -> None:
        self._database = database
        self.id: str = row["id"]
        self.kind: str = row["kind"]
        self.tenant: str = row["tenant"]
        self.scope = scope
        """Who asked, as verified then."""
        self.input = asked
        self.phase: str = row["phase"]
        self.done: int = row["done_count"]
        self.checkpoint: dict[str, Any] = row["checkpoint"]
        """What was saved last; ids and counts only, never content."""
        self.epoch: int = row["epoch"]
        self.cancelled: bool = row["cancel_requested"]
        """It was asked to stop; told anew by every save and heartbeat."""

    async def save(
        self,
        *,
        phase: str | None = None,
        done: int | None = None,
        total: int | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        tx: Tx | None = None,
    ) -> None:
        """Keep how far it is; with `tx` (of this tenant) it commits with what the handler did there.

        JobLost when another process holds the job: leave the transaction by it.
        """
        plain = None if checkpoint is None else canonical_json(dict(checkpoint)).decode()
        values = {**self._named(), "phase": phase, "done": done, "total": total, "checkpoint": plain}
        if tx is None:
            async with self._database.tenant(self.tenant) as own:
                await self._save(own, values)
        else:
            await self._save(tx, values)
        self.phase = self.phase if phase is None else phase
        self.done = self.done if done is None else done
        self.checkpoint = self.checkpoint if plain is None else json.loads(plain)

    def stop_if_cancelled(self, result: Mapping[str, Any] | None = None) -> None:
        """Raise JobCancelled when it was asked to stop: for the safe places of a handler."""
        if self.cancelled:
            raise JobCancelled(result)

    def _named(self) -> dict[str, Any]:
        return {"tenant": self.tenant, "id": self.id, "epoch": self.epoch}

    async def _save(self, tx: Tx, values: Mapping[str, Any]) -> None:
        row = await tx.fetch_one(QUERIES["save_job"], values)
        if row is None:
            raise JobLost
        self.cancelled = row["cancel_requested"]


Handler = Callable[[JobRun], Awaitable[Mapping[str, Any]]]
"""Does a job from its checkpoint on and gives its result: counts, names and digests."""
