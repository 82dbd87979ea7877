"""A real gRPC server over in-memory adapters of the four APIs, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from memoryos.harness.v1 import sessions_pb2, sessions_pb2_grpc, tasks_pb2, tasks_pb2_grpc
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2, memoryfs_pb2_grpc
from memoryos.policy.v1 import policy_pb2, policy_pb2_grpc, reviews_pb2, reviews_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2, tool_gateway_pb2_grpc
from memoryos_sdk import Client, Retry, connect
from memoryos_testing.servicers import completed

SHORT = Retry(first_pause_s=0.001)
"""As many attempts as ever, without the waiting."""

Failure = Callable[[Any], Awaitable[None]]


def status_of(code: grpc.StatusCode, message: str, *details: Any) -> tuple[tuple[str, bytes], ...]:
    """Trailers with google.rpc.Status, as services send it."""
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return (("grpc-status-details-bin", status.SerializeToString()),)


async def _nothing(services: Any, request: Any, context: Any, empty: Any) -> Any:
    await services._enter(request, context)
    return empty


@completed("memoryos.toolgateway.v1.ToolGateway", _nothing)
@completed("memoryos.policy.v1.Policy", _nothing)
@completed("memoryos.policy.v1.Reviews", _nothing)
class Services(
    memoryfs_pb2_grpc.MemoryFSServicer,
    tool_gateway_pb2_grpc.ToolGatewayServicer,
    tasks_pb2_grpc.TasksServicer,
    sessions_pb2_grpc.SessionsServicer,
    policy_pb2_grpc.PolicyServicer,
    reviews_pb2_grpc.ReviewsServicer,
):
    """Answers from memory, keeps every request, and fails on demand before it does anything."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.metadata: list[dict[str, str]] = []
        self.failures: list[Failure] = []
        self.items: dict[str, item_pb2.Item] = {}
        self.events: list[tuple[int, Any]] = []
        """Sequence and state of task events; the state None closes the stream there, once."""
        self.states: list[Any] = []
        """States that the watched call goes through; None closes the stream there, once."""

    async def _enter(self, request: Any, context: Any) -> None:
        self.requests.append(type(request).FromString(request.SerializeToString()))
        self.metadata.append(dict(context.invocation_metadata()))
        if self.failures:
            await self.failures.pop(0)(context)

    async def Write(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        answer = memoryfs_pb2.WriteResponse()
        for entry in request.entries:
            name = entry.id or f"mem_{len(self.items):026d}"
            self.items[name] = item_pb2.Item(
                id=name,
                path=request.path,
                content=entry.content,
                user=entry.user,
                tags=entry.tags,
                attributes_json=entry.attributes_json,
                confidence=entry.confidence,
                state=item_pb2.STATE_ACTIVE,
                revision=1,
                valid_from=entry.valid_from if entry.HasField("valid_from") else None,
            )
            answer.results.add(
                id=name, revision=1, etag="e1", state=item_pb2.STATE_ACTIVE, embed_state=item_pb2.EMBED_STATE_DONE
            )
        return answer

    async def Read(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        hits = [memoryfs_pb2.Hit(item=item, score=0.5) for item in list(self.items.values())[: request.top_k]]
        return memoryfs_pb2.ReadResponse(hits=hits, exactness=memoryfs_pb2.EXACTNESS_EXACT)

    async def Get(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        if request.id not in self.items:
            info = error_details_pb2.ErrorInfo(reason="ITEM_NOT_FOUND", domain="memoryos", metadata={"id": request.id})
            trailers = status_of(grpc.StatusCode.NOT_FOUND, "No such item.", info)
            await context.abort(grpc.StatusCode.NOT_FOUND, "No such item.", trailers)
        return memoryfs_pb2.GetResponse(item=self.items[request.id])

    async def List(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        start = int(request.page_token or 0)
        end = start + request.page_size
        found = list(self.items.values())
        return memoryfs_pb2.ListResponse(items=found[start:end], next_page_token=str(end) if end < len(found) else "")

    async def Forget(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        return lifecycle_pb2.ForgetResponse(
            forgotten_count=sum(self.items.pop(i, None) is not None for i in request.ids)
        )

    async def CallSkill(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        call = tool_gateway_pb2.Call(
            id="call_1",
            skill=request.skill,
            state=tool_gateway_pb2.CALL_STATE_SUCCEEDED,
            result_json=request.arguments_json,
        )
        return tool_gateway_pb2.CallSkillResponse(call=call)

    async def GetCall(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        call = tool_gateway_pb2.Call(
            id=request.id,
            state=tool_gateway_pb2.CALL_STATE_SUCCEEDED,
            result_json=b'{"truncated":true}',
            dispatches=2,
            fallback=True,
            full_result_bytes=16,
            full_result_sha256="ab",
            rewritten=True,
        )
        return tool_gateway_pb2.GetCallResponse(call=call, full_result=b'{"rows":[1,2,3]}' * request.full_result)

    async def ListCalls(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        if request.page_token == "":
            return tool_gateway_pb2.ListCallsResponse(next_page_token="2")
        return tool_gateway_pb2.ListCallsResponse(calls=[tool_gateway_pb2.Call(id="call_1", skill=request.skill)])

    async def WatchCall(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self._enter(request, context)
        yield tool_gateway_pb2.WatchCallResponse(call=tool_gateway_pb2.Call(id=request.id, state=self.states[0]))
        for state in self.states[1:]:
            if state is None:
                del self.states[: self.states.index(None) + 1]
                return
            yield tool_gateway_pb2.WatchCallResponse(call=tool_gateway_pb2.Call(id=request.id, state=state))

    async def CancelCall(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        call = tool_gateway_pb2.Call(id=request.id or "call_new", state=tool_gateway_pb2.CALL_STATE_CANCELLED)
        return tool_gateway_pb2.CancelCallResponse(call=call, proof=tool_gateway_pb2.CANCEL_PROOF_NOT_SENT)

    async def ReconcileCall(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        state = {
            tool_gateway_pb2.RECONCILE_OUTCOME_HAPPENED: tool_gateway_pb2.CALL_STATE_SUCCEEDED,
            tool_gateway_pb2.RECONCILE_OUTCOME_DID_NOT_HAPPEN: tool_gateway_pb2.CALL_STATE_FAILED,
        }.get(request.outcome, tool_gateway_pb2.CALL_STATE_UNKNOWN)
        return tool_gateway_pb2.ReconcileCallResponse(call=tool_gateway_pb2.Call(id=request.id, state=state))

    async def SearchSkills(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        skill = tool_gateway_pb2.Skill(
            name="order.delete",
            effect_class=policy_pb2.EFFECT_CLASS_NON_IDEMPOTENT,
            egress=policy_pb2.EGRESS_INTERNAL,
            destructive=True,
        )
        hits = [tool_gateway_pb2.SkillHit(skill=skill, score=0.75)]
        return tool_gateway_pb2.SearchSkillsResponse(hits=hits, words_only=True)

    async def GetTask(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        state = next((s for _, s in reversed(self.events) if s is not None), tasks_pb2.TASK_STATE_IDLE)
        return tasks_pb2.GetTaskResponse(task=tasks_pb2.Task(id=request.id, state=state, output="done"))

    async def WatchTask(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self._enter(request, context)
        for index, (sequence, state) in enumerate(self.events):
            if sequence <= request.after_sequence:
                continue
            if state is None:
                del self.events[index]
                return
            yield tasks_pb2.WatchTaskResponse(sequence=sequence, state=state)

    async def SubmitTask(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        made = tasks_pb2.Task(id="task_1", agent=request.agent, priority=request.priority, limits=request.limits)
        return tasks_pb2.SubmitTaskResponse(task=made)

    async def PauseTask(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        return tasks_pb2.PauseTaskResponse(task=tasks_pb2.Task(id=request.id, state=tasks_pb2.TASK_STATE_PAUSED))

    async def ResumeTask(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        return tasks_pb2.ResumeTaskResponse(task=tasks_pb2.Task(id=request.id, state=tasks_pb2.TASK_STATE_RETRY))

    async def RetryTask(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        return tasks_pb2.RetryTaskResponse(task=tasks_pb2.Task(id=request.id, state=tasks_pb2.TASK_STATE_RETRY))

    async def ListTasks(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        found = [tasks_pb2.Task(id=f"task_{request.page_token or 1}", parent_task_id="task_0", depth=1)]
        return tasks_pb2.ListTasksResponse(tasks=found, next_page_token="" if request.page_token else "2")

    async def ListSessions(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        found = [sessions_pb2.Session(id=f"ses_{request.page_token or 1}", user="u")]
        return sessions_pb2.ListSessionsResponse(sessions=found, next_page_token="" if request.page_token else "2")

    async def SearchMessages(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        said = sessions_pb2.Message(id="msg_1", role=sessions_pb2.MESSAGE_ROLE_USER, content=request.query)
        hit = sessions_pb2.MessageHit(session_id="ses_1", message=said, score=0.5)
        return sessions_pb2.SearchMessagesResponse(hits=[hit])

    async def AppendMessages(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        return sessions_pb2.AppendMessagesResponse(messages=request.messages)

    async def GetDecision(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        decision = policy_pb2.Decision(id=request.id, effect=policy_pb2.EFFECT_MANUAL_REVIEW)
        decision.reasons.add(code="above_limit", policy="memoryos.skills", text="Above the limit.")
        decision.obligations.add().approval.CopyFrom(
            policy_pb2.ApprovalObligation(group="finance", quorum=1, expires_in=Duration(seconds=60))
        )
        return policy_pb2.GetDecisionResponse(decision=decision)

    async def ListDecisions(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        if request.page_token == "":
            return policy_pb2.ListDecisionsResponse(next_page_token="2")
        return policy_pb2.ListDecisionsResponse(decisions=[policy_pb2.Decision(id="dec_1", input_json=b'{"args":{}}')])

    async def WatchDecisions(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self._enter(request, context)
        yield policy_pb2.WatchDecisionsResponse(position=request.position or "0")
        for number in range(int(request.position or 0) + 1, 5):
            decision = policy_pb2.Decision(id=f"dec_{number}", effect=policy_pb2.EFFECT_DENY)
            yield policy_pb2.WatchDecisionsResponse(decision=decision, position=str(number))
            if number % 2 == 0:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    async def WatchReviews(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self._enter(request, context)
        for number in range(int(request.position or 0) + 1, 5):
            review = reviews_pb2.Review(id=f"rev_{number}", effect_class=policy_pb2.EFFECT_CLASS_KEYED, risk="high")
            yield reviews_pb2.WatchReviewsResponse(review=review, position=str(number))
            if number == 3:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    async def ExplainDecision(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        answer = policy_pb2.ExplainDecisionResponse(same=True, kept=policy_pb2.Decision(id=request.id))
        answer.fired.add(file="memoryos/main/main.rego", line=7, head="allow if")
        return answer

    async def ResolveReview(self, request: Any, context: Any) -> Any:
        await self._enter(request, context)
        review = reviews_pb2.Review(id=request.id, state=reviews_pb2.REVIEW_STATE_APPROVED)
        review.votes.add(reviewer="boss", verdict=request.verdict, comment=request.comment)
        return reviews_pb2.ResolveReviewResponse(review=review)


@pytest.fixture
def services() -> Services:
    return Services()


@pytest.fixture
async def address(services: Services) -> AsyncIterator[str]:
    server = grpc.aio.server()
    for add in (
        memoryfs_pb2_grpc.add_MemoryFSServicer_to_server,
        tool_gateway_pb2_grpc.add_ToolGatewayServicer_to_server,
        tasks_pb2_grpc.add_TasksServicer_to_server,
        sessions_pb2_grpc.add_SessionsServicer_to_server,
        policy_pb2_grpc.add_PolicyServicer_to_server,
        reviews_pb2_grpc.add_ReviewsServicer_to_server,
    ):
        add(services, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


@pytest.fixture
async def client(address: str) -> AsyncIterator[Client]:
    async with connect(
        token="token-a", memoryfs=address, tool_gateway=address, policy=address, harness=address, retry=SHORT
    ) as client:
        yield client
