"""Callers of the services over gRPC, with as little of their own work as can be."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import grpc
import numpy as np
from memoryos.memoryfs.v1 import memoryfs_pb2, memoryfs_pb2_grpc
from memoryos.policy.v1 import policy_pb2, policy_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2, tool_gateway_pb2_grpc
from memoryos_core.canonical import action_digest, canonical_json
from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_core.tokens import TokenSigner
from memoryos_testing.stack import Stack
from numpy.typing import NDArray

from bench.corpus import MODEL, Items

OWNER, READER, GROUP = "owner", "reader", "sales"
TIMEOUT_S: Final = 60.0
_NUMBERS = itertools.count()


def path_of(tenant: str) -> str:
    """Give the place of the bench's items."""
    return f"/tenants/{tenant}/memory/episodic/bench"


class MemoryCaller:
    """One user of one tenant at MemoryFS."""

    def __init__(
        self, stack: Stack, channel: grpc.aio.Channel, tenant: str, user: str, groups: Sequence[str] = ()
    ) -> None:
        self.tenant = tenant
        self._stub = memoryfs_pb2_grpc.MemoryFSStub(channel)
        self._metadata = (("authorization", f"Bearer {stack.token(tenant, user, groups=groups)}"),)

    async def write(self, items: Items, rows: Sequence[int], groups: Sequence[Sequence[str]] = ()) -> list[str]:
        """Write the items of these rows with their vectors in one call; give their ids.

        `groups` says per row who may read it beside its owner; absent: as the corpus says.
        """
        request = memoryfs_pb2.WriteRequest(
            path=path_of(self.tenant),
            request_id=f"bench-{next(_NUMBERS)}",
            entries=[
                _entry(items, row, groups[n] if groups else [GROUP] * bool(items.shared[row]))
                for n, row in enumerate(rows)
            ],
        )
        answer = await self._stub.Write(request, metadata=self._metadata, timeout=TIMEOUT_S)
        return [result.id for result in answer.results]

    async def get(self, item_id: str) -> str:
        """Get one item; give its content."""
        request = memoryfs_pb2.GetRequest(id=item_id)
        answer = await self._stub.Get(request, metadata=self._metadata, timeout=TIMEOUT_S)
        return str(answer.item.content)

    async def read(self, vector: NDArray[np.float32], text: str = "", *, exact: bool = True) -> list[str]:
        """Recall ten items by vector, and by words where `text` is given; give their ids. `exact`: nothing less."""
        request = memoryfs_pb2.ReadRequest(
            path=path_of(self.tenant),
            query=text,
            top_k=10,
            embedding=memoryfs_pb2.Embedding(model=MODEL, values=vector.tolist()),
        )
        answer = await self._stub.Read(request, metadata=self._metadata, timeout=TIMEOUT_S)
        if answer.degradations or (exact and answer.exactness != memoryfs_pb2.EXACTNESS_EXACT):
            raise AssertionError("a read was not exact or not whole")
        return [hit.item.id for hit in answer.hits]

    async def newest(self, count: int) -> list[str]:
        """Give the ids of the newest items: a Read without a query."""
        request = memoryfs_pb2.ReadRequest(path=path_of(self.tenant), top_k=count)
        answer = await self._stub.Read(request, metadata=self._metadata, timeout=TIMEOUT_S)
        return [hit.item.id for hit in answer.hits]


def _entry(items: Items, row: int, groups: Sequence[str]) -> memoryfs_pb2.WriteEntry:
    return memoryfs_pb2.WriteEntry(
        content=items.texts[row],
        readers=[f"group:{group}" for group in groups],
        embedding=memoryfs_pb2.Embedding(model=MODEL, values=items.vectors[row].tolist()),
    )


