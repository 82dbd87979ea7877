"""The tool gateway's part of an evaluation: Decide for many users, and the facts of their sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
from memoryos.policy.v1 import policy_pb2, policy_pb2_grpc
from memoryos_core.canonical import action_digest, canonical_json
from memoryos_core.clock import SystemClock
from memoryos_core.config import load
from memoryos_core.ids import UlidSource
from memoryos_core.scope import Scope
from memoryos_core.sections import ALL_SECTIONS, SealingSection
from memoryos_core.tokens import EDGE_AUDIENCE, Identity, TokenSigner
from memoryos_postgres import Database, PostgresSection, roles
from memoryos_postgres.keyring import PostgresKeyRing, load_epoch_key
from memoryos_postgres.session_facts import Fact, note, note_said
from memoryos_testing.stack import Stack

from evals.agent_sessions import Step
from evals.policy_vectors import Vector

TENANT: Final = "eval"
_DIGEST: Final = "0" * 64
_TIMEOUT_S: Final = 60.0
_EFFECTS: Final = {
    policy_pb2.EFFECT_ALLOW: "allow",
    policy_pb2.EFFECT_DENY: "deny",
    policy_pb2.EFFECT_MANUAL_REVIEW: "manual_review",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What Decide said: allow, deny or manual_review, and the codes of its reasons."""

    effect: str
    codes: tuple[str, ...]


class Decider:
    """Asks Decide as the gateway does, and writes down what sessions saw, as gateway and harness do."""

    def __init__(self, stack: Stack, channel: grpc.aio.Channel, database: Database, keyring: PostgresKeyRing) -> None:
        clock, self._ids = SystemClock(), UlidSource()
        self._stub = policy_pb2_grpc.PolicyStub(channel)
        self._issuer = TokenSigner.load(stack.folder / "keys" / "dev.pem", clock, self._ids)
        self._service = TokenSigner.load(stack.folder / "keys" / "tool-gateway.pem", clock, self._ids)
        self._database = database
        self._keyring = keyring

    @classmethod
    @asynccontextmanager
    async def connected(cls, stack: Stack) -> AsyncIterator[Decider]:
        """Give one for a running deployment."""
        config = load(
            [PostgresSection, SealingSection],
            file=stack.folder / "run" / "config.yaml",
            environ={},
            known=ALL_SECTIONS,
        )
        keyring = PostgresKeyRing(load_epoch_key(config[SealingSection].epoch_key_file))
        section = config[PostgresSection].model_copy(update={"pool_size": 2})
        async with (
            Database(section, roles.HARNESS) as database,
            grpc.aio.insecure_channel(stack.addresses["policy"]) as channel,
        ):
            yield cls(stack, channel, database, keyring)

    async def vector(self, vector: Vector) -> Answer:
        """Ask about one vector."""
        identity = _identity(vector.user, groups=vector.groups)
        action = policy_pb2.Action(
            effect_class=policy_pb2.EffectClass.Value(f"EFFECT_CLASS_{vector.effect_class}"),
            egress=policy_pb2.EGRESS_NONE,
        )
        resource = policy_pb2.Resource(
            type=vector.resource_type, id=vector.resource_id, properties_json=canonical_json(dict(vector.properties))
        )
        return await self._ask(identity, vector.skill, action, vector.arguments, resource)

    async def session(self, goal: str) -> Identity:
        """Begin a session whose user has said `goal`, and give who acts in it: an agent of that user."""
        session_id = self._ids.new("ses")
        user = _identity("emma", session_id=session_id)
        async with self._database.scoped(Scope.of(user)) as tx:
            keys = await self._keyring.tenant_keys(tx, TENANT)
            note_said(tx, Scope.of(user), keys, session_id=session_id, message_id=self._ids.new("msg"), text=goal)
        return _identity("emma", session_id=session_id, chain=("assistant",))

    async def step(self, session: Identity, step: Step, *, reads_content: bool = False) -> Answer:
        """Ask about one call; with `reads_content`, what it gives back is untrusted from then on."""
        tool = step.tool
        effect_class = policy_pb2.EFFECT_CLASS_READ if tool.reads else policy_pb2.EFFECT_CLASS_NON_IDEMPOTENT
        action = policy_pb2.Action(
            effect_class=effect_class,
            destructive=tool.destructive,
            egress=policy_pb2.Egress.Value(f"EGRESS_{tool.egress.upper()}"),
            recipients=tool.recipients,
            intents=tool.intents,
            returns=["untrusted"] if tool.reads else [],
        )
        answer = await self._ask(session, tool.skill, action, step.arguments, None)
        if reads_content and tool.reads:
            scope = Scope.of(session)
            async with self._database.scoped(scope) as tx:
                note(tx, scope, [Fact.UNTRUSTED_CONTENT], source=f"skill:{tool.skill}")
        return answer

    async def _ask(
        self,
        identity: Identity,
        skill: str,
        action: policy_pb2.Action,
        arguments: Mapping[str, Any],
        resource: policy_pb2.Resource | None,
    ) -> Answer:
        canonical = canonical_json(dict(arguments))
        action.MergeFrom(
            policy_pb2.Action(
                skill=skill,
                version="1",
                definition_digest=_DIGEST,
                risk="medium",
                opened=True,
                identity=policy_pb2.UPSTREAM_IDENTITY_USER,
            )
        )
        request = policy_pb2.DecideRequest(
            purpose=policy_pb2.PURPOSE_CALL,
            action=action,
            resource=resource,
            arguments_json=canonical,
            action_digest=action_digest(
                tenant=identity.tenant,
                user=identity.user,
                chain=identity.chain,
                skill=skill,
                version="1",
                definition_digest=_DIGEST,
                arguments=canonical,
            ),
            context=policy_pb2.CallContext(call_id=self._ids.new("call"), attempt=1),
        )
        token = self._issuer.subject(identity, audience=[EDGE_AUDIENCE], ttl_s=600)
        metadata = (
            ("authorization", f"Bearer {token}"),
            ("x-memoryos-service-token", self._service.service("policy")),
        )
        decision = (await self._stub.Decide(request, metadata=metadata, timeout=_TIMEOUT_S)).decision
        codes = tuple(reason.code for reason in decision.reasons)
        if any(code.startswith("policy_") for code in codes):
            raise RuntimeError(f"no rule has spoken: {', '.join(codes)}")
        return Answer(_EFFECTS[decision.effect], codes)


def _identity(
    user: str, *, groups: tuple[str, ...] = (), session_id: str = "", chain: tuple[str, ...] = ()
) -> Identity:
    """Give a user with the roles of one, and of an auditor, who is shown reasons."""
    return Identity(
        tenant=TENANT,
        user=user,
        roles=frozenset({"user", "auditor"}),
        groups=frozenset(groups),
        session_id=session_id,
        chain=chain,
    )
