"""Erasure on the wire, for every service that MemoryFS asks: what differs is which rows are whose."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from memoryos.erasure.v1 import erasure_pb2, erasure_pb2_grpc
from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_core.errors import InvalidField
from memoryos_core.scope import Scope
from memoryos_grpc.caller import scope
from memoryos_postgres import Database
from memoryos_postgres.remains import Remains, Sought
from memoryos_postgres.transaction import Tx

BATCH: Final = 1000
_METHOD: Final = "memoryos.erasure.v1.Erasure/Erase"

EraseItems = Callable[[Tx, str, Sequence[str], int], Awaitable[Mapping[str, int]]]
"""Removes up to so many rows that quote the items of a tenant; no counts: nothing is left."""


async def _nothing(_tx: Tx, _tenant: str, _ids: Sequence[str], _limit: int) -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What a service holds of people and items."""

    service: str
    schema: str
    of_user: Mapping[str, str]
    """Statements by table, in an order that foreign keys allow: each deletes up to %(limit)s rows of %(user)s of
    %(tenant)s; %(typed)s and %(agents)s are the principal and the beginning of its agents'."""
    of_items: EraseItems = _nothing
    expiring: Mapping[str, str] = field(default_factory=dict)
    """Places that lose what they hold only later, with the reason."""


class ErasureServicer(erasure_pb2_grpc.ErasureServicer):
    """Erases batch by batch; the search goes through every table of the schema."""

    def __init__(self, database: Database, holdings: Holdings) -> None:
        self._database = database
        self._holdings = holdings
        self._remains = Remains(database, [holdings.schema])

    async def Erase(
        self, request: erasure_pb2.EraseRequest, context: grpc.aio.ServicerContext
    ) -> erasure_pb2.EraseResponse:
        """See the proto."""
        who, sought = scope(), _sought(request.target)
        async with self._database.upkeep(who.tenant) as tx:
            removed = await (self._of_user(tx, who, sought) if sought.user else self._of_items(tx, who, sought))
            if removed:
                self._audit(tx, who, request.job_id, sum(removed.values()))
        return erasure_pb2.EraseResponse(removed=_counts(removed), done=not removed)

    async def FindRemains(
        self, request: erasure_pb2.FindRemainsRequest, context: grpc.aio.ServicerContext
    ) -> erasure_pb2.FindRemainsResponse:
        """See the proto."""
        found = await self._remains.find(scope().tenant, _sought(request.target))
        expiring = [
            erasure_pb2.Expiring(place=place, reason=reason) for place, reason in self._holdings.expiring.items()
        ]
        return erasure_pb2.FindRemainsResponse(searched=_counts(found), expiring=expiring)

    async def _of_user(self, tx: Tx, who: Scope, sought: Sought) -> Mapping[str, int]:
        """Remove from the first table that holds something: what refers to it is gone by then."""
        params: dict[str, Any] = {**sought.parameters, "tenant": who.tenant, "limit": BATCH}
        for table, statement in self._holdings.of_user.items():
            rows = await tx.execute(statement, params)
            if rows:
                return {table: rows}
        return {}

    async def _of_items(self, tx: Tx, who: Scope, sought: Sought) -> Mapping[str, int]:
        removed = await self._holdings.of_items(tx, who.tenant, sought.ids, BATCH)
        return {place: rows for place, rows in removed.items() if rows}

    def _audit(self, tx: Tx, who: Scope, job_id: str, rows: int) -> None:
        event = AuditEvent(
            kind=Kind.ADMIN_ACT,
            actor=Actor.of(who),
            service=self._holdings.service,
            method=_METHOD,
            target_type="erasure",
            target_ids=[job_id],
            count=rows,
        )
        record(tx, event)


def delete_up_to(table: str, condition: str) -> str:
    """Give the statement that deletes up to %(limit)s rows of a table of the tenant under a condition on `t`."""
    return (
        f"DELETE FROM {table} WHERE ctid = ANY (ARRAY("  # noqa: S608 - names of our own
        f"SELECT t.ctid FROM {table} AS t WHERE t.tenant = %(tenant)s AND {condition} LIMIT %(limit)s))"
    )


def _sought(target: erasure_pb2.Target) -> Sought:
    if target.WhichOneof("what") == "user" and target.user:
        return Sought(user=target.user)
    if target.items.ids:
        return Sought(ids=tuple(target.items.ids))
    raise InvalidField.of("target", "names a user or items")


def _counts(counts: Mapping[str, int]) -> list[erasure_pb2.PlaceCount]:
    return [erasure_pb2.PlaceCount(place=place, count=rows) for place, rows in sorted(counts.items())]