class DecisionCaller:
    """The tool-gateway at Policy, on behalf of an agent of a user."""

    def __init__(self, stack: Stack, channel: grpc.aio.Channel, skill: str, arguments: dict[str, Any]) -> None:
        clock, ids = SystemClock(), UlidSource()
        self._ids = ids
        self._skill = skill
        self._arguments = arguments
        self._stub = policy_pb2_grpc.PolicyStub(channel)
        self._token = stack.token("bench0", OWNER, roles=("agent",))
        self._service = TokenSigner.load(stack.folder / "keys" / "tool-gateway.pem", clock, ids)

    async def decide(self) -> None:
        """Ask for a decision on one call."""
        metadata = (
            ("authorization", f"Bearer {self._token}"),
            ("x-memoryos-service-token", self._service_token()),
        )
        arguments = canonical_json(self._arguments)
        request = policy_pb2.DecideRequest(
            purpose=policy_pb2.PURPOSE_CALL,
            action=policy_pb2.Action(
                skill=self._skill,
                version="1",
                definition_digest=_DIGEST,
                permissions=["write"],
                risk="low",
                effect_class=policy_pb2.EFFECT_CLASS_KEYED,
                opened=True,
                egress=policy_pb2.EGRESS_INTERNAL,
            ),
            arguments_json=arguments,
            action_digest=action_digest(
                tenant="bench0",
                user=OWNER,
                chain=(),
                skill=self._skill,
                version="1",
                definition_digest=_DIGEST,
                arguments=arguments,
            ),
            context=policy_pb2.CallContext(call_id=self._ids.new("call"), attempt=1),
        )
        answer = await self._stub.Decide(request, metadata=metadata, timeout=TIMEOUT_S)
        if answer.decision.effect != policy_pb2.EFFECT_ALLOW:
            raise AssertionError("a decision failed")

    def _service_token(self) -> str:
        """Give one token for 30 s, as a service's client does."""
        now = datetime.now(UTC).timestamp()
        if now > getattr(self, "_until", 0.0):
            self._until = now + 30
            self._kept = self._service.service("policy")
        return self._kept

    def document(self) -> dict[str, Any]:
        """Give the input that the policy service makes of such a question."""
        return {
            "version": 1,
            "purpose": "call",
            "subject": {"tenant": "bench0", "user": OWNER, "roles": ["agent"], "groups": [], "clearance": 0},
            "actor": {"chain": [], "service": "tool-gateway"},
            "action": {
                "skill": self._skill,
                "version": "1",
                "definition_digest": _DIGEST,
                "permissions": ["write"],
                "effect_class": "keyed",
                "risk": "low",
                "opened": True,
                "egress": "internal",
                "destructive": False,
                "returns": [],
                "identity": "none",
                "recipients": [],
                "sensitive_arguments": [],
            },
            "resource": {"type": "", "id": "", "properties": {}},
            "args": self._arguments,
            "action_digest": "d" * 64,
            "context": {
                "call_id": self._ids.new("call"),
                "attempt": 1,
                "session_id": "",
                "task_id": "",
                "time": "2026-01-01T00:00:00.000000Z",
                "review": None,
                "session_facts": {
                    "untrusted_content": False,
                    "personal_data": False,
                    "sources": [],
                    "said": [],
                    "named": [],
                    "asked": False,
                },
            },
        }


class SkillCaller:
    """An agent of a user at the tool gateway."""

    def __init__(self, stack: Stack, channel: grpc.aio.Channel, skill: str, arguments: dict[str, Any]) -> None:
        self._stub = tool_gateway_pb2_grpc.ToolGatewayStub(channel)
        self._metadata = (("authorization", f"Bearer {stack.token('bench0', OWNER, roles=('agent',))}"),)
        self._skill = skill
        self._arguments = canonical_json(arguments)

    async def call(self) -> None:
        """Make a call that succeeds."""
        request = tool_gateway_pb2.CallSkillRequest(
            skill=self._skill, arguments_json=self._arguments, request_id=f"bench-{next(_NUMBERS)}"
        )
        answer = await self._stub.CallSkill(request, metadata=self._metadata, timeout=TIMEOUT_S)
        if answer.call.state != tool_gateway_pb2.CALL_STATE_SUCCEEDED:
            raise AssertionError(f"a call did not succeed: {answer.call.error_code}")


_DIGEST: Final = hashlib.sha256(b"bench").hexdigest()
