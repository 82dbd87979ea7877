""" "Did I ask this before?" is answered from the user's own conversations: cited, journaled, and nobody else's."""

import dataclasses
import json
from typing import Any

import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.journal_forms import RECALL_SESSIONS
from memoryos_postgres import roles
from memoryos_postgres.session_facts import Fact, facts_of, note
from memoryos_testing import scope_of

from .test_session_search import say
from .world import World, question

CANARY = "canary-of-u7"


def recalled(request: dict[str, Any]) -> list[dict[str, Any]]:
    """What the model was shown of conversations, as the answer of a tool."""
    names = {call["id"]: call["function"]["name"] for m in request["messages"] for call in m.get("tool_calls") or ()}
    return [
        hit
        for m in request["messages"]
        if m["role"] == "tool" and names[m["tool_call_id"]] == "recall_sessions"
        for hit in json.loads(m["content"])["items"]
    ]


def script(request: dict[str, Any]) -> str:
    """Answers from what was recalled."""
    hits = recalled(request)
    if not hits:
        return f"not asked before: {question(request)}"
    return "; ".join(f"{hit['content']} [{hit['id']} in {hit['session_id']}]" for hit in hits)


@pytest.mark.parametrize(
    ("first", "again", "told"),
    [
        ("What is the takt time of line A?", "Did I ask about the takt time of line A before?", "42 seconds"),
        ("A 线的节拍时间是多少？", "A 线的节拍时间，我之前问过这个吗？", "四十二秒"),
    ],
)
async def test_what_was_asked_in_another_session_is_told_with_its_place(
    world: World, first: str, again: str, told: str
) -> None:
    stranger = world.client("u7")
    await say(stranger, f"{first} {CANARY}")
    client = world.client()
    (asked,) = await say(client, first)
    (answer,) = await say(client, told, role="assistant")
    earlier = client.session_id
    await client.start_session()
    requests: list[dict[str, Any]] = []
    world.model.script = lambda request: (requests.append(request), script(request))[1]
    async with world.worker():
        task = await client.ended((await client.submit(again, "recollecting")).id)
    assert task.state == tasks_pb2.TASK_STATE_SUCCEEDED
    assert f"{first} [{asked.id} in {earlier}]" in task.output
    (read, _) = await client.steps(task.id)
    assert (read.kind, read.target) == (tasks_pb2.STEP_KIND_MEMORY_READ, RECALL_SESSIONS)
    assert {asked.id, answer.id} <= set(read.item_ids)
    (hit, *_) = json.loads(read.output_json)["hits"]
    assert (hit["id"], hit["session_id"], hit["said_by"]) == (asked.id, earlier, "user")
    assert hit["answer"] == {"id": answer.id, "content": told}
    assert again not in [shown["content"] for shown in recalled(requests[0])]
    assert first not in requests[0]["messages"][0]["content"]
    assert CANARY not in json.dumps(requests)


async def test_this_is_what_was_said_before_it_and_what_is_shown_is_not_recalled(world: World) -> None:
    client = world.client()
    (asked,) = await say(client, "齿轮箱 GB-7 什么时候换油？")
    earlier = client.session_id
    await client.start_session()
    await say(client, "齿轮箱 GB-7 要换油吗？")
    world.model.script = script
    async with world.worker():
        task = await client.ended((await client.submit("我之前问过这个吗？", "recollecting")).id)
    assert task.output == f"{asked.content} [{asked.id} in {earlier}]"


async def test_nothing_is_recalled_of_somebody_else_who_asked_the_same(world: World) -> None:
    await say(world.client("u7"), "takt time of line A")
    await say(world.client(tenant="other"), "takt time of line A")
    client = world.client()
    world.model.script = script
    async with world.worker():
        task = await client.ended((await client.submit("takt time of line A", "recollecting")).id)
        plain = await client.ended((await client.submit("takt time of line A", "plain")).id)
    assert (task.output, task.step_count) == ("not asked before: takt time of line A", 2)
    assert plain.step_count == 1


async def test_what_the_other_session_saw_this_one_has_seen(world: World, database_factory) -> None:
    harness = await database_factory(roles.HARNESS)
    client = world.client()
    await say(client, "the window moves to night, says ticket TCK-1")
    told = dataclasses.replace(scope_of(), session_id=client.session_id)
    async with harness.scoped(told) as tx:
        note(tx, told, [Fact.UNTRUSTED_CONTENT], source="skill:ticket.get")
    await client.start_session()
    world.model.script = script
    async with world.worker():
        await client.ended((await client.submit("what says TCK-1?", "recollecting")).id)
    here = dataclasses.replace(scope_of(), session_id=client.session_id)
    async with harness.scoped(here) as tx:
        assert (await facts_of(tx, here)).seen == {Fact.UNTRUSTED_CONTENT}


@pytest.mark.parametrize("point", ["harness.step.after_started", "harness.step.after_effect"])
async def test_a_worker_that_dies_in_the_recall_is_carried_on(world: World, point: str) -> None:
    client = world.client()
    await say(client, "takt time of line B")
    await client.start_session()
    world.model.script = script
    task = await client.submit("takt time of line B", "recollecting")
    await world.died(await world.worker_process(crash_point=point))
    async with world.worker():
        ended = await client.ended(task.id)
    assert ended.output.startswith("takt time of line B [msg_")
    assert [step.sequence for step in await client.steps(task.id)] == [1, 2]


def test_recall_of_sessions_is_off_unless_it_is_asked_for() -> None:
    assert not Agent.of({"name": "a", "instructions": "x"}).context.recall_sessions
