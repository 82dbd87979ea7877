"""The decision log: searched by who, skill, rule and time, followed as it grows, inputs for people who audit."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import grpc
import psycopg
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from memoryos.policy.v1 import policy_pb2
from memoryos_policy.adapters import decision_log
from memoryos_policy.adapters.decision_log import _CONDITIONS
from memoryos_policy.domain.masking import MASK, masked, masked_input
from memoryos_postgres import queries, roles
from memoryos_testing.postgres import Clone, DatabaseFactory, admin_execute

from .test_decide import rows
from .test_reviews import REFUND, open_review, resolve
from .world import IDS, Caller, World, reason_of, refused, replica

pytestmark = pytest.mark.integration
ALLOW, DENY, REVIEW = policy_pb2.EFFECT_ALLOW, policy_pb2.EFFECT_DENY, policy_pb2.EFFECT_MANUAL_REVIEW
INPUT = policy_pb2.DECISION_VIEW_INPUT


async def page(who: Caller, **fields: Any) -> policy_pb2.ListDecisionsResponse:
    request = policy_pb2.ListDecisionsRequest(**fields)
    answer: policy_pb2.ListDecisionsResponse = await who.policy.ListDecisions(request, metadata=who.metadata)
    return answer


async def found(who: Caller, **fields: Any) -> list[str]:
    """The ids of all pages of what is asked for."""
    ids, token = [], ""
    while True:
        answer = await page(who, page_token=token, **fields)
        ids += [one.id for one in answer.decisions]
        token = answer.next_page_token
        if not token:
            return ids


async def get(who: Caller, decision_id: str, **fields: Any) -> policy_pb2.Decision:
    request = policy_pb2.GetDecisionRequest(id=decision_id, **fields)
    decision: policy_pb2.Decision = (await who.policy.GetDecision(request, metadata=who.metadata)).decision
    return decision


def stamp(time: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(time)
    return message


async def test_every_filter_finds_what_it_names_and_nothing_else(world: World) -> None:
    one, two, auditor = world.gateway("u1"), world.gateway("u2"), world.auditor()
    allowed = await one.decide("refund.create", {"amount": 20})
    denied = await two.decide("refund.create", {"amount": -1})
    unknown = await two.decide("no.such", {})
    asked = await one.decide("refund.create", REFUND)
    review = await open_review(one, asked)
    await resolve(world.reviewer(), review)
    rested = await one.decide("refund.create", REFUND, call_id=asked.call_id)
    assert (rested.effect, rested.review_id) == (ALLOW, review.id)
    code = next(iter((await get(auditor, denied.id)).reasons))
    for fields, wanted in (
        ({}, [rested, asked, unknown, denied, allowed]),
        ({"user": "u2"}, [unknown, denied]),
        ({"skill": "no.such"}, [unknown]),
        ({"effect": DENY}, [unknown, denied]),
        ({"effect": ALLOW}, [rested, allowed]),
        ({"reason_code": code.code}, [denied]),
        ({"policy": code.policy, "effect": DENY, "user": "u2", "skill": "refund.create"}, [denied]),
        ({"call_id": asked.call_id}, [rested, asked]),
        ({"trace_id": denied.trace_id}, [denied]),
        ({"review_id": review.id}, [rested]),
        ({"from_time": denied.create_time, "until_time": asked.create_time}, [unknown, denied]),
        ({"user": "u1", "skill": "no.such"}, []),
        ({"reason_code": "no_such_code"}, []),
        ({"policy": "memoryos.skills"}, []),
    ):
        assert await found(auditor, page_size=1, **fields) == [each.id for each in wanted], fields


async def test_a_page_token_is_for_its_filter_and_view(world: World) -> None:
    gateway, auditor = world.gateway(), world.auditor()
    for amount in (1, 2, 3):
        await gateway.decide("refund.create", {"amount": amount})
    token = (await page(auditor, page_size=1, skill="refund.create")).next_page_token
    assert (await page(auditor, page_size=1, skill="refund.create", page_token=token)).decisions
    for other in ({}, {"skill": "ticket.get"}, {"skill": "refund.create", "user": "u1"},
                  {"skill": "refund.create", "view": INPUT}, {"skill": "refund.create", "reason_code": "x"},
                  {"skill": "refund.create", "from_time": stamp(datetime.now(UTC))}):  # fmt: skip
        async with refused("INVALID_PAGE_TOKEN"):
            await page(auditor, page_size=1, page_token=token, **other)


async def test_a_page_by_rule_looks_at_so_many_and_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "LOOKED_AT_MAX", 2)
    gateway, auditor = world.gateway(), world.auditor()
    denied = await gateway.decide("refund.create", {"amount": -1})
    for amount in range(1, 6):
        await gateway.decide("refund.create", {"amount": amount})
    code = (await get(auditor, denied.id)).reasons[0].code
    first = await page(auditor, reason_code=code)
    assert not first.decisions
    assert first.next_page_token
    assert await found(auditor, reason_code=code) == [denied.id]


async def test_reasons_cannot_be_guessed_by_searching(world: World) -> None:
    """I11: which of one's own decisions have a reason says the reason."""
    gateway = world.gateway("u1")
    decision = await gateway.decide("refund.create", {"amount": -1})
    user = world.caller("u1", roles=("user",))
    assert await found(user, user="u1", effect=DENY) == [decision.id]
    for fields in ({"reason_code": "x"}, {"policy": "x"}, {"user": "u2"}):
        async with refused("AUDITORS_ONLY"):
            await page(user, **fields)


