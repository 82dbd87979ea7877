"""Nobody reaches what is another's, by any RPC: another user of the tenant, or a namesake in another tenant."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
import pytest
from memoryos.erasure.v1 import erasure_pb2, erasure_pb2_grpc
from memoryos.harness.v1 import (
    agents_pb2,
    agents_pb2_grpc,
    sessions_pb2_grpc,
    tasks_pb2_grpc,
    tokens_pb2,
    tokens_pb2_grpc,
)
from memoryos.harness.v1 import sessions_pb2 as sessions
from memoryos.harness.v1 import tasks_pb2 as tasks
from memoryos.jobs.v1 import jobs_pb2, jobs_pb2_grpc
from memoryos.memoryfs.v1 import (
    admin_pb2,
    bindings_pb2,
    lifecycle_pb2,
    memoryfs_pb2_grpc,
    namespace_pb2,
    snapshots_pb2,
    transfer_pb2,
)
from memoryos.memoryfs.v1 import memoryfs_pb2 as memory
from memoryos.policy.v1 import policy_pb2 as policy
from memoryos.policy.v1 import policy_pb2_grpc, reviews_pb2_grpc
from memoryos.policy.v1 import reviews_pb2 as reviews
from memoryos.toolgateway.v1 import tool_gateway_pb2 as gateway
from memoryos.toolgateway.v1 import tool_gateway_pb2_grpc
from memoryos_grpc.methods import METHOD_RULES

from .conftest import World

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]
EPISODIC = "/tenants/acme/memory/episodic"
SECRET = "the secret of u-owner is 7Q4-zebra"
NOT_FOUND, DENIED, INVALID, UNAUTHENTICATED = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
)
STUBS = {
    "MemoryFS": ("memoryfs", memoryfs_pb2_grpc.MemoryFSStub),
    "Jobs": ("memoryfs", jobs_pb2_grpc.JobsStub),
    "Erasure": ("harness", erasure_pb2_grpc.ErasureStub),
    "Policy": ("policy", policy_pb2_grpc.PolicyStub),
    "Reviews": ("policy", reviews_pb2_grpc.ReviewsStub),
    "ToolGateway": ("tool_gateway", tool_gateway_pb2_grpc.ToolGatewayStub),
    "Sessions": ("harness", sessions_pb2_grpc.SessionsStub),
    "Tasks": ("harness", tasks_pb2_grpc.TasksStub),
    "Agents": ("harness", agents_pb2_grpc.AgentsStub),
    "Tokens": ("harness", tokens_pb2_grpc.TokensStub),
}


def fresh() -> str:
    return uuid.uuid4().hex


async def own(world: World, owned: dict[str, str]) -> dict[str, str]:
    """Let u-owner have one of everything that has a name."""
    if owned:
        return owned
    client = world.client("u-owner")
    item = await client.memory.write(f"{EPISODIC}/u-owner", content=SECRET, meta={"user": "u-owner"})
    forgotten = await client.memory.write(f"{EPISODIC}/u-owner", content=SECRET + " once")
    await client.memory.forget(EPISODIC, id=forgotten.id)
    snapshot = await client.memory.create_snapshot(f"{EPISODIC}/u-owner", title=SECRET)
    binding = await client.memory.bind(session="ses-of-owner", read_paths=[f"{EPISODIC}/u-owner"])
    erased = await client.memory.write(f"{EPISODIC}/u-owner", content=SECRET + " to be erased")
    job = await client.memory.purge(path=f"{EPISODIC}/u-owner", ids=[erased.id])
    session = await client.sessions.create()
    await client.sessions.append(session.id, [{"role": "user", "content": SECRET}])
    task = await client.tasks.submit("assistant", session_id=session.id, input=SECRET)
    await client.tasks.wait(task.id, timeout_s=60)
    order = max(world.business.books.orders, key=lambda name: world.business.books.orders[name]["total"])
    request_id = fresh()
    call = await client.tools.call("refund.create", {"order_id": order, "amount": 1500}, request_id=request_id)
    assert call.state == "parked", call
    owned.update(
        item=item.id, forgotten=forgotten.id, session=session.id, task=task.id, call=call.id, request=request_id,
        decision=call.decision_id, review=call.review_id, order=order,
        snapshot=snapshot.id, binding=binding.id, job=job.id,
    )  # fmt: skip
    return owned


Attempt = tuple[Any, set[grpc.StatusCode] | None]


def attempts_on_memory(owned: dict[str, str], path: str, nobody: set[grpc.StatusCode]) -> dict[str, Attempt]:
    """The RPCs of MemoryFS beside the first ones, its jobs and erasure."""
    item, job = owned["item"], owned["job"]
    target = erasure_pb2.Target(user="u-owner")
    manifest = transfer_pb2.ExportManifest(format=1, path=path)
    return {
        "MemoryFS/Stat": (namespace_pb2.StatRequest(path=path, with_children=True), None),
        "MemoryFS/Move": (
            namespace_pb2.MoveRequest(from_path=path, to_path=f"{path}/x", ids=[item], request_id=fresh()), nobody
        ),
        "MemoryFS/Purge": (admin_pb2.PurgeRequest(path=path, ids=[item], request_id=fresh()), nobody),
        "MemoryFS/GetReceipt": (admin_pb2.GetReceiptRequest(job_id=job), nobody),
        "MemoryFS/Merge": (
            lifecycle_pb2.MergeRequest(
                path=path, ids=[item, owned["forgotten"]], content="mine", request_id=fresh()
            ),
            nobody,
        ),
        "MemoryFS/Promote": (lifecycle_pb2.PromoteRequest(path=path, id=item, request_id=fresh()), nobody),
        "MemoryFS/Dispute": (lifecycle_pb2.DisputeRequest(path=path, id=item, request_id=fresh()), nobody),
        "MemoryFS/History": (lifecycle_pb2.HistoryRequest(id=item), nobody),
        "MemoryFS/Revert": (lifecycle_pb2.RevertRequest(path=path, id=item, revision=1, request_id=fresh()), nobody),
        "MemoryFS/Lineage": (lifecycle_pb2.LineageRequest(id=item), nobody),
        "MemoryFS/Bind": (
            bindings_pb2.BindRequest(
                binding=bindings_pb2.Binding(session_id="ses-of-owner", read_paths=[path]), request_id=fresh()
            ),
            None,
        ),
        "MemoryFS/Unbind": (bindings_pb2.UnbindRequest(id=owned["binding"], request_id=fresh()), nobody),
        "MemoryFS/ListBindings": (bindings_pb2.ListBindingsRequest(), None),
        "MemoryFS/SetPathSettings": (
            namespace_pb2.SetPathSettingsRequest(
                settings=namespace_pb2.PathSettings(path=path, gate=0.0), request_id=fresh()
            ),
            {DENIED},
        ),
        "MemoryFS/GetPathSettings": (namespace_pb2.GetPathSettingsRequest(path=path), None),
        "MemoryFS/ListPathSettings": (namespace_pb2.ListPathSettingsRequest(path=path), None),
        "MemoryFS/CreateSnapshot": (snapshots_pb2.CreateSnapshotRequest(path=path, request_id=fresh()), None),
        "MemoryFS/ListSnapshots": (snapshots_pb2.ListSnapshotsRequest(path=path), None),
        "MemoryFS/Diff": (snapshots_pb2.DiffRequest(path=path, from_snapshot_id=owned["snapshot"]), nobody),
        "MemoryFS/Rollback": (
            snapshots_pb2.RollbackRequest(path=path, snapshot_id=owned["snapshot"], request_id=fresh()), nobody
        ),
        "MemoryFS/Watch": (transfer_pb2.WatchRequest(path=path, from_start=True), None),
        "MemoryFS/Export": (transfer_pb2.ExportRequest(path=path, with_history=True), None),
        "MemoryFS/Import": (
            transfer_pb2.ImportRequest(
                path=path, manifest=manifest, request_id=fresh(), part=1, lines=b"{}\n", sha256="0" * 64
            ),
            {INVALID},
        ),
        "MemoryFS/Explain": (
            memory.ExplainRequest(
                read=memory.ReadRequest(path=path, query=SECRET),
                principal=memory.ExplainedPrincipal(user="u-owner"),
                expected_ids=[item],
            ),
            {DENIED},
        ),
        "MemoryFS/MigrateIndex": (admin_pb2.MigrateIndexRequest(to=2, step=1, request_id=fresh()), {DENIED}),
        "MemoryFS/VerifyIndex": (admin_pb2.VerifyIndexRequest(repair=True, request_id=fresh()), {DENIED}),
        "MemoryFS/GetIndexStatus": (admin_pb2.GetIndexStatusRequest(), {DENIED}),
        "Jobs/GetJob": (jobs_pb2.GetJobRequest(id=job), nobody),
        "Jobs/ListJobs": (jobs_pb2.ListJobsRequest(), None),
        "Jobs/WatchJob": (jobs_pb2.WatchJobRequest(id=job), nobody),
        "Jobs/CancelJob": (jobs_pb2.CancelJobRequest(id=job), nobody),
        "Erasure/Erase": (erasure_pb2.EraseRequest(target=target, job_id=job), {DENIED, UNAUTHENTICATED}),
        "Erasure/FindRemains": (erasure_pb2.FindRemainsRequest(target=target, job_id=job), {DENIED, UNAUTHENTICATED}),
    }  # fmt: skip


def attempts(owned: dict[str, str]) -> dict[str, Attempt]:
    """Each RPC with a request for what is u-owner's, and how it must end; None: well, but without anything of it."""
    episodic, nobody = f"{EPISODIC}/u-owner", {NOT_FOUND, DENIED}
    entry = memory.WriteEntry(id=owned["item"], content="mine now")
    action = policy.Action(
        skill="refund.create", version="1", definition_digest="0" * 64, effect_class=4, risk="high",
    )  # fmt: skip
    decide = policy.DecideRequest(
        purpose=1, action=action, arguments_json=b"{}", action_digest="0" * 64,
        context=policy.CallContext(call_id=owned["call"]),
    )  # fmt: skip
    return {
        "MemoryFS/Write": (memory.WriteRequest(path=episodic, entries=[entry], request_id=fresh()), nobody),
        "MemoryFS/Read": (memory.ReadRequest(path=episodic, query=SECRET), None),
        "MemoryFS/Get": (memory.GetRequest(id=owned["item"]), nobody),
        "MemoryFS/List": (memory.ListRequest(path=episodic), None),
        "MemoryFS/Forget": (
            lifecycle_pb2.ForgetRequest(path=episodic, ids=[owned["item"]], request_id=fresh()), nobody
        ),
        "MemoryFS/Restore": (
            lifecycle_pb2.RestoreRequest(path=episodic, ids=[owned["forgotten"]], request_id=fresh()),
            nobody,
        ),
        **attempts_on_memory(owned, episodic, nobody),
        "Policy/Decide": (decide, {DENIED}),
        "Policy/BatchDecide": (policy.BatchDecideRequest(requests=[decide]), {DENIED}),
        "Policy/GetDecision": (policy.GetDecisionRequest(id=owned["decision"]), nobody),
        "Policy/ListDecisions": (policy.ListDecisionsRequest(call_id=owned["call"]), None),
        "Policy/WatchDecisions": (policy.WatchDecisionsRequest(), {DENIED}),
        "Policy/ExplainDecision": (policy.ExplainDecisionRequest(id=owned["decision"]), {DENIED}),
        "Reviews/OpenReview": (
            reviews.OpenReviewRequest(
                call_id=owned["call"], action_digest="0" * 64, decision_id=owned["decision"]
            ),
            {DENIED},
        ),
        "Reviews/ListReviews": (reviews.ListReviewsRequest(), None),
        "Reviews/WatchReviews": (reviews.WatchReviewsRequest(), None),
        "Reviews/GetReview": (reviews.GetReviewRequest(id=owned["review"]), nobody),
        "Reviews/ResolveReview": (
            reviews.ResolveReviewRequest(id=owned["review"], verdict=1, request_id=fresh()),
            nobody,
        ),
        "ToolGateway/ListSkills": (gateway.ListSkillsRequest(), None),
        "ToolGateway/SearchSkills": (gateway.SearchSkillsRequest(query="refund"), {None, grpc.StatusCode.UNAVAILABLE}),
        "ToolGateway/GetSkill": (gateway.GetSkillRequest(name="no.such_skill"), {NOT_FOUND}),
        # The same request_id names another call for another issuer; this one is refused for its arguments.
        "ToolGateway/CallSkill": (
            gateway.CallSkillRequest(skill="refund.create", arguments_json=b"{}", request_id=owned["request"]),
            {INVALID},
        ),
        "ToolGateway/GetCall": (gateway.GetCallRequest(id=owned["call"]), nobody),
        "ToolGateway/ListCalls": (gateway.ListCallsRequest(), None),
        "ToolGateway/WatchCall": (gateway.WatchCallRequest(id=owned["call"]), nobody),
        "ToolGateway/CancelCall": (gateway.CancelCallRequest(id=owned["call"]), nobody),
        "ToolGateway/ReconcileCall": (gateway.ReconcileCallRequest(id=owned["call"]), nobody),
        "Sessions/CreateSession": (sessions.CreateSessionRequest(request_id=fresh()), None),
        "Sessions/GetSession": (sessions.GetSessionRequest(id=owned["session"]), nobody),
        "Sessions/AppendMessages": (
            sessions.AppendMessagesRequest(
                session_id=owned["session"], messages=[sessions.Message(role=1, content="hi")], request_id=fresh()
            ),
            nobody,
        ),
        "Sessions/ListMessages": (sessions.ListMessagesRequest(session_id=owned["session"]), nobody),
        "Tasks/SubmitTask": (
            tasks.SubmitTaskRequest(
                agent="assistant", session_id=owned["session"], input="tell me", request_id=fresh()
            ),
            nobody,
        ),
        "Tasks/GetTask": (tasks.GetTaskRequest(id=owned["task"]), nobody),
        "Tasks/WatchTask": (tasks.WatchTaskRequest(id=owned["task"]), nobody),
        "Tasks/CancelTask": (tasks.CancelTaskRequest(id=owned["task"], request_id=fresh()), nobody),
        "Tasks/ListSteps": (tasks.ListStepsRequest(task_id=owned["task"]), nobody),
        "Tasks/ListTasks": (tasks.ListTasksRequest(session_id=owned["session"]), None),
        "Tasks/PauseTask": (tasks.PauseTaskRequest(id=owned["task"], request_id=fresh()), nobody),
        "Tasks/ResumeTask": (tasks.ResumeTaskRequest(id=owned["task"], request_id=fresh()), nobody),
        "Tasks/RetryTask": (tasks.RetryTaskRequest(id=owned["task"], request_id=fresh()), nobody),
        "Sessions/ListSessions": (sessions.ListSessionsRequest(), None),
        "Sessions/SearchMessages": (sessions.SearchMessagesRequest(query="refund takt time line A"), None),
        "Agents/ListAgents": (agents_pb2.ListAgentsRequest(), None),
        "Agents/GetAgent": (agents_pb2.GetAgentRequest(name="assistant"), None),
        "Tokens/ExchangeToken": (tokens_pb2.ExchangeTokenRequest(agent="assistant"), None),
        "Tokens/GetKeys": (tokens_pb2.GetKeysRequest(), None),
        "Tokens/RevokeAccess": (tokens_pb2.RevokeAccessRequest(subject="user:u-owner", request_id=fresh()), {DENIED}),
        "Tokens/RestoreAccess": (tokens_pb2.RestoreAccessRequest(subject="user:u-owner", request_id=fresh()), {DENIED}),
        "Tokens/ListRevocations": (tokens_pb2.ListRevocationsRequest(), {DENIED}),
    }  # fmt: skip


