"""The contract of PolicyClient, on the adapter in memory and on the real service."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from memoryos_core.canonical import action_digest, canonical_json
from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_grpc import Channels, GrpcSection, subject_token
from memoryos_telemetry import Telemetry, TelemetrySection
from memoryos_toolgateway.adapters.policy_grpc import GrpcPolicy
from memoryos_toolgateway.adapters.skill_folders import load_registry
from memoryos_toolgateway.domain.decisions import Action, Effect, Question, Resource, Terms, judge
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import ArgumentsInvalid, PolicyUnavailable
from memoryos_toolgateway.ports import PolicyClient
from memoryos_toolgateway.registry import SkillRegistry

from .bench import demo_skills, skill_document, write_skills
from .policies import InMemoryPolicy, allow, deny
from .world import World

pytestmark = pytest.mark.integration
IDS = UlidSource()


@dataclass
class Case:
    """A client, the skills that its rules are about, and a person who resolves reviews."""

    client: PolicyClient
    registry: SkillRegistry
    tenant: str
    resolve: Any

    def question(self, wanted: str, call_id: str = "", resource: Resource | None = None, **arguments: Any) -> Question:
        skill = self.skill(wanted)
        canonical = canonical_json(arguments)
        digest = action_digest(
            tenant=self.tenant, user="u1", chain=("helper",), skill=wanted, version=skill.version,
            definition_digest=skill.definition_digest, arguments=canonical,
        )  # fmt: skip
        return Question(
            call_id=call_id or IDS.new("call"), attempt=1, skill=skill, resource=resource or Resource(),
            arguments=canonical, action_digest=digest,
        )  # fmt: skip

    def skill(self, name: str) -> Skill:
        found = self.registry.get(name)
        assert found is not None
        return found


@pytest.fixture(params=["memory", "grpc"])
async def case(request: pytest.FixtureRequest, tmp_path: Path, world: World) -> AsyncIterator[Case]:
    write_skills(tmp_path / "skills", *demo_skills(), skill_document("no.rule", "ok"))
    registry = load_registry([tmp_path / "skills"], {"UPSTREAM": "127.0.0.1:1"})
    if request.param == "memory":
        yield in_memory(registry)
        return
    async with AsyncExitStack() as stack:
        telemetry = Telemetry(TelemetrySection(span_dir=tmp_path / "spans"), "tool-gateway", SystemClock())
        stack.callback(telemetry.shutdown)
        channels = Channels("tool-gateway", world.services["tool-gateway"], telemetry, GrpcSection())
        stack.push_async_callback(channels.close)
        token = dict(world.caller().metadata)["authorization"].removeprefix("Bearer ")

        async def resolve(review_id: str) -> None:
            await world.reviewer().approve(review_id)

        client = GrpcPolicy(channels.open(world.address("policy"), "policy"), 10)
        with subject_token(token):
            yield Case(client, registry, world.tenant, resolve)


def in_memory(registry: SkillRegistry) -> Case:
    def refund(question: Question) -> Effect:
        return Effect.MANUAL_REVIEW if b'"amount":900' in question.arguments else Effect.ALLOW

    def ticket(question: Question) -> Effect:
        return allow(question) if b'"test"' in question.resource.properties else deny(question)

    policy = InMemoryPolicy({"refund.create": refund, "ticket.delete": ticket, "mes.takt_time": allow})

    async def resolve(review_id: str) -> None:
        (call_id,) = [name for name, review in policy.reviews.items() if review.id == review_id]
        policy.resolve(call_id, "approved")

    return Case(policy, registry, "acme", resolve)


def terms(question: Question, review_id: str = "") -> Terms:
    return Terms(call_id=question.call_id, skill=question.skill, review_id=review_id)


async def test_a_decision_is_for_the_call_asked_about(case: Case):
    question = case.question("mes.takt_time", name="A")
    decision = await case.client.decide(question)
    assert decision.effect is Effect.ALLOW
    assert decision.call_id == question.call_id
    assert decision.id.startswith("dec_")
    assert judge(decision, terms(question)).action is Action.SEND


async def test_a_skill_without_a_rule_is_denied_and_not_visible(case: Case):
    decision = await case.client.decide(case.question("no.rule", name="A"))
    assert decision.effect is Effect.DENY
    skills = [case.skill(name) for name in ("mes.takt_time", "no.rule", "refund.create")]
    assert await case.client.visible(skills) == [True, False, True]
    assert await case.client.visible([]) == []


async def test_what_was_looked_up_decides(case: Case):
    for properties, effect in (
        (b'{"environment":"test"}', Effect.ALLOW),
        (b'{"environment":"production"}', Effect.DENY),
        (b"", Effect.DENY),
    ):
        resource = Resource(type="ticket", id="T-1", properties=properties)
        decision = await case.client.decide(case.question("ticket.delete", resource=resource, ticket_id="T-1"))
        assert decision.effect is effect


async def test_a_review_is_for_one_call_and_action(case: Case):
    question = case.question("refund.create", name="O-1", amount=900)
    first = await case.client.decide(question)
    assert first.effect is Effect.MANUAL_REVIEW
    assert first.obligations is not None
    assert first.obligations.approval
    review_id = await case.client.open_review(question.call_id, question.action_digest, first.id)
    assert await case.client.open_review(question.call_id, question.action_digest, first.id) == review_id
    assert (await case.client.decide(question)).effect is Effect.MANUAL_REVIEW
    await case.resolve(review_id)
    settled = await case.client.decide(question)
    assert (settled.effect, settled.review_id) == (Effect.ALLOW, review_id)
    assert judge(settled, terms(question, review_id)).action is Action.SEND
    other_call = case.question("refund.create", name="O-1", amount=900)
    assert (await case.client.decide(other_call)).effect is Effect.MANUAL_REVIEW
    other_action = case.question("refund.create", question.call_id, name="O-2", amount=900)
    changed = judge(await case.client.decide(other_action), terms(question, review_id))
    assert changed.action is not Action.SEND


async def test_a_question_that_policy_cannot_take_is_no_outage(tmp_path: Path, world: World):
    telemetry = Telemetry(TelemetrySection(span_dir=tmp_path / "spans"), "tool-gateway", SystemClock())
    channels = Channels("tool-gateway", world.services["tool-gateway"], telemetry, GrpcSection())
    write_skills(tmp_path / "skills", *demo_skills())
    registry = load_registry([tmp_path / "skills"], {"UPSTREAM": "127.0.0.1:1"})
    case = Case(GrpcPolicy(channels.open(world.address("policy"), "policy"), 10), registry, world.tenant, None)
    token = dict(world.caller().metadata)["authorization"].removeprefix("Bearer ")
    with subject_token(token), pytest.raises(ArgumentsInvalid):
        await case.client.decide(case.question("mes.takt_time", resource=Resource(type="line", id="\0"), name="A"))
    await channels.close()
    telemetry.shutdown()


async def test_no_answer_is_an_error_and_no_decision(tmp_path: Path, world: World):
    telemetry = Telemetry(TelemetrySection(span_dir=tmp_path / "spans"), "tool-gateway", SystemClock())
    channels = Channels("tool-gateway", world.services["tool-gateway"], telemetry, GrpcSection())
    write_skills(tmp_path / "skills", *demo_skills())
    registry = load_registry([tmp_path / "skills"], {"UPSTREAM": "127.0.0.1:1"})
    for client in (GrpcPolicy(channels.open("127.0.0.1:1", "policy"), 0.5), InMemoryPolicy(down=True)):
        case = Case(client, registry, "acme", None)
        question = case.question("mes.takt_time", name="A")
        for answer in (
            client.decide(question),
            client.visible([case.skill("mes.takt_time")]),
            client.open_review(question.call_id, question.action_digest, "dec_1"),
        ):
            with pytest.raises(PolicyUnavailable):
                await answer
    await channels.close()
    telemetry.shutdown()
