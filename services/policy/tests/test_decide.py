"""Decide, over gRPC, with real tokens, PostgreSQL and OPA."""

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from memoryos.policy.v1 import policy_pb2
from memoryos_policy.bundles import default_bundle_dir, read_files, revision_of
from memoryos_postgres import roles
from memoryos_telemetry import trace_tree
from memoryos_testing.opa import opa_server
from memoryos_testing.postgres import Clone, DatabaseFactory
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from .world import IDS, Caller, World, action, make_world, refused, serving

pytestmark = pytest.mark.integration
ALLOW, DENY, REVIEW = policy_pb2.EFFECT_ALLOW, policy_pb2.EFFECT_DENY, policy_pb2.EFFECT_MANUAL_REVIEW


async def rows(database: Clone, query: str) -> list[dict[str, Any]]:
    """What a superuser finds in the database."""
    async with await AsyncConnection.connect(database.admin_dsn, row_factory=dict_row) as admin:
        return await (await admin.execute(query.encode())).fetchall()


async def as_auditor(world: World, decision_id: str) -> policy_pb2.Decision:
    auditor = world.auditor()
    answer = await auditor.policy.GetDecision(policy_pb2.GetDecisionRequest(id=decision_id), metadata=auditor.metadata)
    decision: policy_pb2.Decision = answer.decision
    return decision


def ticket(environment: str, name: str = "TCK-1") -> policy_pb2.Resource:
    return policy_pb2.Resource(
        type="ticket", id=name, properties_json=json.dumps({"environment": environment}).encode()
    )


async def test_the_three_effects_are_kept_with_reasons_revision_and_audit(world: World, database: Clone) -> None:
    gateway = world.gateway()
    allowed = await gateway.decide("refund.create", {"amount": 20, "order_id": "O-1"})
    review = await gateway.decide("refund.create", {"amount": 2000, "order_id": "O-1"})
    denied = await gateway.decide("ticket.delete", {"ticket_id": "TCK-1"}, resource=ticket("production"))
    assert [one.effect for one in (allowed, review, denied)] == [ALLOW, REVIEW, DENY]
    assert review.obligations[0].approval.group == "finance"
    assert review.obligations[0].approval.expires_in.seconds == 900
    assert denied.agent_message == "This action is not permitted."
    assert not denied.reasons  # for auditors only
    revision = revision_of(read_files(default_bundle_dir()))
    kept = await as_auditor(world, denied.id)
    assert {r.code for r in kept.reasons} == {"ticket_is_production", "ticket_not_known_as_test"}
    assert {r.policy for r in kept.reasons} == {"memoryos.skills.ticket.delete"}
    assert (kept.bundle_revision, kept.actor.user, list(kept.actor.agent_chain)) == (revision, "u1", ["helper"])
    assert kept.HasField("bundle_age")
    assert len(kept.action_digest_hmac) == 64
    assert kept.action_digest_hmac != gateway.digest("ticket.delete", b'{"ticket_id":"TCK-1"}')
    audit = await rows(database, "SELECT * FROM core.audit WHERE kind = 'DECISION' ORDER BY seq")
    assert [(row["decision_id"], row["outcome"]) for row in audit] == [
        (allowed.id, "OK"), (review.id, "OK"), (denied.id, "DENIED"),
    ]  # fmt: skip
    assert {row["call_id"] for row in audit} == {allowed.call_id, review.call_id, denied.call_id}
    traces = await rows(database, "SELECT trace_id FROM policy.decisions ORDER BY decision_id")
    assert [row["trace_id"] for row in traces] == [row["trace_id"] for row in audit]
    assert all(row["trace_id"] for row in traces)


async def test_a_test_ticket_may_go(world: World) -> None:
    gateway = world.gateway()
    assert (await gateway.decide("ticket.delete", {"ticket_id": "TCK-1"}, resource=ticket("test"))).effect == ALLOW
    assert (await gateway.decide("ticket.delete", {"ticket_id": "TCK-1"})).effect == DENY
    other = await gateway.decide("ticket.delete", {"ticket_id": "TCK-1"}, resource=ticket("test", "TCK-2"))
    assert other.effect == DENY


