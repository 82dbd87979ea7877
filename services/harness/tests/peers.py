"""In-memory adapters of the harness's ports, and the same over gRPC. They pass the contract suites of the ports."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from memoryos.memoryfs.v1 import bindings_pb2, item_pb2, memoryfs_pb2, memoryfs_pb2_grpc
from memoryos.policy.v1 import reviews_pb2, reviews_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2, tool_gateway_pb2_grpc
from memoryos_core.canonical import parse_json
from memoryos_core.errors import Code, DependencyUnavailable, InvalidField, MemoryOSError, NotAllowed
from memoryos_core.ids import UlidSource
from memoryos_core.paths import MemoryPath
from memoryos_core.tokens import Identity
from memoryos_grpc import caller
from memoryos_harness.domain.outcomes import CallOutcome, CallOutcomeKind
from memoryos_harness.domain.tasks import CallIds
from memoryos_harness.errors import LeaseLost
from memoryos_harness.ports import RecalledItem, Skill
from memoryos_testing.servicers import completed

IDS = UlidSource()
Verify = Callable[[str], Identity]


@dataclass
class KeptCall:
    """A row of the fake journal."""

    skill: str
    arguments: bytes
    outcome: CallOutcome
    identity: Identity


@dataclass
class InMemoryTools:
    """A ToolBox with a journal of its own: the same request id is the same call.

    Skills: mes.takt answers; ticket.delete is refused; refund.pay waits until
    `approve` or `deny` is called; mail.send loses its answer (UNKNOWN);
    slow.report is in flight for `slow_looks` looks.
    """

    verify: Verify
    effects: Counter = field(default_factory=Counter)
    calls: dict[str, KeptCall] = field(default_factory=dict)
    approved: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    epochs: dict[str, int] = field(default_factory=dict)
    running: dict[str, asyncio.Future] = field(default_factory=dict)
    looks: Counter = field(default_factory=Counter)
    identities: list[Identity] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    down: bool = False
    slow_looks: int = 3
    shut_after: int | None = None
    """When set, a call is refused at the door once it was looked at so often."""
    hold: asyncio.Event | None = None
    """When set, an effect waits for it."""
    failing: dict[str, list[str]] = field(default_factory=dict)
    """By skill, codes that its next calls fail with: for certain, before any effect."""

    names = ("mes.takt", "ticket.delete", "refund.pay", "mail.send", "slow.report")

    async def list_skills(self, token: str) -> tuple[Skill, ...]:
        self.identities.append(self.verify(token))
        if self.down:
            raise DependencyUnavailable
        schema = {"type": "object", "properties": {"line": {"type": "string"}}}
        return tuple(
            Skill(name=name, description=f"does {name}", parameters=schema)
            for name in self.names
            if name not in self.hidden
        )

    async def call_skill(
        self, token: str, *, skill: str, arguments: bytes, request_id: str, lease_epoch: int
    ) -> CallOutcome:
        identity = self.verify(token)
        self.identities.append(identity)
        if self.down:
            raise DependencyUnavailable
        if lease_epoch < self.epochs.get(identity.task_id, 0):
            raise LeaseLost
        self.epochs[identity.task_id] = lease_epoch
        self.looks[request_id] += 1
        if self.shut_after is not None and self.looks[request_id] > self.shut_after:
            return CallOutcome(kind=CallOutcomeKind.REFUSED, code="NOT_ALLOWED", at_the_door=True)
        if skill not in self.names:
            return CallOutcome(kind=CallOutcomeKind.INVALID, message="There is no tool of this name.")
        try:
            parsed = parse_json(arguments, max_bytes=262144)
        except InvalidField:
            return CallOutcome(kind=CallOutcomeKind.INVALID, message="not JSON")
        if not isinstance(parsed, dict) or any(not isinstance(value, str) for value in parsed.values()):
            return CallOutcome(kind=CallOutcomeKind.INVALID, message="/line: must be a string")
        kept = self.calls.get(request_id)
        if kept is not None and kept.outcome.ended:
            return kept.outcome
        ids = kept.outcome.ids if kept else CallIds(call_id=IDS.new("call"), decision_id=IDS.new("dec"))
        if kept is not None and request_id in self.running:
            return kept.outcome
        # As the gateway does: journaled before it is sent, and a caller that goes away does not stop it.
        self.calls[request_id] = KeptCall(
            skill, arguments, CallOutcome(kind=CallOutcomeKind.IN_FLIGHT, ids=ids), identity
        )
        self.running[request_id] = asyncio.ensure_future(self._run(skill, request_id, parsed, ids))
        return await asyncio.shield(self.running[request_id])

    async def _run(self, skill: str, request_id: str, arguments: dict[str, Any], ids: CallIds) -> CallOutcome:
        try:
            outcome = await self._outcome(skill, request_id, arguments, ids)
            self.calls[request_id] = replace(self.calls[request_id], outcome=outcome)
            return outcome
        finally:
            del self.running[request_id]

    async def _outcome(self, skill: str, request_id: str, arguments: dict[str, Any], ids: CallIds) -> CallOutcome:
        if self.failing.get(skill):
            code = self.failing[skill].pop(0)
            return CallOutcome(kind=CallOutcomeKind.FAILED, code=code, message="Nothing was done.", ids=ids)
        match skill:
            case "ticket.delete":
                return CallOutcome(kind=CallOutcomeKind.REFUSED, message="This ticket may not be deleted.", ids=ids)
            case "mail.send":
                await self._effect(skill, request_id)
                return CallOutcome(kind=CallOutcomeKind.UNKNOWN, code="contact_lost", ids=ids)
            case "refund.pay" if request_id in self.denied:
                return CallOutcome(kind=CallOutcomeKind.REFUSED, message="A person refused this.", ids=ids)
            case "refund.pay" if request_id not in self.approved:
                parked = CallIds(call_id=ids.call_id, decision_id=ids.decision_id, review_id=IDS.new("rev"))
                ids = ids if ids.review_id else parked
                return CallOutcome(kind=CallOutcomeKind.PARKED, ids=ids)
            case "slow.report" if self.looks[request_id] <= self.slow_looks:
                return CallOutcome(kind=CallOutcomeKind.IN_FLIGHT, ids=ids)
        await self._effect(skill, request_id)
        return CallOutcome(kind=CallOutcomeKind.SUCCEEDED, result={"takt_s": 42, "asked": arguments}, ids=ids)

    async def _effect(self, skill: str, request_id: str) -> None:
        self.effects[skill] += 1
        if self.hold is not None:
            await self.hold.wait()

    @property
    def parked(self) -> list[str]:
        """Request ids that wait for a person."""
        return [name for name, kept in self.calls.items() if kept.outcome.kind is CallOutcomeKind.PARKED]


@dataclass
class InMemoryMemory:
    """A MemoryReader over a list of (path, item)."""

    verify: Verify
    items: list[tuple[str, RecalledItem]] = field(default_factory=list)
    reads: int = 0
    down: bool = False
    bound: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    """Read and write paths by task."""
    binding_ids: dict[str, str] = field(default_factory=dict)
    """Task by name of its binding."""
    unbound: list[str] = field(default_factory=list)
    """Tasks whose binding was ended."""
    written: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """Path and texts by the request that wrote them."""

    async def bind(self, token: str, *, task_id: str, read, write, ttl_s: float) -> str:
        identity = self.verify(token)
        if self.down:
            raise DependencyUnavailable
        if identity.task_id != task_id:
            raise NotAllowed
        known = [name for name, task in self.binding_ids.items() if task == task_id]
        binding_id = known[0] if known else IDS.new("bind")
        self.bound[task_id], self.binding_ids[binding_id] = (tuple(read), tuple(write)), task_id
        return binding_id

    async def put(self, token: str, *, path: str, texts, request_id: str) -> tuple[str, ...]:
        identity = self.verify(token)
        if self.down:
            raise DependencyUnavailable
        places = [*(identity.write_paths or ()), *self.bound.get(identity.task_id, ((), ()))[1]]
        if sum(MemoryPath.parse(place).contains(MemoryPath.parse(path)) for place in places) < 2:
            raise NotAllowed
        assert self.written.setdefault(request_id, (path, tuple(texts))) == (path, tuple(texts))
        return tuple(f"mem_{request_id[5:-2]}{number:02}" for number in range(len(texts)))

    async def unbind(self, token: str, binding_id: str) -> None:
        self.verify(token)
        if self.down:
            raise DependencyUnavailable
        task_id = self.binding_ids.pop(binding_id, "")
        if self.bound.pop(task_id, None):
            self.unbound.append(task_id)

    async def recall(
        self, token: str, *, path: str, query: str, top_k: int, min_score: float
    ) -> tuple[RecalledItem, ...]:
        identity = self.verify(token)
        self.reads += 1
        if self.down:
            raise DependencyUnavailable
        place = MemoryPath.parse(path)
        ceiling = identity.read_paths
        if place.tenant != identity.tenant or (
            ceiling is not None and not any(MemoryPath.parse(top).contains(place) for top in ceiling)
        ):
            raise NotAllowed
        found = [item for where, item in self.items if place.contains(MemoryPath.parse(where))]
        found = [item for item in found if item.score >= min_score]
        return tuple(sorted(found, key=lambda item: (-item.score, item.id))[:top_k])


class _Invalid(MemoryOSError):
    """The arguments break the schema."""

    code = Code.INVALID_ARGUMENT
    reason = "ARGUMENTS_INVALID"


class _Fenced(MemoryOSError):
    """A newer epoch was seen."""

    code = Code.ABORTED
    reason = "EPOCH_FENCED"


_STATES = {
    CallOutcomeKind.SUCCEEDED: tool_gateway_pb2.CALL_STATE_SUCCEEDED,
    CallOutcomeKind.FAILED: tool_gateway_pb2.CALL_STATE_FAILED,
    CallOutcomeKind.REFUSED: tool_gateway_pb2.CALL_STATE_DENIED,
    CallOutcomeKind.UNKNOWN: tool_gateway_pb2.CALL_STATE_UNKNOWN,
    CallOutcomeKind.PARKED: tool_gateway_pb2.CALL_STATE_PARKED,
    CallOutcomeKind.IN_FLIGHT: tool_gateway_pb2.CALL_STATE_DISPATCHED,
}


async def _not_here(servicer, request, context, empty):
    raise DependencyUnavailable


@completed("memoryos.toolgateway.v1.ToolGateway", _not_here)
class FakeGateway(tool_gateway_pb2_grpc.ToolGatewayServicer):
    """InMemoryTools over gRPC, behind the real interceptors."""

    def __init__(self, tools: InMemoryTools) -> None:
        self.tools = tools

    async def ListSkills(self, request: tool_gateway_pb2.ListSkillsRequest, context: grpc.aio.ServicerContext):
        skills = await self.tools.list_skills(caller().subject_token)
        return tool_gateway_pb2.ListSkillsResponse(
            skills=[
                tool_gateway_pb2.Skill(
                    name=s.name, description=s.description, parameters_json=json.dumps(s.parameters).encode()
                )
                for s in skills
            ]
        )

    async def CallSkill(self, request: tool_gateway_pb2.CallSkillRequest, context: grpc.aio.ServicerContext):
        try:
            outcome = await self.tools.call_skill(
                caller().subject_token,
                skill=request.skill,
                arguments=request.arguments_json,
                request_id=request.request_id,
                lease_epoch=request.lease_epoch,
            )
        except LeaseLost:
            raise _Fenced from None
        if outcome.at_the_door:
            raise NotAllowed
        if outcome.kind is CallOutcomeKind.INVALID:
            raise _Invalid(outcome.message)
        return tool_gateway_pb2.CallSkillResponse(
            call=tool_gateway_pb2.Call(
                id=outcome.ids.call_id,
                skill=request.skill,
                state=_STATES[outcome.kind],
                result_json=json.dumps(outcome.result).encode() if outcome.result is not None else b"",
                error_code=outcome.code,
                agent_message=outcome.message,
                decision_id=outcome.ids.decision_id,
                review_id=outcome.ids.review_id,
            )
        )


@dataclass
class InMemoryReviews:
    """The reviews that InMemoryTools waits for."""

    tools: InMemoryTools
    looks: int = 0
    down: bool = False

    async def is_pending(self, token: str, review_id: str) -> bool:
        self.tools.verify(token)
        self.looks += 1
        if self.down:
            return False
        waiting = {kept.outcome.ids.review_id: request_id for request_id, kept in self.tools.calls.items()}
        request_id = waiting.get(review_id)
        return request_id is not None and request_id not in self.tools.approved | self.tools.denied


@completed("memoryos.policy.v1.Reviews", _not_here)
class FakeReviews(reviews_pb2_grpc.ReviewsServicer):
    """InMemoryReviews over gRPC, behind the real interceptors."""

    def __init__(self, reviews: InMemoryReviews) -> None:
        self.reviews = reviews

    async def GetReview(self, request: reviews_pb2.GetReviewRequest, context: grpc.aio.ServicerContext):
        pending = await self.reviews.is_pending(caller().subject_token, request.id)
        state = reviews_pb2.REVIEW_STATE_PENDING if pending else reviews_pb2.REVIEW_STATE_APPROVED
        review = reviews_pb2.Review(id=request.id, state=state)
        review.expire_time.FromDatetime(datetime.now(UTC) + timedelta(hours=1))
        return reviews_pb2.GetReviewResponse(review=review)


@completed("memoryos.memoryfs.v1.MemoryFS", _not_here)
class FakeMemoryFS(memoryfs_pb2_grpc.MemoryFSServicer):
    """InMemoryMemory over gRPC, behind the real interceptors."""

    def __init__(self, memory: InMemoryMemory) -> None:
        self.memory = memory

    async def Bind(self, request: bindings_pb2.BindRequest, context: grpc.aio.ServicerContext):
        asked = request.binding
        binding_id = await self.memory.bind(
            caller().subject_token,
            task_id=asked.task_id,
            read=asked.read_paths,
            write=asked.write_paths,
            ttl_s=request.ttl.seconds,
        )
        return bindings_pb2.BindResponse(binding=bindings_pb2.Binding(id=binding_id))

    async def Unbind(self, request: bindings_pb2.UnbindRequest, context: grpc.aio.ServicerContext):
        await self.memory.unbind(caller().subject_token, request.id)
        return bindings_pb2.UnbindResponse()

    async def Write(self, request: memoryfs_pb2.WriteRequest, context: grpc.aio.ServicerContext):
        ids = await self.memory.put(
            caller().subject_token,
            path=request.path,
            texts=[entry.content for entry in request.entries],
            request_id=request.request_id,
        )
        return memoryfs_pb2.WriteResponse(results=[memoryfs_pb2.WriteResult(id=item_id) for item_id in ids])

    async def Read(self, request: memoryfs_pb2.ReadRequest, context: grpc.aio.ServicerContext):
        found = await self.memory.recall(
            caller().subject_token,
            path=request.path,
            query=request.query,
            top_k=request.top_k,
            min_score=request.min_score,
        )
        return memoryfs_pb2.ReadResponse(
            hits=[
                memoryfs_pb2.Hit(
                    item=item_pb2.Item(
                        id=item.id,
                        content=item.content,
                        trust=item_pb2.TRUST_TRUSTED if item.trusted else item_pb2.TRUST_UNTRUSTED,
                    ),
                    score=item.score,
                )
                for item in found
            ]
        )
