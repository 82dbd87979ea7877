"""Tools, tasks, sessions, reviews and decisions."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import grpc
import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos.policy.v1 import policy_pb2
from memoryos_sdk import Client, DeadlineExceeded, DecisionFilter, InvalidArgument, NotFound, Unavailable, sync
from memoryos_sdk.tasks import TaskFilter, TaskLimits

from .conftest import Services

THINKING, SUCCEEDED = tasks_pb2.TASK_STATE_THINKING, tasks_pb2.TASK_STATE_SUCCEEDED


async def test_arguments_travel_exactly(client: Client, services: Services) -> None:
    call = await client.tools.call("refund", {"金额": 2**53 + 1, "b": None, "a": 0.1})
    assert call.state == "succeeded"
    assert call.result == {"金额": 2**53 + 1, "b": None, "a": 0.1}
    assert services.requests[0].arguments_json == '{"a":0.1,"b":null,"金额":9007199254740993}'.encode()
    raw = '{"path":"/tmp/ok", "path":"/etc/passwd"}'
    services.failures = [lambda context: context.abort(grpc.StatusCode.NOT_FOUND, "no")]
    with pytest.raises(NotFound):
        await client.tools.call("x", raw)
    assert services.requests[1].arguments_json == raw.encode()


async def test_empty_arguments_are_an_object(client: Client, services: Services) -> None:
    await client.tools.call("list")
    assert services.requests[0].arguments_json == b"{}"


async def test_watch_tells_each_event_once_over_lost_connections(client: Client, services: Services) -> None:
    async def lost(context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    services.failures = [lost, lost]
    services.events = [(1, THINKING), (2, THINKING), (3, None), (3, THINKING), (4, SUCCEEDED)]
    events = [event async for event in client.tasks.watch("task_1")]
    assert [(e.sequence, e.state) for e in events] == [
        (1, "thinking"),
        (2, "thinking"),
        (3, "thinking"),
        (4, "succeeded"),
    ]
    afters = [r.after_sequence for r in services.requests if isinstance(r, tasks_pb2.WatchTaskRequest)]
    assert afters == [0, 0, 0, 2]


async def test_watch_of_a_task_that_ended_long_ago_ends(client: Client, services: Services) -> None:
    services.events = [(1, SUCCEEDED)]
    assert [e.state async for e in client.tasks.watch("task_1")] == ["succeeded"]
    assert [e async for e in client.tasks.watch("task_1", after_sequence=1)] == []


async def test_watch_gives_up_when_the_service_stays_away(client: Client, services: Services) -> None:
    async def lost(context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    services.failures = [lost] * 100
    with pytest.raises(Unavailable):
        await asyncio.wait_for(anext(client.tasks.watch("task_1").__aiter__()), 20)


async def test_wait_gives_the_ended_task_or_a_deadline(client: Client, services: Services) -> None:
    services.events = [(1, THINKING), (2, SUCCEEDED)]
    task = await client.tasks.wait("task_1", timeout_s=20)
    assert (task.state, task.ended, task.output) == ("succeeded", True, "done")
    services.events = [(1, THINKING)]
    with pytest.raises(DeadlineExceeded, match="task_1"):
        await client.tasks.wait("task_1", timeout_s=0.2)


async def test_tasks_rest_go_on_and_are_tried_again(client: Client, services: Services) -> None:
    made = await client.tasks.submit(
        "helper", session_id="ses_1", input="x", priority=3, limits=TaskLimits(steps=5), request_id="r0"
    )
    assert (made.priority, made.limits) == (3, TaskLimits(steps=5))
    assert (await client.tasks.pause("task_1", request_id="r1")).state == "paused"
    assert (await client.tasks.resume("task_1", note="继续", request_id="r2")).state == "retry"
    assert not (await client.tasks.retry("task_1", request_id="r3")).ended
    assert [request.request_id for request in services.requests] == ["r0", "r1", "r2", "r3"]
    assert services.requests[2].note == "继续"


async def test_tasks_and_sessions_are_listed_page_by_page(client: Client, services: Services) -> None:
    wanted = TaskFilter(states=("dead", "failed"), agent="helper", parent_task_id="task_0", session_id="ses_1")
    tasks = await client.tasks.list(wanted, all_users=True).all()
    assert [(task.id, task.parent_task_id, task.depth) for task in tasks] == [
        ("task_1", "task_0", 1), ("task_2", "task_0", 1),
    ]  # fmt: skip
    request = services.requests[0]
    assert list(request.states) == [tasks_pb2.TASK_STATE_DEAD, tasks_pb2.TASK_STATE_FAILED]
    assert (request.agent, request.parent_task_id, request.all_users) == ("helper", "task_0", True)
    assert [session.id for session in await client.sessions.list().all()] == ["ses_1", "ses_2"]
    with pytest.raises(InvalidArgument, match="paused"):
        client.tasks.list(TaskFilter(states=("gone",)))


async def test_what_was_said_is_searched(client: Client, services: Services) -> None:
    (hit,) = await client.sessions.search("节拍时间", top_k=3, role="user")
    assert (hit.session_id, hit.message.content, hit.message.role, hit.score) == ("ses_1", "节拍时间", "user", 0.5)
    assert services.requests[0].top_k == 3
    with pytest.raises(InvalidArgument, match="assistant"):
        await client.sessions.search("x", role="root")


async def test_messages_have_known_roles_and_keys(client: Client, services: Services) -> None:
    kept = await client.sessions.append("ses_1", [{"role": "user", "content": "以后华东区"}])
    assert [(m.role, m.content) for m in kept] == [("user", "以后华东区")]
    for message in ({"role": "root", "content": "x"}, {"content": "x"}, {"role": "user", "text": "x"}):
        with pytest.raises(InvalidArgument):
            await client.sessions.append("ses_1", [message])
    assert len(services.requests) == 1


async def test_reviews_and_decisions(client: Client, services: Services) -> None:
    review = await client.reviews.approve("rev_1", comment="已核对")
    assert (review.state, review.votes[0].verdict, review.votes[0].comment) == ("approved", "approve", "已核对")
    review = await client.reviews.deny("rev_1")
    assert review.votes[0].verdict == "deny"
    decision = await client.decisions.get("dec_1")
    assert (decision.effect, decision.reasons[0].code) == ("manual_review", "above_limit")
    assert decision.approvals[0].expires_in == timedelta(seconds=60)
    with pytest.raises(InvalidArgument, match="approved"):
        client.reviews.list(state="open")


async def test_decisions_are_searched_by_everything_at_once(client: Client, services: Services) -> None:
    wanted = DecisionFilter(
        user="u1", skill="refund.create", effect="deny", reason_code="c", policy="p", call_id="call_1", trace_id="t",
        review_id="rev_1", between=("2026-11-01T00:00:00+08:00", None),
    )  # fmt: skip
    (found,) = await client.decisions.list(wanted, with_input=True).all()
    assert (found.id, found.input) == ("dec_1", {"args": {}})
    request = services.requests[-1]
    assert (request.user, request.skill, request.reason_code, request.policy) == ("u1", "refund.create", "c", "p")
    assert (request.call_id, request.trace_id, request.review_id) == ("call_1", "t", "rev_1")
    assert (request.effect, request.view) == (policy_pb2.EFFECT_DENY, policy_pb2.DECISION_VIEW_INPUT)
    assert request.from_time.ToJsonString() == "2026-10-31T16:00:00Z"
    assert not request.HasField("until_time")
    assert len(services.requests) == 2, "an empty page with a token is not the end"
    with pytest.raises(InvalidArgument, match="manual_review"):
        client.decisions.list(DecisionFilter(effect="no"))


async def test_feeds_go_on_where_the_connection_broke(client: Client, services: Services) -> None:
    seen = []
    async with aclosing(client.decisions.watch(effect="deny")) as decisions:
        async for event in decisions:
            seen.append((event.decision.id, event.position))
            if len(seen) == 4:
                break
    assert seen == [(f"dec_{number}", str(number)) for number in range(1, 5)]
    assert [request.position for request in services.requests] == ["", "2"]
    assert {request.effect for request in services.requests} == {policy_pb2.EFFECT_DENY}
    services.requests.clear()
    async with aclosing(client.reviews.watch(position="1")) as reviews:
        events = [await anext(reviews) for _ in range(3)]
    assert [(event.review.id, event.review.effect_class) for event in events] == [
        (f"rev_{number}", "keyed") for number in (2, 3, 4)
    ]
    assert [request.position for request in services.requests] == ["1", "3"]


async def test_an_explanation_names_the_rules_that_fired(client: Client) -> None:
    explained = await client.decisions.explain("dec_7")
    assert (explained.kept.id, explained.same) == ("dec_7", True)
    (rule,) = explained.fired
    assert (rule.file, rule.line, rule.head) == ("memoryos/main/main.rego", 7, "allow if")


async def test_the_client_that_waits_follows_too(address: str) -> None:
    def follow() -> list[str]:
        found = []
        with sync.connect(token="token-a", policy=address) as client:
            for event in client.reviews.watch():
                found.append(event.review.id)
                if len(found) == 2:
                    break
        return found

    assert await asyncio.to_thread(follow) == ["rev_1", "rev_2"]
