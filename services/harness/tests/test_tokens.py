"""Tokens over gRPC: an agent's token is never more than its caller's, and nobody who was revoked gets one."""

import base64
import dataclasses
import json
from datetime import UTC, datetime, timedelta

import grpc
import jwt
import pytest
import yaml
from memoryos.harness.v1 import tokens_pb2, tokens_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2, tool_gateway_pb2_grpc
from memoryos_core.clock import SystemClock
from memoryos_core.errors import TokenAudience
from memoryos_core.keys import KeySet, PrivateKey
from memoryos_core.tokens import Identity, TokenVerifier
from memoryos_grpc import remote_error
from psycopg import AsyncConnection

from .world import IDS, refused

MINE = "/tenants/acme/memory/episodic/u42"


class Tokens:
    """Somebody with a token, at the Tokens service."""

    def __init__(self, world, *, token: str = "", **claims) -> None:
        client = world.client(**claims)
        self.stub = tokens_pb2_grpc.TokensStub(world.channels[-1])
        self.metadata = (("authorization", f"Bearer {token}"),) if token else client.metadata

    async def exchange(self, agent="scout", **fields):
        request = tokens_pb2.ExchangeTokenRequest(agent=agent, **fields)
        return await self.stub.ExchangeToken(request, metadata=self.metadata)

    async def revoke(self, subject, request_id=None):
        request = tokens_pb2.RevokeAccessRequest(subject=subject, request_id=request_id or IDS.new("evt"))
        return (await self.stub.RevokeAccess(request, metadata=self.metadata)).revocation

    async def restore(self, subject, request_id=None):
        request = tokens_pb2.RestoreAccessRequest(subject=subject, request_id=request_id or IDS.new("evt"))
        await self.stub.RestoreAccess(request, metadata=self.metadata)

    async def revoked(self):
        answer = await self.stub.ListRevocations(tokens_pb2.ListRevocationsRequest(), metadata=self.metadata)
        return [seen.subject for seen in answer.revocations]


def admin(world, tenant="acme"):
    return Tokens(world, user="admin", tenant=tenant, roles=("tenant-admin",))


@pytest.fixture
def verified(world):
    def identity(token, service="memoryfs") -> Identity:
        return TokenVerifier(KeySet.load(world.folder / "keys.json"), service, SystemClock()).subject(token)

    return identity


async def rows(world, query, *params):
    async with await AsyncConnection.connect(world.database.admin_dsn, autocommit=True) as connection:
        return await (await connection.execute(query, params)).fetchall()


async def test_the_token_of_an_agent_is_its_callers_with_less(world, verified) -> None:
    user = Tokens(world, roles=("user", "tenant-admin"), groups=frozenset({"east"}), clearance=3, session_id="ses_1",
                  read_paths=("/tenants/acme/memory/episodic",), write_paths=(MINE,))  # fmt: skip
    answer = await user.exchange(read_paths=[MINE + "/a"], audience=["memoryfs"], ttl_s=60)
    got = verified(answer.access_token)
    assert (got.tenant, got.user, got.chain, got.session_id) == ("acme", "u42", ("scout",), "ses_1")
    assert (got.roles, got.groups, got.clearance) == ({"agent", "user"}, {"east"}, 3)
    assert (got.read_paths, got.write_paths) == ((MINE + "/a",), ())
    assert got.issuer == "memoryos-harness"
    assert abs((got.expire_time - answer.expire_time.ToDatetime(UTC)).total_seconds()) <= 1
    assert (got.expire_time - datetime.now(UTC)).total_seconds() <= 60
    with pytest.raises(TokenAudience):
        verified(answer.access_token, "tool-gateway")
    ((actor, chain),) = await rows(world, "SELECT actor, chain FROM core.audit WHERE kind = 'TOKEN_ISSUED'")
    assert (actor, chain) == ("agent:u42/scout", ["scout"])


async def test_an_agent_of_an_agent_stands_in_a_longer_chain(world, verified) -> None:
    answer = await Tokens(world, roles=("agent",), chain=("boss",), task_id="task_1").exchange()
    got = verified(answer.access_token)
    assert (got.chain, got.roles, got.task_id) == (("boss", "scout"), {"agent"}, "task_1")
    for service in ("memoryfs", "tool-gateway", "policy"):
        assert verified(answer.access_token, service).chain == got.chain
    with pytest.raises(TokenAudience):
        verified(answer.access_token, "harness")


async def test_a_token_lives_no_longer_than_the_one_it_came_from(world, verified) -> None:
    short = world.issuer.subject(Identity(tenant="acme", user="u42", roles=frozenset({"user"})),
                                 audience=["memoryos"], ttl_s=20)  # fmt: skip
    answer = await Tokens(world, token=short).exchange(ttl_s=300)
    assert verified(answer.access_token).expire_time <= verified(short).expire_time
    long = (await Tokens(world).exchange()).access_token
    assert verified(long).expire_time <= datetime.now(UTC) + timedelta(seconds=301)