async def send(world: World, token: str, method: str, request: Any) -> Any:
    """Send a request as it is, with nothing but a token; raises grpc.aio.AioRpcError."""
    service, name = method.split("/")
    where, stub = STUBS[service]
    async with grpc.aio.insecure_channel(world.stack.addresses[where]) as channel:
        call: Callable[..., Any] = getattr(stub(channel), name)
        metadata = [("authorization", f"Bearer {token}"), ("x-user-id", "u-owner"), ("x-tenant", "acme")]
        answer = call(request, metadata=metadata, timeout=20)
        if name in ("Watch", "WatchReviews", "WatchDecisions"):  # without an end: what comes soon is what there is
            return await _soon(answer)
        if name in ("WatchTask", "WatchJob", "WatchCall", "Export"):
            return [event async for event in answer]
        waiting: Awaitable[Any] = answer
        return await waiting


async def _soon(answer: Any) -> list[Any]:
    found = [await asyncio.wait_for(answer.read(), 20)]
    with suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            while found[-1] is not grpc.aio.EOF:
                found.append(await answer.read())
    return found


async def outcome(world: World, token: str, method: str, request: Any) -> tuple[grpc.StatusCode | None, str]:
    """Give how a request ended (None: well), and all that was said."""
    try:
        return None, str(await send(world, token, method, request))
    except grpc.aio.AioRpcError as error:
        return error.code(), f"{error.details()} {error.trailing_metadata()}"