@pytest.mark.parametrize("fields", [{"effect": 9}, {"view": 9}])
async def test_values_that_nobody_knows_are_refused(world: World, fields: dict[str, Any]) -> None:
    async with refused("INVALID_FIELD"):
        await page(world.auditor(), **fields)
    for seconds in (-(10**11), 10**13):
        async with refused("INVALID_FIELD"):
            await page(world.auditor(), from_time=Timestamp(seconds=seconds))


def sensitive(gateway: Caller, arguments: dict[str, Any], pointers: list[str], **more: Any) -> policy_pb2.DecideRequest:
    request = gateway.request("refund.create", arguments, **more)
    request.action.sensitive_arguments.extend(pointers)
    return request


async def test_inputs_are_masked_audited_and_for_people_who_audit(world: World, database: Clone) -> None:
    gateway, auditor = world.gateway(), world.auditor()
    given = {"amount": 20, "card": "4111-secret", "lines": [{"sku": "a-secret"}, {"sku": "b-secret"}], "备注": "可见"}
    resource = policy_pb2.Resource(type="card", id="4111-secret")
    decision = await gateway.send(sensitive(gateway, given, ["/card", "/lines/*/sku", "/absent"], resource=resource))
    assert not (await get(auditor, decision.id)).input_json
    seen = json.loads((await get(auditor, decision.id, view=INPUT)).input_json)
    assert seen["args"] == {"amount": 20, "card": MASK, "lines": [{"sku": MASK}, {"sku": MASK}], "备注": "可见"}
    assert (seen["resource"]["id"], seen["subject"]["user"]) == (MASK, "u1")
    (listed,) = (await page(auditor, view=INPUT)).decisions
    assert json.loads(listed.input_json) == seen
    assert b"secret" not in listed.input_json
    audit = await rows(
        database, "SELECT method, target_ids, user_name FROM core.audit WHERE kind = 'ADMIN_ACT' ORDER BY seq"
    )
    methods = [f"memoryos.policy.v1.Policy/{name}" for name in ("GetDecision", "ListDecisions")]
    assert [(row["method"], row["target_ids"], row["user_name"]) for row in audit] == [
        (method, [decision.id], "aud") for method in methods
    ]
    for other in (world.caller("x", roles=("tenant-admin",)), world.caller("u1", roles=("user",)),
                  world.caller("u1", chain=("helper",)), world.auditor(chain=("helper",))):  # fmt: skip
        async with refused("AUDITORS_ONLY"):
            await get(other, decision.id, view=INPUT)
        async with refused("AUDITORS_ONLY"):
            await page(other, view=INPUT)


async def test_a_page_of_inputs_fits_a_message(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "INPUTS_BYTES_MAX", 3_000)
    gateway, auditor = world.gateway(), world.auditor()
    made = [(await gateway.decide("refund.create", {"amount": 1, "note": "x" * 2_000})).id for _ in range(3)]
    assert [one.id for one in (await page(auditor, view=INPUT)).decisions] == made[:1:-1]
    assert await found(auditor, view=INPUT) == made[::-1]


