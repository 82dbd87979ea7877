"""Kept decisions, read from PostgreSQL: one, a page of a filter, or as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_core.canonical import canonical_json
from memoryos_core.feed import FeedPage
from memoryos_core.ids import encode_ulid
from memoryos_core.paging import PageTokens
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing
from memoryos_postgres import Database, Tx, queries
from memoryos_postgres.transaction import Row
from psycopg.types.json import Jsonb

from memoryos_policy.adapters.decision_rows import SERVICE, decision_of, input_place, rewrites_place
from memoryos_policy.adapters.sealed_inputs import opened, opened_input
from memoryos_policy.domain.decisions import Decision, Kept
from memoryos_policy.domain.masking import masked_input
from memoryos_policy.domain.verdicts import Effect
from memoryos_policy.errors import DecisionNotFound
from memoryos_policy.ports import DecisionFilter, FeedPosition, Page

LOOKED_AT_MAX: Final = 20_000
"""Decisions that one page by reason code or policy looks at; a page may be short for it, and its token goes on."""
INPUTS_BYTES_MAX: Final = 2 * 1024 * 1024
"""Inputs of one page; a page ends early rather than be larger than a message may be."""
CLOCK_SKEW_MAX: Final = timedelta(minutes=10)
"""Ids are made by the clock of a replica, times by that of the database, after as long as a commit may wait."""

_METHOD: Final = "memoryos.policy.v1.Policy"
_LIST_METHOD: Final = f"{_METHOD}/ListDecisions"
_QUERIES: Final = queries.load("memoryos_policy", "decision_log.sql")
_OWN: Final = "user_name = %(own)s AND chain[1:cardinality(%(chain)s::text[])] = %(chain)s::text[]"
_CONDITIONS: Final = {
    "before": "decision_id < %(before)s",
    "user": "user_name = %(user)s",
    "skill": "skill = %(skill)s",
    "call_id": "call_id = %(call_id)s",
    "trace_id": "trace_id = %(trace_id)s",
    "review_id": "review_id = %(review_id)s",
    # The id says the time well enough to find the place, the time itself then decides.
    "from_time": "decision_id >= %(from_id)s AND create_time >= %(from_time)s",
    "until_time": "decision_id <= %(until_id)s AND create_time < %(until_time)s",
    # Its index leaves out what is allowed, so the planner must see which effect is meant.
    **{f"effect_{effect.value}": f"effect = '{effect.value}'" for effect in Effect},
}


class PostgresDecisionLog:
    """DecisionLog on the schema policy."""

    def __init__(self, database: Database, keyring: KeyRing[Tx]) -> None:
        self._database = database
        self._keyring = keyring

    async def page_secret(self, scope: Scope) -> bytes:
        """See DecisionLog."""
        async with self._database.scoped(scope) as tx:
            return (await self._keyring.tenant_keys(tx, scope.tenant)).pages

    async def find(self, scope: Scope, decision_id: str, *, with_input: bool = False) -> Decision:
        """See DecisionLog."""
        async with self._database.scoped(scope) as tx:
            decision = await _found(tx, scope, decision_id)
            if not with_input:
                return decision
            (seen,) = await self._with_inputs(tx, scope, [decision])
            record(tx, _read_event(scope, f"{_METHOD}/GetDecision", [seen]))
        return seen

    async def newest(
        self, scope: Scope, wanted: DecisionFilter, page: Page, *, with_input: bool = False
    ) -> tuple[Sequence[Decision], str]:
        """See DecisionLog."""
        filter_bytes = canonical_json([_filter_of(wanted), with_input])
        async with self._database.scoped(scope) as tx:
            tokens = PageTokens((await self._keyring.tenant_keys(tx, scope.tenant)).pages)
            position = tokens.decode(scope, _LIST_METHOD, filter_bytes, page.token)
            params = _params(scope, wanted, str(position[0]) if position else "")
            decisions, behind = await _page(tx, params, page.size)
            if with_input:
                opened_ones = await self._with_inputs(tx, scope, decisions)
                decisions, cut = _within(opened_ones)
                behind = decisions[-1].id if cut else behind
                record(tx, _read_event(scope, _LIST_METHOD, decisions))
        return decisions, tokens.encode(scope, _LIST_METHOD, filter_bytes, (behind,)) if behind else ""

    async def kept(self, scope: Scope, decision_id: str) -> Kept:
        """See DecisionLog."""
        async with self._database.scoped(scope) as tx:
            decision = await _found(tx, scope, decision_id)
            (row,) = await _inputs(tx, scope, [decision])
            document = opened_input(await self._input(tx, scope, row))
            rewrites: Any = None
            if row["rewrites"] is not None:
                place = rewrites_place(scope.tenant, decision_id)
                rewrites = opened_input(await opened(self._keyring, tx, scope, row["rewrites"], place))
            record(tx, _read_event(scope, f"{_METHOD}/ExplainDecision", [decision]))
        return Kept(decision=decision, document=document, rewrites=rewrites or [])

    async def now(self, scope: Scope) -> FeedPosition:
        """See DecisionLog."""
        async with self._database.scoped(scope) as tx:
            (row,) = await tx.fetch_all(_QUERIES["feed_horizon"])
        return FeedPosition(int(row["horizon"]))

    async def after(
        self, scope: Scope, effect: Effect | None, position: FeedPosition, limit: int
    ) -> FeedPage[tuple[FeedPosition, Decision], FeedPosition]:
        """See DecisionLog."""
        async with self._database.scoped(scope) as tx:
            (now,) = await tx.fetch_all(_QUERIES["feed_horizon"])
            params = {
                "tenant": scope.tenant,
                "from_xid": str(position.xid),
                "from_id": position.decision_id,
                "horizon": now["horizon"],
                "effect": effect.value if effect else "",
                "limit": limit,
            }
            rows = await tx.fetch_all(_QUERIES["decisions_after"], params)
        events = [(FeedPosition(int(row["xid"]), row["decision_id"]), decision_of(row)) for row in rows]
        if len(rows) == limit:
            return FeedPage(events, events[-1][0], more=True)
        return FeedPage(events, max(position, FeedPosition(int(now["horizon"]))))

    async def _with_inputs(self, tx: Tx, scope: Scope, decisions: Sequence[Decision]) -> list[Decision]:
        """Give the decisions with their masked inputs; empty where their user was erased."""
        sealed = {row["decision_id"]: row for row in await _inputs(tx, scope, decisions)}
        found = []
        for decision in decisions:
            row = sealed.get(decision.id)
            document = opened_input(await self._input(tx, scope, row)) if row else None
            shown = canonical_json(masked_input(document)) if document else b""
            found.append(replace(decision, input=shown))
        return found

    async def _input(self, tx: Tx, scope: Scope, row: Row) -> bytes:
        return await opened(self._keyring, tx, scope, row["input"], input_place(scope.tenant, row["decision_id"]))


async def _found(tx: Tx, scope: Scope, decision_id: str) -> Decision:
    row = await tx.fetch_one(_QUERIES["decision"], {"tenant": scope.tenant, "decision_id": decision_id})
    if row is None:
        raise DecisionNotFound
    return decision_of(row)


async def _inputs(tx: Tx, scope: Scope, decisions: Sequence[Decision]) -> list[Row]:
    params = {"tenant": scope.tenant, "decision_ids": [decision.id for decision in decisions]}
    return await tx.fetch_all(_QUERIES["decision_inputs"], params)


async def _page(tx: Tx, params: dict[str, Any], size: int) -> tuple[list[Decision], str]:
    """Give a page, and the id that the next one comes behind, empty at the end."""
    by_rule = "code" in params
    conditions = "".join(f"\n    AND {text}" for name, text in _CONDITIONS.items() if name in params)
    if "own" in params:
        conditions += f"\n    AND {_OWN}"
    name = "decisions_newest_by_rule" if by_rule else "decisions_newest"
    values = {name: value for name, value in params.items() if not name.startswith("effect_")}
    values |= {"limit": size + 1, "looked_at": LOOKED_AT_MAX}
    rows = await tx.fetch_all(_QUERIES[name].replace("/*conditions*/", conditions), values)
    decisions = [decision_of(row) for row in rows[:size]]
    if len(rows) > size:
        return decisions, decisions[-1].id
    if not by_rule:
        return decisions, ""
    last = await tx.fetch_one(_QUERIES["decisions_looked_at"].replace("/*conditions*/", conditions), values)
    return decisions, last["decision_id"] if last else ""


def _params(scope: Scope, wanted: DecisionFilter, before: str) -> dict[str, Any]:
    """Give the parameters that the filter names, and no others: the planner is told what is asked for."""
    names = ("user", "skill", "call_id", "trace_id", "review_id")
    params: dict[str, Any] = {name: getattr(wanted, name) for name in names if getattr(wanted, name)}
    params |= {"tenant": scope.tenant, "chain": list(scope.chain)}
    if before:
        params["before"] = before
    if wanted.own:
        params["own"] = scope.user
    if wanted.effect:
        params[f"effect_{wanted.effect.value}"] = True
    if wanted.from_time:
        params |= {"from_time": wanted.from_time, "from_id": _id_at(wanted.from_time - CLOCK_SKEW_MAX)}
    if wanted.until_time:
        params |= {"until_time": wanted.until_time, "until_id": _id_at(wanted.until_time + CLOCK_SKEW_MAX)}
    if wanted.reason_code or wanted.policy:
        params["code"] = Jsonb([{"code": wanted.reason_code}] if wanted.reason_code else [])
        params["policy"] = Jsonb([{"policy": wanted.policy}] if wanted.policy else [])
    return params


def _id_at(time: datetime) -> str:
    milliseconds = int(time.timestamp() * 1000)
    return f"dec_{encode_ulid(min(max(milliseconds, 0), (1 << 48) - 1), 0)}"


def _filter_of(wanted: DecisionFilter) -> dict[str, Any]:
    times = {"from_time": wanted.from_time, "until_time": wanted.until_time}
    texts = {name: time.astimezone(UTC).isoformat() if time else "" for name, time in times.items()}
    names = ("own", "user", "skill", "call_id", "trace_id", "review_id", "effect", "reason_code", "policy")
    return {**{name: getattr(wanted, name) for name in names}, **texts}


def _within(decisions: Sequence[Decision]) -> tuple[list[Decision], bool]:
    """Give the first of the decisions whose inputs fit one message, and whether that left some out."""
    size = 0
    fitting: list[Decision] = []
    for decision in decisions:
        size += len(decision.input)
        if fitting and size > INPUTS_BYTES_MAX:
            return fitting, True
        fitting.append(decision)
    return fitting, False


def _read_event(scope: Scope, method: str, decisions: Sequence[Decision]) -> AuditEvent:
    alone = decisions[0] if len(decisions) == 1 else None
    return AuditEvent(
        kind=Kind.ADMIN_ACT,
        actor=Actor.of(scope),
        service=SERVICE,
        method=method,
        target_type="decision",
        target_ids=[decision.id for decision in decisions],
        call_id=alone.call_id if alone else "",
        decision_id=alone.id if alone else "",
        count=len(decisions),
        attributes={"act": "read_input"},
    )