@pytest.mark.parametrize(("tenant", "user"), [("acme", "u-other"), ("rival", "u-owner")])
async def test_a_stranger_gets_nothing_by_any_rpc(world, owned, tenant, user):
    names = attempts(await own(world, owned))
    assert {f"/{method}" for method in names} == {"/" + rule.split(".")[-1] for rule in METHOD_RULES}
    token = world.stack.token(tenant, user, roles=("user", "agent", "reviewer"))
    for method, (request, wanted) in names.items():
        code, shown = await outcome(world, token, method, request)
        # Another tenant's path is refused before existence is looked at.
        allowed = wanted or ({None} if tenant == "acme" else {None, DENIED})
        assert code in allowed, f"{method}: {code} {shown}"
        assert SECRET not in shown, method
        assert code is not None or not [name for name in owned.values() if name in shown], method


async def test_what_is_owned_is_as_it_was(world, owned):
    await own(world, owned)
    client = world.client("u-owner")
    item = await client.memory.get(owned["item"])
    assert (item.content, item.revision) == (SECRET, 1)
    assert (await client.tools.get_call(owned["call"])).state == "parked"
    assert (await client.tasks.get(owned["task"])).state == "succeeded"
    assert not world.business.books.counts["refund.create"]


async def test_nobody_without_a_token_gets_anything(world, owned):
    for method, (request, _) in attempts(await own(world, owned)).items():
        for token in ("", "x.y.z"):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await send(world, token, method, request)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED, method