async def test_the_input_of_who_is_erased_is_empty(world: World, database: Clone) -> None:
    decision = await world.gateway().decide("refund.create", {"amount": 20})
    await admin_execute(database, "DELETE FROM core.data_keys WHERE subject_hmac <> 'root'")
    async with replica(world) as port:
        auditor = world.auditor(port=port)
        assert (await get(auditor, decision.id, view=INPUT)).input_json == b""
        async with refused("INPUT_ERASED"):
            await explain(auditor, decision.id)


def test_masking_by_pointer() -> None:
    value = {"a": [{"b": 1}, {"b": 2}, 3], "c/d": {"~": 4}, "*": 5, "e": None}
    assert masked(value, ["/a/*/b"])["a"] == [{"b": MASK}, {"b": MASK}, 3]
    assert masked(value, ["/a/1"])["a"] == [{"b": 1}, MASK, 3]
    assert masked(value, ["/c~1d/~0"])["c/d"] == {"~": MASK}
    assert masked(value, ["/*"])["*"] == MASK
    assert masked(value, ["/e"])["e"] == MASK
    assert masked(value, ["/x/y", "/a/9", "/e/f"]) == value
    assert masked(value, [""]) == MASK
    document = {"action": {"sensitive_arguments": ["/n"]}, "args": {"n": 7}, "resource": {"type": "t", "id": "7"}}
    assert masked_input(document)["resource"] == {"type": "t", "id": MASK}
    assert document["args"] == {"n": 7}


async def explain(who: Caller, decision_id: str) -> policy_pb2.ExplainDecisionResponse:
    request = policy_pb2.ExplainDecisionRequest(id=decision_id)
    answer: policy_pb2.ExplainDecisionResponse = await who.policy.ExplainDecision(request, metadata=who.metadata)
    return answer


async def test_each_filter_has_its_index(database: Clone, database_factory: DatabaseFactory) -> None:
    """What the planner does under row-level security, on a log of 40,000 decisions of two tenants."""
    await admin_execute(database, LOG)
    db = await database_factory(roles.POLICY)
    sql = queries.load("memoryos_policy", "decision_log.sql")
    values = {
        "tenant": "acme", "chain": [], "before": "dec_3", "user": "u7", "skill": "s7", "call_id": "call_7",
        "trace_id": "t7", "review_id": "rev_7", "from_id": "dec_5", "until_id": "dec_6", "limit": 51,
        "from_time": datetime(2026, 1, 1, tzinfo=UTC), "until_time": datetime(2026, 2, 1, tzinfo=UTC),
    }  # fmt: skip
    for name, index in (
        ("before", "decisions_pkey"), ("user", "decisions_of_user"), ("skill", "decisions_of_skill"),
        ("call_id", "decisions_of_call"), ("trace_id", "decisions_of_trace"), ("review_id", "decisions_of_review"),
        ("effect_deny", "decisions_other_than_allow"), ("from_time", "decisions_pkey"),
    ):  # fmt: skip
        condition = _CONDITIONS[name] + (f" AND {_CONDITIONS['until_time']}" if name == "from_time" else "")
        query = sql["decisions_newest"].replace("/*conditions*/", f" AND {condition}")
        plan = await planned(db, query, values)
        assert index in plan, (name, plan)
        assert "Seq Scan" not in plan, (name, plan)
        assert "Sort" not in plan, (name, plan)
    after = {"tenant": "acme", "from_xid": "1", "from_id": "", "horizon": "9999999", "effect": "", "limit": 100}
    plan = await planned(db, sql["decisions_after"], after)
    assert "decisions_of_feed" in plan
    assert "Sort" not in plan


LOG = """
INSERT INTO policy.decisions (tenant, decision_id, call_id, attempt, skill, skill_version, action_digest_hmac, effect,
    reasons, agent_message, bundle_revision, review_id, user_name, chain, session_id, task_id, service, trace_id, input)
SELECT CASE n % 2 WHEN 0 THEN 'acme' ELSE 'globex' END, 'dec_' || lpad(n::text, 6, '0'), 'call_' || n, 1,
    's' || n / 2 % 300, '1', '', CASE WHEN n % 50 = 0 THEN 'deny' ELSE 'allow' END,
    '[{"code": "c", "policy": "p"}]', '',
    'r', CASE WHEN n % 100 = 0 THEN 'rev_' || n END, 'u' || n / 2 % 400, '{}', '', '', '', 't' || n,
    repeat('x', 700)::bytea
FROM generate_series(1, 40000) AS n;
ANALYZE policy.decisions
"""


