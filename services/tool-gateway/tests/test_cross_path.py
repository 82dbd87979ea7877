"""One action, asked for on every path there is: the same decision, the same digest, the same row of the journal."""

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb

from .bench import Bench
from .upstream import Upstream
from .world import Caller, World

pytestmark = pytest.mark.integration
_NUMBERS = itertools.count(1)
IDENTITIES: dict[str, dict[str, Any]] = {
    "agent": {"chain": ("helper",), "roles": ("agent",)},
    "sub-agent": {"chain": ("helper", "worker"), "roles": ("agent",)},
    "user": {"chain": (), "roles": ("user",)},
}
ACTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "read": ("mes.takt_time", {"name": "A"}),
    "refused by its upstream": ("ticket.get", {"name": "T-1"}),
    "allowed": ("refund.create", {"name": "O-1", "amount": 10}),
    "reviewed": ("refund.create", {"name": "O-1", "amount": 900}),
    "denied": ("refund.create", {"name": "O-1", "amount": 10_000_000}),
    "denied for what was looked up": ("ticket.delete", {"ticket_id": "T-1"}),
    "changed": ("obliged.do", {"name": "a", "amount": 900.5}),
    "changed and reviewed": ("obliged.do", {"name": "中文", "amount": 900, "note": "look"}),
}
KEPT = (
    "skill, version, definition_digest, effect_class, action_digest_hmac, asked_digest_hmac, state, dispatches,"
    " error_code, agent_message, approval_used, facts, fallback, full_result_bytes, user_name, chain"
)


@dataclass(frozen=True)
class Trace:
    """What one path has left: compared as a whole."""

    reasons: tuple[str, ...]
    first_state: int
    result: bytes
    row: dict[str, Any]


async def traced(world: World, bench: Bench, caller: Caller, action: str, *, retried: bool = False) -> Trace:
    """Make one call in a request of its own, through its review where it has one, and give what is left of it."""
    skill, arguments = ACTIONS[action]
    request_id = f"r{next(_NUMBERS)}"
    async with bench.database.tenant(world.tenant) as tx:
        await tx.execute("DELETE FROM toolgateway.rate_windows")  # what other paths took is not this one's
    call = await caller.call(skill, request_id, **arguments)
    first_state, decided = call.state, await world.auditor().reasons(call.decision_id)
    if retried:
        again = await caller.call(skill, request_id, **dict(reversed(arguments.items())))
        assert (again.id, again.state, again.action_digest_hmac) == (call.id, call.state, call.action_digest_hmac)
    if call.state == pb.CALL_STATE_PARKED:
        await world.reviewer().approve(call.review_id)
        call = await caller.call(skill, request_id, **arguments)
        assert (call.dispatches, call.state) == (1, pb.CALL_STATE_SUCCEEDED)
    assert await caller.call(skill, request_id, **arguments) == call
    (row,) = await bench.rows(f"SELECT {KEPT} FROM toolgateway.calls WHERE id = %s", call.id, tenant=world.tenant)
    return Trace(tuple(decided), first_state, b"" if call.state == pb.CALL_STATE_SUCCEEDED else call.result_json, row)


@pytest.mark.parametrize("action", ACTIONS)
async def test_every_path_gives_the_same(world: World, own_world: World, upstream: Upstream, bench: Bench, action: str):
    upstream.tickets["T-1"] = {"environment": "production"}
    by_identity = {}
    async with own_world.gateway():
        for name, identity in IDENTITIES.items():

            def caller(at: World, service: str | None = None, identity: dict[str, Any] = identity) -> Caller:
                return at.caller(service=service, session_id=f"ses_{next(_NUMBERS)}", **identity)

            direct = await traced(world, bench, caller(world), action)
            others = {
                "by a service": await traced(world, bench, caller(world, "harness"), action),
                "tried again": await traced(world, bench, caller(world), action, retried=True),
                "another replica": await traced(world, bench, caller(own_world), action),
            }
            for path, trace in others.items():
                assert trace == direct, (name, path)
            by_identity[name] = direct
    agent, sub_agent = by_identity["agent"], by_identity["sub-agent"]
    assert (sub_agent.first_state, sub_agent.reasons) == (agent.first_state, agent.reasons)
    digests = {trace.row["action_digest_hmac"] for trace in by_identity.values()}
    assert len(digests) == len(IDENTITIES), "who acts is part of what is done"
    ours = {"chain", "action_digest_hmac", "asked_digest_hmac"}
    same = [{k: v for k, v in trace.row.items() if k not in ours} for trace in (agent, sub_agent)]
    assert same[0] == same[1]