@pytest.mark.parametrize(
    "change",
    [
        lambda r: setattr(r, "arguments_json", b'{"amount":21}'),
        lambda r: setattr(r, "action_digest", "0" * 64),
        lambda r: setattr(r.action, "skill", "memory.read"),
        lambda r: setattr(r.action, "version", "2"),
        lambda r: setattr(r.action, "definition_digest", "e" * 64),
    ],
)
async def test_the_digest_must_be_that_of_the_action(world: World, database: Clone, change: Any) -> None:
    gateway = world.gateway()
    request = gateway.request("refund.create", {"amount": 20})
    change(request)
    async with refused("DIGEST_MISMATCH"):
        await gateway.send(request)
    other_user = world.gateway("u2")
    async with refused("DIGEST_MISMATCH"):
        await other_user.send(gateway.request("refund.create", {"amount": 20}))
    other_chain = world.gateway(chain=("helper", "inner"))
    async with refused("DIGEST_MISMATCH"):
        await other_chain.send(gateway.request("refund.create", {"amount": 20}))
    assert not await rows(database, "SELECT 1 FROM policy.decisions")


async def test_the_same_arguments_in_another_spelling_are_the_same_action(world: World) -> None:
    gateway = world.gateway()
    request = gateway.request("refund.create", {"amount": 20, "order_id": "O-1"})
    request.arguments_json = b'{ "order_id": "O\\u002d1", "amount": 20 }'
    assert (await gateway.send(request)).effect == ALLOW


@pytest.mark.parametrize(
    "raw", [b'{"amount":1,"amount":9999}', b'{"amount":1,"\\u0061mount":9999}', b'{"amount":NaN}', b"[]", b"", b"{"]
)
async def test_arguments_with_two_readings_are_refused(world: World, raw: bytes) -> None:
    gateway = world.gateway()
    request = gateway.request("refund.create", {"amount": 1})
    request.arguments_json = raw
    async with refused("INVALID_FIELD"):
        await gateway.send(request)


@pytest.mark.parametrize("skill", ["x/../../policies/p", "..", "memoryos.main", "nope"])
async def test_unknown_and_hostile_skill_names_are_denied(world: World, skill: str) -> None:
    decision = await world.gateway().decide(skill, {})
    assert decision.effect == DENY
    assert [r.code for r in (await as_auditor(world, decision.id)).reasons] == ["no_rule"]


async def test_a_skill_name_with_query_characters_is_refused_at_the_edge(world: World) -> None:
    async with refused("INVALID_FIELD"):
        await world.gateway().decide("a?explain=full#", {})


async def test_only_services_may_ask(world: World) -> None:
    agent = world.caller(chain=("helper",))
    async with refused("SERVICE_TOKEN_REQUIRED"):
        await agent.decide("memory.read", {}, effect_class="READ")
    gateway = world.gateway()
    bare = Caller(gateway.channel, gateway.identity, gateway.metadata[1:])
    async with refused("TOKEN_MISSING"):
        await bare.decide("memory.read", {}, effect_class="READ")


async def test_no_token_is_in_what_the_rules_or_the_database_see(world: World, database: Clone) -> None:
    gateway = world.gateway()
    canary = "canary-4711"
    await gateway.decide("refund.create", {"amount": 20, "note": canary})
    secrets = [gateway.metadata[0][1].split()[1], gateway.metadata[1][1], world.opa_token_file.read_text(), canary]
    for table in ("policy.decisions", "core.audit", "core.data_keys"):
        text = json.dumps(await rows(database, f"SELECT * FROM {table}"), default=_readable)
        for secret in secrets:
            assert secret not in text, table
    spans = "".join(path.read_text() for path in (world.folder / "spans").rglob("*") if path.is_file())
    assert not [secret for secret in secrets if secret in spans]