async def planned(db: Any, query: str, values: dict[str, Any]) -> str:
    async with db.tenant("acme") as tx:
        lines = await tx.fetch_all(f"EXPLAIN {query}", values)
    return "\n".join(next(iter(line.values())) for line in lines)


class Watching:
    """A stream that is read message by message."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.position = ""

    async def next(self, field: str) -> Any:
        """The next message that is more than a sign of life."""
        async with asyncio.timeout(10):
            while True:
                message = await self.call.read()
                assert message is not grpc.aio.EOF
                self.position = message.position
                if message.HasField(field):
                    return getattr(message, field)

    async def begun(self) -> None:
        """Wait for the first message, which says where the feed begins."""
        async with asyncio.timeout(10):
            self.position = (await self.call.read()).position

    async def nothing(self, field: str) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                await self.next(field)


def decisions(who: Caller, **fields: Any) -> Watching:
    return Watching(who.policy.WatchDecisions(policy_pb2.WatchDecisionsRequest(**fields), metadata=who.metadata))


async def test_decisions_are_followed_over_a_lost_connection(world: World) -> None:
    gateway, auditor = world.gateway(), world.auditor()
    before = await gateway.decide("refund.create", {"amount": 1})
    feed = decisions(auditor)
    await feed.begun()
    start = feed.position
    made = [await gateway.decide("refund.create", {"amount": amount}) for amount in (2, -1, 3)]
    await world.gateway(tenant="globex").decide("refund.create", {"amount": 5})
    assert [(await feed.next("decision")).id for _ in made[:2]] == [one.id for one in made[:2]]
    feed.call.cancel()
    later = await gateway.decide("refund.create", {"amount": 4})
    again = decisions(auditor, position=feed.position)
    seen = [await again.next("decision") for _ in range(2)]
    assert [one.id for one in seen] == [made[2].id, later.id]
    assert all(one.reasons for one in seen)
    again.call.cancel()
    whole = decisions(auditor, position=start)
    assert before.id not in [(await whole.next("decision")).id for _ in range(4)]
    whole.call.cancel()
    denied = decisions(auditor, effect=DENY)
    await denied.begun()
    await gateway.decide("refund.create", {"amount": 6})
    refusal = await gateway.decide("refund.create", {"amount": -6})
    assert (await denied.next("decision")).id == refusal.id
    for other in ({"effect": DENY}, {"position": "x" * 30}):
        request = policy_pb2.WatchDecisionsRequest(**{"position": start, **other})
        async with refused("INVALID_PAGE_TOKEN"):
            await auditor.policy.WatchDecisions(request, metadata=auditor.metadata).read()


async def test_only_who_sees_all_decisions_follows_them(world: World) -> None:
    for who in (world.caller("u1", roles=("user",)), world.gateway(), world.reviewer()):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await decisions(who).call.read()
        assert reason_of(caught.value) == "ROLE_REQUIRED"


async def test_a_feed_waits_for_transactions_that_still_run(world: World, database: Clone) -> None:
    """A decision that is kept later by a transaction that began earlier is told, before what came after it."""
    gateway, auditor = world.gateway(), world.auditor()
    feed = decisions(auditor)
    await feed.begun()
    async with await psycopg.AsyncConnection.connect(database.admin_dsn) as slow:
        await slow.execute("SELECT pg_current_xact_id()")
        fast = await gateway.decide("refund.create", {"amount": 1})
        await feed.nothing("decision")
        late = IDS.new("dec")
        await slow.execute(
            "INSERT INTO policy.decisions SELECT (jsonb_populate_record(d, jsonb_build_object('decision_id', %s::text,"
            " 'xid', pg_current_xact_id()::text))).* FROM policy.decisions d WHERE decision_id = %s",
            (late, fast.id),
        )
        await slow.commit()
    feed = decisions(auditor, position=feed.position)
    assert [(await feed.next("decision")).id for _ in range(2)] == [late, fast.id]