@pytest.mark.parametrize(
    "asked",
    [
        {"read_paths": ["/tenants/acme/memory/episodic"]},
        {"read_paths": [MINE + "x"]},
        {"write_paths": [MINE]},
        {"read_paths": ["/tenants/globex/memory/episodic/u42"]},
    ],
)
async def test_who_asks_for_other_paths_is_refused(world, asked) -> None:
    narrow = Tokens(world, read_paths=(MINE,), write_paths=())
    async with refused("NOT_ALLOWED"):
        await narrow.exchange(**asked)


@pytest.mark.parametrize("asked", [{"audience": ["harness"]}, {"audience": ["memoryos"]}, {"ttl_s": 301},
                                   {"ttl_s": -1}])  # fmt: skip
async def test_who_asks_for_other_services_or_a_longer_life_is_refused(world, asked) -> None:
    async with refused("INVALID_FIELD"):
        await Tokens(world).exchange(**asked)


@pytest.mark.parametrize(
    "agent",
    ["", "..", "a/b", "u43/a", "agent:u42/x", "Scout", "1a", "a b", "a\n", "a\0", "a\u200b", "аgent", "特工", "x" * 65],
)
async def test_a_hostile_name_of_an_agent_gets_no_token(world, agent) -> None:
    async with refused("INVALID_FIELD"):
        await Tokens(world).exchange(agent)
    assert await rows(world, "SELECT 1 FROM core.audit WHERE kind = 'TOKEN_ISSUED'") == []


async def test_an_agent_with_a_file_makes_tokens_of_its_sub_agents_only(world) -> None:
    async with refused("NOT_ALLOWED"):
        await Tokens(world, roles=("agent",), chain=("helper",)).exchange("plain")


async def test_the_longest_chain_grows_no_further(world) -> None:
    longest = Tokens(world, roles=("agent",), chain=tuple(f"a{n}" for n in range(16)))
    async with refused("NOT_ALLOWED"):
        await longest.exchange()


def signed(world, **changes) -> str:
    """A token of the harness's own key whose claims were written by hand."""
    key = PrivateKey.load(world.folder / "task.pem")
    now = int(datetime.now(UTC).timestamp())
    claims = {
        "sub": "u42", "tenant": "acme", "roles": ["agent"], "groups": [], "clearance": 0, "aud": ["memoryos"],
        "iss": "memoryos-harness", "iat": now, "nbf": now, "exp": now + 60, "jti": "tok_1",
        "act": {"sub": "agent:u42/helper", "act": {"sub": "agent:u42/boss"}}, **changes,
    }  # fmt: skip
    return jwt.encode(claims, key.private, algorithm="EdDSA", headers={"kid": key.kid, "typ": "at+jwt"})


SPLICED = {
    "a link of another user": {"act": {"sub": "agent:u42/helper", "act": {"sub": "agent:u43/boss"}}},
    "a link of nobody": {"act": {"sub": "agent:u42/helper", "act": {"act": {"sub": "agent:u42/boss"}}}},
    "a link that is a user": {"act": {"sub": "user:u42"}},
    "a link with more in it": {"act": {"sub": "agent:u42/helper", "roles": ["tenant-admin"]}},
    "a list of links": {"act": [{"sub": "agent:u42/helper"}]},
    "paths of another tenant": {"tenant": "globex", "read_paths": [MINE]},
    "a role that is none": {"roles": ["root"]},
}


@pytest.mark.parametrize("spliced", SPLICED.values(), ids=SPLICED)
async def test_a_spliced_chain_is_no_token_even_with_the_right_signature(world, spliced) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as unspliced:  # verified, and refused for what its file says
        await Tokens(world, token=signed(world)).exchange()
    assert remote_error(unspliced.value).reason == "NOT_ALLOWED"
    async with refused("TOKEN_INVALID"):
        await Tokens(world, token=signed(world, **spliced)).exchange()
    async with refused("TOKEN_INVALID"):
        await list_skills(world, signed(world, **spliced))


async def list_skills(world, token):
    config = yaml.safe_load(world.config_file.read_text())
    async with grpc.aio.insecure_channel(config["peers"]["tool_gateway"]) as channel:
        stub = tool_gateway_pb2_grpc.ToolGatewayStub(channel)
        return await stub.ListSkills(
            tool_gateway_pb2.ListSkillsRequest(page_size=10), metadata=(("authorization", f"Bearer {token}"),)
        )


def edited(token: str, **changes) -> str:
    """The token with other claims and the signature it had."""
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))) | changes
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return ".".join((head, body, signature))


async def test_a_token_whose_claims_were_edited_is_refused_by_every_service(world) -> None:
    token = (await Tokens(world).exchange()).access_token
    changes = [
        {"roles": ["agent", "tenant-admin"]}, {"clearance": 9}, {"groups": ["board"]}, {"sub": "u43"},
        {"aud": ["memoryos"]}, {"exp": 4102444800}, {"read_paths": ["/tenants/acme/memory/episodic"]},
        {"act": {"sub": "agent:u42/boss"}}, {"act": None}, {"task": "task_2"},
    ]  # fmt: skip
    for change in changes:
        async with refused("TOKEN_INVALID"):
            await list_skills(world, edited(token, **change))