def _readable(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


async def test_one_trace_from_the_call_to_opa(world: World) -> None:
    decision = await world.gateway().decide("refund.create", {"amount": 2000})
    kept = await as_auditor(world, decision.id)
    async with asyncio.timeout(5):
        while True:
            tree = trace_tree(world.folder / "spans", kept.trace_id)
            text = tree.render()
            if "opa.decide" in text:
                break
            await asyncio.sleep(0.02)
    assert text.index("Decide") < text.index("opa.decide")
    assert decision.id in text
    assert "manual_review" in text


async def test_listing_keeps_no_rows_and_one_audit_row(world: World, database: Clone) -> None:
    gateway = world.gateway()
    names = ["mes.takt_time", "refund.create", "ticket.delete", "nope"]
    requests = [policy_pb2.DecideRequest(purpose=policy_pb2.PURPOSE_LIST, action=action(name)) for name in names]
    answer = await gateway.policy.BatchDecide(
        policy_pb2.BatchDecideRequest(requests=requests), metadata=gateway.metadata
    )
    assert [one.effect for one in answer.decisions] == [ALLOW, ALLOW, ALLOW, DENY]
    assert {one.id for one in answer.decisions} == {""}
    assert not await rows(database, "SELECT 1 FROM policy.decisions")
    (audit,) = await rows(database, "SELECT * FROM core.audit")
    assert (audit["kind"], audit["count"], audit["target_ids"]) == ("DECISION", 4, names)


async def test_a_batch_of_calls_is_kept_whole_and_in_order(world: World, database: Clone) -> None:
    gateway = world.gateway()
    requests = [gateway.request("refund.create", {"amount": amount}) for amount in (1, 9999, -1)]
    requests.insert(1, policy_pb2.DecideRequest(purpose=policy_pb2.PURPOSE_LIST, action=action("memory.read")))
    answer = await gateway.policy.BatchDecide(
        policy_pb2.BatchDecideRequest(requests=requests), metadata=gateway.metadata
    )
    assert [one.effect for one in answer.decisions] == [ALLOW, ALLOW, REVIEW, DENY]
    kept = await rows(database, "SELECT decision_id FROM policy.decisions ORDER BY decision_id")
    assert [row["decision_id"] for row in kept] == [one.id for one in answer.decisions if one.id]


async def test_who_sees_which_decisions(world: World) -> None:
    gateway, other = world.gateway("u1"), world.gateway("u2")
    mine = await gateway.decide("refund.create", {"amount": -1})
    theirs = await other.decide("refund.create", {"amount": 1})

    async def listed(who: Caller, **fields: Any) -> list[policy_pb2.Decision]:
        answer = await who.policy.ListDecisions(policy_pb2.ListDecisionsRequest(**fields), metadata=who.metadata)
        return list(answer.decisions)

    user = world.caller("u1", roles=("user",))
    assert [(one.id, list(one.reasons)) for one in await listed(user)] == [(mine.id, [])]
    for role in ("auditor", "tenant-admin"):
        seen = await listed(world.caller("x", roles=(role,)))
        assert [one.id for one in seen] == [theirs.id, mine.id]
        assert all(one.reasons for one in seen)
    assert [one.id for one in await listed(world.auditor(), call_id=mine.call_id)] == [mine.id]
    assert [one.id for one in await listed(world.auditor(), effect=ALLOW)] == [theirs.id]
    async with refused("DECISION_NOT_FOUND"):
        await user.policy.GetDecision(policy_pb2.GetDecisionRequest(id=theirs.id), metadata=user.metadata)
    for chain, shown in ((("helper",), [mine.id]), (("other",), []), (("helper", "inner"), [])):
        agent = world.caller("u1", chain=chain)
        assert [one.id for one in await listed(agent)] == shown
        if not shown:
            async with refused("DECISION_NOT_FOUND"):
                await agent.policy.GetDecision(policy_pb2.GetDecisionRequest(id=mine.id), metadata=agent.metadata)
    elsewhere = world.auditor(tenant="other")
    assert not await listed(elsewhere)
    async with refused("DECISION_NOT_FOUND"):
        await elsewhere.policy.GetDecision(policy_pb2.GetDecisionRequest(id=mine.id), metadata=elsewhere.metadata)
    async with refused("ROLE_REQUIRED"):
        await listed(world.reviewer())


async def test_pages_of_decisions(world: World) -> None:
    gateway, auditor = world.gateway(), world.auditor()
    made = [(await gateway.decide("refund.create", {"amount": n})).id for n in range(1, 6)]
    found, token = [], ""
    while True:
        request = policy_pb2.ListDecisionsRequest(page_size=2, page_token=token)
        answer = await auditor.policy.ListDecisions(request, metadata=auditor.metadata)
        found += [one.id for one in answer.decisions]
        token = answer.next_page_token
        if not token:
            break
        user = world.caller("u1", roles=("user",))
        async with refused("INVALID_PAGE_TOKEN"):
            await user.policy.ListDecisions(policy_pb2.ListDecisionsRequest(page_token=token), metadata=user.metadata)
    assert found == made[::-1]


async def health(world: World) -> int:
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{world.port_file.read_text().strip()}")
    world.channels.append(channel)
    answer = await health_pb2_grpc.HealthStub(channel).Check(
        health_pb2.HealthCheckRequest(service="memoryos.policy.v1.Policy")
    )
    status: int = answer.status
    return status


async def wait_for_health(world: World, wanted: int) -> None:
    async with asyncio.timeout(10):
        while True:
            if await health(world) == wanted:
                return
            await asyncio.sleep(0.02)


SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


async def test_no_opa_no_bundle_and_a_lost_opa_deny_and_show_in_health(tmp_path: Path, database: Clone) -> None:
    async with opa_server(tmp_path) as first:
        port = first.port
    world = make_world(tmp_path, database, port)
    async with serving(world):
        gateway = world.gateway()

        async def code() -> str:
            decision = await gateway.decide("memory.read", {}, effect_class="READ")
            assert decision.effect == DENY
            return (await as_auditor(world, decision.id)).reasons[0].code

        await wait_for_health(world, NOT_SERVING)
        assert await code() == "policy_not_ready"
        async with opa_server(tmp_path, port=port, without_bundle=True):
            assert await code() == "policy_missing"
            assert await health(world) == NOT_SERVING
        async with opa_server(tmp_path, port=port):
            await wait_for_health(world, SERVING)
            assert (await gateway.decide("memory.read", {}, effect_class="READ")).effect == ALLOW
        assert await code() == "policy_error:unreachable"
        await wait_for_health(world, NOT_SERVING)


def listing(*names: str) -> policy_pb2.BatchDecideRequest:
    return policy_pb2.BatchDecideRequest(
        requests=[policy_pb2.DecideRequest(purpose=policy_pb2.PURPOSE_LIST, action=action(name)) for name in names]
    )


async def test_a_listing_without_opa_is_an_error_and_not_empty(tmp_path: Path, database: Clone) -> None:
    """Who is told of no skills gives up for good; who is told of an outage comes back (FAULTS A6)."""
    async with opa_server(tmp_path) as first:
        port = first.port
    world = make_world(tmp_path, database, port)
    async with serving(world):
        gateway = world.gateway()

        async def listed() -> list[int]:
            answer = await gateway.policy.BatchDecide(
                listing("mes.takt_time", "nope"), metadata=gateway.metadata, timeout=20
            )
            return [one.effect for one in answer.decisions]

        async with refused("DEPENDENCY_UNAVAILABLE"):
            await listed()
        async with opa_server(tmp_path, port=port, without_bundle=True), refused("DEPENDENCY_UNAVAILABLE"):
            await listed()
        async with opa_server(tmp_path, port=port) as opa:
            await wait_for_health(world, SERVING)
            assert await listed() == [ALLOW, DENY]
            os.kill(opa.process.pid, signal.SIGSTOP)
            try:
                async with refused("DEPENDENCY_UNAVAILABLE"):
                    await listed()
            finally:
                os.kill(opa.process.pid, signal.SIGCONT)
        async with refused("DEPENDENCY_UNAVAILABLE"):
            await listed()


async def test_rules_of_one_skill_that_fail_hide_that_skill_alone(tmp_path: Path, database: Clone) -> None:
    rules = tmp_path / "rules"
    shutil.copytree(default_bundle_dir(), rules, ignore=shutil.ignore_patterns("*_test.rego"))
    skill = rules / "memoryos" / "skills" / "x.broken"
    skill.mkdir()
    (skill / "x.broken.rego").write_text(
        'package memoryos.skills["x.broken"]\n\nvisible if to_number(input.action.skill) > 5\n'
    )
    async with opa_server(tmp_path, bundle_dir=rules) as opa:
        world = make_world(tmp_path, database, opa.port)
        async with serving(world):
            gateway = world.gateway()
            answer = await gateway.policy.BatchDecide(
                listing("x.broken", "mes.takt_time"), metadata=gateway.metadata, timeout=20
            )
    assert [one.effect for one in answer.decisions] == [DENY, ALLOW]


async def test_a_failing_built_in_in_a_deny_rule_denies(tmp_path: Path, database: Clone) -> None:
    rules = tmp_path / "rules"
    shutil.copytree(default_bundle_dir(), rules, ignore=shutil.ignore_patterns("*_test.rego"))
    skill = rules / "memoryos" / "skills" / "x.number"
    skill.mkdir()
    (skill / "x.number.rego").write_text(
        'package memoryos.skills["x.number"]\n\nvisible := true\n\nallow contains {"code": "yes", "text": ""}\n\n'
        'deny contains {"code": "large", "text": ""} if to_number(input.args.x) > 5\n'
    )
    async with opa_server(tmp_path, bundle_dir=rules) as opa:
        world = make_world(tmp_path, database, opa.port)
        async with serving(world):
            gateway = world.gateway()
            effects = [(await gateway.decide("x.number", {"x": x})).effect for x in ("4", "6", "abc")]
    assert effects == [ALLOW, DENY, DENY]


async def test_a_decision_that_cannot_be_kept_is_no_answer(world: World, database: Clone) -> None:
    gateway = world.gateway()
    await gateway.decide("memory.read", {}, effect_class="READ")
    async with await AsyncConnection.connect(database.admin_dsn, autocommit=True) as admin:
        await admin.execute("REVOKE INSERT ON core.audit FROM memoryos_policy")
        await admin.execute("REVOKE INSERT (tenant) ON core.audit FROM memoryos_policy")
    with pytest.raises(grpc.aio.AioRpcError):
        await gateway.decide("memory.read", {}, effect_class="READ")
    assert len(await rows(database, "SELECT 1 FROM policy.decisions")) == 1


async def test_row_level_security_stands_behind_the_tenant(world: World, database_factory: DatabaseFactory) -> None:
    await world.gateway().decide("memory.read", {}, effect_class="READ")
    db = await database_factory(roles.POLICY)
    async with db.tenant("acme") as tx:
        assert await tx.fetch_value("SELECT count(*) FROM policy.decisions") == 1
    async with db.tenant("other") as tx:
        assert await tx.fetch_value("SELECT count(*) FROM policy.decisions") == 0


async def start_process(world: World, crash_point: str = "") -> asyncio.subprocess.Process:
    world.port_file.unlink(missing_ok=True)
    environment = {**os.environ, "MEMORYOS_CONFIG": str(world.config_file), "MEMORYOS_CRASH_POINT": crash_point}
    with (world.folder / "policy.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "memoryos_policy.main", env=environment, stdout=log, stderr=log
        )
    async with asyncio.timeout(30):
        while not world.port_file.exists():
            assert process.returncode is None, (world.folder / "policy.log").read_text()
            await asyncio.sleep(0.02)
    return process


@pytest.mark.chaos
async def test_an_answered_decision_survives_kill_9(tmp_path: Path, database: Clone) -> None:
    async with opa_server(tmp_path) as opa:
        world = make_world(tmp_path, database, opa.port)
        process = await start_process(world)
        decision = await world.gateway().decide("refund.create", {"amount": 2000})
        process.kill()
        await process.wait()
        process = await start_process(world)
        kept = await as_auditor(world, decision.id)
        assert (kept.effect, kept.call_id) == (REVIEW, decision.call_id)
        assert len(await rows(database, f"SELECT 1 FROM core.audit WHERE decision_id = '{decision.id}'")) == 1
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            assert await process.wait() == 0
        assert not world.port_file.exists()
        for channel in world.channels:
            await channel.close()


@pytest.mark.chaos
async def test_killed_before_the_commit_nothing_is_kept_and_nothing_is_allowed(tmp_path: Path, database: Clone) -> None:
    async with opa_server(tmp_path) as opa:
        world = make_world(tmp_path, database, opa.port)
        process = await start_process(world, "policy.decide.before_commit")
        call_id = IDS.new("call")
        with pytest.raises(grpc.aio.AioRpcError):
            await world.gateway().decide("refund.create", {"amount": 20}, call_id=call_id)
        assert await process.wait() == -signal.SIGKILL
        assert not await rows(database, "SELECT 1 FROM policy.decisions UNION ALL SELECT 1 FROM core.audit")
        process = await start_process(world)
        decision = await world.gateway().decide("refund.create", {"amount": 20}, call_id=call_id)
        assert decision.effect == ALLOW
        process.kill()
        await process.wait()
        for channel in world.channels:
            await channel.close()
