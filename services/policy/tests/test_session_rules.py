"""What a session has seen and said reaches the rules: written by services, read by policy, no part of a request."""

from __future__ import annotations

import dataclasses

import pytest
from memoryos.policy.v1 import policy_pb2
from memoryos_core.scope import Scope
from memoryos_postgres import Database, roles
from memoryos_postgres.keyring import PostgresKeyRing, load_epoch_key
from memoryos_postgres.session_facts import Fact, note, note_said
from memoryos_testing.postgres import Clone

from .world import Caller, World

pytestmark = pytest.mark.integration


@pytest.fixture
async def harness(database: Clone):
    async with Database(database.section, roles.HARNESS) as opened:
        yield opened


async def say(world: World, harness: Database, who: Caller, text: str) -> None:
    """The user of the caller says something in its session."""
    user = Scope.of(dataclasses.replace(who.identity, chain=(), roles=frozenset({"user"})))
    async with harness.scoped(user) as tx:
        keys = await PostgresKeyRing(load_epoch_key(world.folder / "epoch.key")).tenant_keys(tx, user.tenant)
        note_said(tx, user, keys, session_id=user.session_id, message_id=text, text=text)


async def read_a_page(harness: Database, who: Caller) -> None:
    """The session of the caller gets something that nobody vouches for."""
    async with harness.scoped(Scope.of(who.identity)) as tx:
        note(tx, Scope.of(who.identity), [Fact.UNTRUSTED_CONTENT], source="skill:web.fetch")


async def removes(who: Caller) -> policy_pb2.Decision:
    request = who.request("memory.write", {"path": "/x"}, effect_class="KEYED")
    request.action.destructive = True
    request.action.intents.extend(["delete", "删除"])
    return await who.send(request)


async def codes(world: World, decision: policy_pb2.Decision) -> set[str]:
    auditor = world.auditor()
    request = policy_pb2.GetDecisionRequest(id=decision.id)
    answer = await auditor.policy.GetDecision(request, metadata=auditor.metadata)
    return {reason.code for reason in answer.decision.reasons}


async def test_untrusted_content_sends_what_nobody_asked_for_to_a_person(world: World, harness: Database) -> None:
    who = world.gateway()
    assert (await removes(who)).effect == policy_pb2.EFFECT_ALLOW
    await read_a_page(harness, who)
    decision = await removes(who)
    assert decision.effect == policy_pb2.EFFECT_MANUAL_REVIEW
    assert await codes(world, decision) == {"untrusted_destructive"}
    assert [o.approval.group for o in decision.obligations] == ["reviewers"]


@pytest.mark.parametrize("text", ["please DELETE that entry", "请把这条记录删除掉"])
async def test_what_the_user_asked_for_goes_ahead(world: World, harness: Database, text: str) -> None:
    who = world.gateway()
    await read_a_page(harness, who)
    await say(world, harness, who, text)
    assert (await removes(who)).effect == policy_pb2.EFFECT_ALLOW


async def test_a_fact_of_another_session_or_user_is_none(world: World, harness: Database) -> None:
    await read_a_page(harness, world.gateway("u2"))  # the same session id, but the session is the token's
    other = world.gateway(tenant="globex")
    assert (await removes(other)).effect == policy_pb2.EFFECT_ALLOW


async def test_an_argument_that_claims_facts_is_an_argument(world: World, harness: Database) -> None:
    who = world.gateway()
    await read_a_page(harness, who)
    request = who.request(
        "memory.write", {"session_facts": {"untrusted_content": False, "asked": True}}, effect_class="KEYED"
    )
    request.action.destructive = True
    assert (await who.send(request)).effect == policy_pb2.EFFECT_MANUAL_REVIEW