async def test_an_expired_link_and_one_for_another_service_are_refused(world) -> None:
    long_ago = int(datetime.now(UTC).timestamp()) - 120
    for call in (lambda token: list_skills(world, token), lambda token: Tokens(world, token=token).exchange()):
        async with refused("TOKEN_EXPIRED"):
            await call(signed(world, iat=long_ago, nbf=long_ago, exp=long_ago + 60))
        async with refused("TOKEN_INVALID"):  # as long a life as no token has
            await call(signed(world, exp=long_ago + 200_000))
    memory_only = (await Tokens(world).exchange(audience=["memoryfs"])).access_token
    async with refused("TOKEN_AUDIENCE"):
        await list_skills(world, memory_only)
    async with refused("TOKEN_AUDIENCE"):  # a token of an agent gets no other one at the harness
        await Tokens(world, token=memory_only).exchange()


async def test_whoever_is_revoked_gets_no_token_until_restored(world) -> None:
    boss, user = admin(world), Tokens(world)
    agent = Tokens(world, roles=("agent",), chain=("boss", "deputy"), task_id=IDS.new("task"))
    other = Tokens(world, user="u43")
    for subject, stopped in (("user:u42", (user, agent)), ("agent:u42/boss", (agent,)), ("agent:u42/deputy", (agent,)),
                             ("agent:u42/scout", (user, agent))):  # fmt: skip
        assert (await boss.revoke(subject)).actor == "user:admin"
        for who in stopped:
            async with refused("ACCESS_REVOKED"):
                await who.exchange()
        assert (await other.exchange()).access_token
        if user not in stopped:
            assert (await user.exchange()).access_token
        await boss.restore(subject)
    assert (await agent.exchange()).access_token
    assert await boss.revoked() == []


async def test_a_revoked_task_gets_no_token_for_anybody_who_works_in_it(world) -> None:
    task = IDS.new("task")
    await admin(world).revoke(task)
    async with refused("ACCESS_REVOKED"):
        await Tokens(world, roles=("agent",), chain=("boss",), task_id=task).exchange()
    ((kind, targets),) = await rows(
        world, "SELECT kind, target_ids FROM core.audit WHERE method LIKE '%%/RevokeAccess'"
    )
    assert (kind, targets) == ("ADMIN_ACT", [task])


async def test_a_retried_revocation_is_one_and_comes_back_after_a_restoral_by_another_request_only(world) -> None:
    boss = admin(world)
    first = await boss.revoke("user:张三", "r1")
    assert await boss.revoke("user:张三", "r1") == first
    async with refused("REQUEST_ID_REUSED"):
        await boss.revoke("user:u42", "r1")
    await boss.restore("user:张三", "r2")
    assert await boss.revoke("user:张三", "r1") == first  # the late retry of what was taken back since
    assert await boss.revoked() == []
    await boss.revoke("user:张三", "r3")
    await boss.restore("user:张三", "r2")  # and of the restoral
    assert await boss.revoked() == ["user:张三"]
    audit = await rows(world, "SELECT target_ids, target_hmac FROM core.audit WHERE target_type = 'revocation'")
    assert len(audit) == 3
    assert all(not ids and hmac for ids, hmac in audit)  # names of people do not stand in audit rows


async def test_only_an_administrator_revokes_and_in_its_own_tenant_only(world) -> None:
    for roles in (("user",), ("agent",), ("operator", "auditor")):
        async with refused("ROLE_REQUIRED"):
            await Tokens(world, roles=roles).revoke("user:u42")
    await admin(world, "globex").revoke("user:u42")
    assert (await Tokens(world).exchange()).access_token
    assert await admin(world).revoked() == []
    assert await Tokens(world, roles=("auditor",), tenant="globex").revoked() == ["user:u42"]


@pytest.mark.parametrize("subject", ["u42", "role:user", "tenant:*", "agent:u42", "task_1", "user:a\u200b", ""])
async def test_what_names_nobody_is_not_revoked(world, subject) -> None:
    async with refused("INVALID_FIELD"):
        await admin(world).revoke(subject)


async def test_the_keys_verify_the_tokens_and_hold_nothing_secret(world) -> None:
    user = Tokens(world)
    answer = await user.stub.GetKeys(tokens_pb2.GetKeysRequest(), metadata=user.metadata)
    keys = json.loads(answer.jwks_json)
    assert [(key["iss"], key["use"], set(key) & {"d", "k"}) for key in keys["keys"]] == [
        ("memoryos-harness", "subject", set())
    ]
    token = (await user.exchange()).access_token
    got = TokenVerifier(KeySet.parse(keys), "memoryfs", SystemClock()).subject(token)
    assert dataclasses.asdict(got)["chain"] == ("scout",)


async def test_without_the_database_no_token_is_made(world) -> None:
    user = Tokens(world)
    async with await AsyncConnection.connect(world.database.admin_dsn, autocommit=True) as connection:
        await connection.execute("REVOKE SELECT ON core.revocations FROM memoryos_harness")
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await user.exchange()
        assert failed.value.code() is grpc.StatusCode.INTERNAL
        await connection.execute("GRANT SELECT ON core.revocations TO memoryos_harness")
    assert (await user.exchange()).access_token
