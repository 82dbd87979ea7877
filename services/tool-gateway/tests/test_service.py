"""The gateway as others meet it: over gRPC, with real tokens, policy and OPA."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from memoryos.policy.v1 import policy_pb2
from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb
from memoryos_telemetry import trace_tree

from .bench import Bench
from .upstream import SECRET, Upstream
from .world import World, refused

pytestmark = pytest.mark.integration


async def test_nobody_is_served_without_a_token_or_a_role(world: World):
    agent = world.caller()
    agent.metadata = ()
    async with refused("TOKEN_MISSING"):
        await agent.call("mes.takt_time", name="A")
    agent.metadata = (("x-user-id", "admin"), ("x-user-id", "u1"))
    async with refused("TOKEN_MISSING"):
        await agent.call("mes.takt_time", name="A")
    async with refused("ROLE_REQUIRED"):
        await world.reviewer().call("mes.takt_time", name="A")


async def test_there_is_no_way_to_an_effect_but_the_one_call(world: World):
    """A9: nothing else is served, so nothing can go around policy."""
    stub = reflection_pb2_grpc.ServerReflectionStub(world.channel("tool-gateway"))
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    async for answer in stub.ServerReflectionInfo(iter([request])):
        names = {service.name for service in answer.list_services_response.service}
        break
    assert names == {
        "memoryos.toolgateway.v1.ToolGateway", "memoryos.erasure.v1.Erasure", "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }  # fmt: skip
    execute = world.channel("tool-gateway").unary_unary("/memoryos.toolgateway.v1.ToolGateway/Execute")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await execute(b"", metadata=world.caller().metadata)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_skills_are_listed_for_who_may_call_them(world: World):
    listed = await world.caller().skills()
    names = [skill.name for skill in listed.skills]
    assert names == [
        "crm.customer", "memory.write", "mes.takt_time", "obliged.do", "obliged.drop", "obliged.say", "refund.create",
        "ticket.delete", "ticket.get",
    ]  # fmt: skip
    first = await world.caller().skills(page_size=5)
    rest = await world.caller().skills(page_size=5, page_token=first.next_page_token)
    assert [skill.name for skill in (*first.skills, *rest.skills)] == names
    assert rest.next_page_token == ""
    async with refused("INVALID_PAGE_TOKEN"):
        await world.caller("u2").skills(page_size=5, page_token=first.next_page_token)
    skill = next(skill for skill in listed.skills if skill.name == "refund.create")
    assert (skill.effect_class, skill.timeout.ToMilliseconds()) == (policy_pb2.EFFECT_CLASS_NON_IDEMPOTENT, 500)
    assert json.loads(skill.parameters_json)["required"] == ["name", "amount"]


async def test_a_skill_is_found_by_its_exact_name(world: World):
    stub, metadata = world.caller().gateway, world.caller().metadata
    found = await stub.GetSkill(pb.GetSkillRequest(name="mes.takt_time"), metadata=metadata)
    assert found.skill.name == "mes.takt_time"
    for name in ("nope", "Mes.takt_time", "mes__takt_time", "mes.takt_tim\u0435"):
        async with refused("SKILL_NOT_FOUND"):
            await stub.GetSkill(pb.GetSkillRequest(name=name), metadata=metadata)
    for name in ("", " ", "a\u202eb", "x" * 129):
        async with refused("INVALID_FIELD"):
            await stub.GetSkill(pb.GetSkillRequest(name=name), metadata=metadata)


async def test_a_call_is_given_to_whom_it_belongs(world: World):
    call = await world.caller(service="harness").call("mes.takt_time", name="A")
    for mine in (world.caller(), world.caller(chain=()), world.caller(roles=("user",), chain=())):
        assert await mine.get(call.id) == call
    for other in (world.caller("u2"), world.caller(tenant="elsewhere"), world.caller(chain=("other",))):
        async with refused("CALL_NOT_FOUND"):
            await other.get(call.id)
    seen = await world.auditor().get(call.id)
    assert (seen.id, seen.decision_id, seen.state, seen.result_json) == (call.id, call.decision_id, call.state, b"")
    async with refused("CALL_NOT_FOUND"):
        await world.caller("aud", tenant="elsewhere", roles=("auditor",)).get(call.id)


async def test_request_ids_belong_to_who_uses_them(world: World, upstream: Upstream):
    """A person, an agent of theirs and the harness each have their own."""
    callers = [world.caller(), world.caller(chain=()), world.caller("u2"), world.caller(service="harness")]
    calls = [await caller.call("mes.takt_time", "same", name="A") for caller in callers]
    assert len({call.id for call in calls}) == 4
    assert upstream.effects["A"] == 4


async def test_a_request_id_that_was_withdrawn_tells_and_stops_nobody_else(world: World, upstream: Upstream):
    """Withdrawn before it came: its user gets the withdrawal, another user of the same service nothing of it."""
    who, other = world.caller(service="harness"), world.caller("u2", service="harness")
    request = pb.CancelCallRequest(call_request_id="early")
    withdrawn = (await who.gateway.CancelCall(request, metadata=who.metadata, timeout=30)).call
    assert (await who.call("mes.takt_time", "early", name="W")).id == withdrawn.id
    async with refused("CALL_DIGEST_MISMATCH"):
        await other.call("mes.takt_time", "early", name="W")
    async with refused("CALL_NOT_FOUND"):
        await other.gateway.CancelCall(request, metadata=other.metadata, timeout=30)
    elsewhere = world.caller("u2", tenant="globex", service="harness")
    assert (await elsewhere.call("mes.takt_time", "early", name="W")).state == pb.CALL_STATE_SUCCEEDED
    assert upstream.effects["W"] == 1


async def test_a_stale_lease_epoch_is_refused(world: World):
    agent = world.caller(service="harness")
    await agent.call("mes.takt_time", "s1", epoch=5, name="A")
    async with refused("EPOCH_FENCED"):
        await agent.call("mes.takt_time", "s2", epoch=4, name="A")


async def test_two_gateways_asked_at_once_have_one_effect(world: World, own_world: World, upstream: Upstream):
    async with own_world.gateway():
        callers = [(world if number % 2 else own_world).caller() for number in range(10)]
        calls = await asyncio.gather(*(caller.call("refund.create", name="O-1", amount=5) for caller in callers))
    assert {call.id for call in calls} == {calls[0].id}
    assert {call.state for call in calls} == {pb.CALL_STATE_SUCCEEDED}
    assert upstream.effects["O-1"] == 1


async def test_one_call_is_one_connected_trace_and_joined_records(world: World, bench: Bench):
    """T2, I9."""
    call = await world.caller(service="harness").call("mes.takt_time", name="A")
    async with asyncio.timeout(10):
        tree = trace_tree(world.folder / "spans", call.trace_id)
        while not tree.connected or len(tree.services) < 2:
            await asyncio.sleep(0.05)  # other processes write their spans
            tree = trace_tree(world.folder / "spans", call.trace_id)
    names = [span.name for span in tree.spans]
    for name in ("execute_tool mes.takt_time", "memoryos.policy.v1.Policy/Decide", "HTTP POST"):
        assert any(name in found for found in names), tree.render()
    rows = await bench.rows("SELECT trace_id, call_id, decision_id, kind FROM core.audit", tenant=world.tenant)
    assert {(row["trace_id"], row["call_id"], row["decision_id"]) for row in rows} == {
        (call.trace_id, call.id, call.decision_id)
    }
    assert {row["kind"] for row in rows} == {"DECISION", "CALL_TOOL", "TOOL_RESULT"}


async def test_what_an_upstream_says_of_itself_is_nowhere(world: World, bench: Bench):
    """I5: its refusal holds its token; arguments hold a canary."""
    call = await world.caller().call("ticket.get", name="canary-77aa")
    assert call.state == pb.CALL_STATE_FAILED
    audit = await bench.rows("SELECT * FROM core.audit", tenant=world.tenant)
    spans = "".join(file.read_text() for file in (world.folder / "spans").iterdir())
    for text in (str(call), repr(audit), spans, world.log()):
        assert SECRET not in text
        assert "canary-77aa" not in text


async def test_without_policy_nothing_is_called_and_health_says_so(own_world: World, upstream: Upstream):
    peers = {"policy": "127.0.0.1:1", "memoryfs": "127.0.0.1:1"}
    async with own_world.gateway(peers=peers):
        async with refused("POLICY_UNAVAILABLE"):
            await own_world.caller().call("mes.takt_time", name="A")
        async with refused("POLICY_UNAVAILABLE"):
            await own_world.caller().skills()
        await health_becomes(own_world, health_pb2.HealthCheckResponse.NOT_SERVING)
    assert upstream.requests == []


async def test_health_is_serving_when_policy_and_database_answer(world: World):
    await health_becomes(world, health_pb2.HealthCheckResponse.SERVING)


async def health_becomes(world: World, wanted: int) -> None:
    stub = health_pb2_grpc.HealthStub(world.channel("tool-gateway"))
    async with asyncio.timeout(10):
        while (await stub.Check(health_pb2.HealthCheckRequest())).status != wanted:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.yaml": "name: [", "b.yaml": ""}, "a.yaml"),
        ({"a.yaml": "Search", "b.yaml": "search"}, "cannot be told from"),
    ],
)
def test_a_wrong_skill_file_stops_the_start_with_one_sentence(
    deployment: World, tmp_path: Path, files: dict[str, str], said: str
):
    from .bench import skill_document

    for name, content in files.items():
        document = skill_document(content, "ok") | {"name": content}
        text = content if not content.isalpha() else yaml.safe_dump(document)
        (tmp_path / name).write_text(text)
    section = deployment.config["tool-gateway"] | {"skill_dirs": [str(tmp_path)]}
    config = tmp_path / "config.conf"
    identity = deployment.config["identity"] | {"service_key_file": str(deployment.folder / "tool-gateway.pem")}
    config.write_text(yaml.safe_dump(deployment.config | {"tool-gateway": section, "identity": identity}))
    ended = subprocess.run(
        [sys.executable, "-m", "memoryos_toolgateway.main"],
        env={"MEMORYOS_CONFIG": str(config)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
