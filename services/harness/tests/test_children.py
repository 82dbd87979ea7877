"""Sub-agents: tasks of their own, with less of everything; their end is the parent's next step."""

import asyncio
import json

import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_models.scripted import ScriptedCall, ScriptedReply
from psycopg import AsyncConnection

from .family import CHILD, answers, ask, children, family_script, say, use
from .test_tokens import admin
from .world import eventually, refused

WAITING = tasks_pb2.TASK_STATE_WAITING_TASK
SUCCEEDED = tasks_pb2.TASK_STATE_SUCCEEDED
DEAD = tasks_pb2.TASK_STATE_DEAD
CANCELLED = tasks_pb2.TASK_STATE_CANCELLED
MINE = "/tenants/acme/memory/episodic/u42"


@pytest.fixture(autouse=True)
def scripted(world):
    world.model.script = family_script


async def rows(world, query, *params):
    async with await AsyncConnection.connect(world.database.admin_dsn, autocommit=True) as connection:
        return await (await connection.execute(query, params)).fetchall()


async def rows_changed(world, statement):
    async with await AsyncConnection.connect(world.database.admin_dsn, autocommit=True) as connection:
        return (await connection.execute(statement)).rowcount


async def run(world, user, *inside, agent="boss", **worker):
    """The task of a family, ended."""
    task = await user.submit(say(*inside), agent)
    async with world.worker(**worker):
        return await user.ended(task.id, 30)


async def waits(user, task_id):
    """The children of a task that waits for them."""
    await user.until(task_id, lambda task: task.state == WAITING)
    return await children(user, task_id)


async def test_one_worker_of_one_place_ends_a_parent_with_children_and_grandchildren(world) -> None:
    user = world.client()
    parts = [ask("mid", ask("scout", use("mes.takt", line))) for line in ("A", "B", "C")]
    ended = await run(world, user, *parts, concurrency=1)
    assert ended.state == SUCCEEDED, ended
    assert ended.output.count("takt_s") == 3
    assert world.tools.effects == {"mes.takt": 3}
    family = await children(user, ended.id)
    assert [task.agent for task in family] == ["mid"] * 3
    for mid in family:
        (scout,) = await children(user, mid.id)
        assert scout.session_id == mid.session_id == ended.session_id
        assert list(scout.actor.agent_chain) == ["boss", "mid", "scout"]
    assert len(await user.messages()) == 2  # the question and the answer: children say nothing in the session
    states = [event.state for event in await user.watch(ended.id)]
    assert states.count(WAITING) == 1
    assert ended.attempt == 1
    kept = await rows(world, "SELECT depth, parent_task_id FROM harness.tasks ORDER BY depth, id")
    assert kept[0] == (0, None)
    assert sorted(kept[1:]) == sorted([(1, ended.id)] * 3 + [(2, mid.id) for mid in family])


async def test_children_of_one_reply_run_at_once_and_see_their_task_alone(world) -> None:
    user = world.client()
    task = await user.submit(say(ask("scout", "first"), use("mes.takt"), ask("scout", "second")), "boss")
    async with world.worker():
        ended = await user.ended(task.id)
    assert [answer["result"] for answer in answers(ended)][::2] == ["first", "second"]
    steps = await user.steps(task.id)
    assert [step.kind for step in steps[1:4]] == [CHILD, CHILD, tasks_pb2.STEP_KIND_TOOL_CALL]
    first, second = await children(user, task.id)
    assert first.create_time.ToDatetime() < second.end_time.ToDatetime()
    assert second.create_time.ToDatetime() < first.end_time.ToDatetime()
    asked = [r for r in world.model.requests if r["messages"][-1]["content"] in ("first", "second")]
    assert [len(request["messages"]) for request in asked] == [2, 2]  # instructions and the task, no history


async def test_an_answer_comes_by_value_as_text_or_json_and_a_long_one_is_cut(world) -> None:
    world.model.script = lambda r: (
        '{"lines": ["甲", "B"]}' if "Reply with" in str(r) or "JSON" in str(r["messages"][0]) else family_script(r)
    )
    user = world.client()
    ended = await run(world, user, ask("lister", "list"), ask("scout", "中" * 3000))
    listed, long = answers(ended)
    assert listed == {"status": "ok", "result": {"lines": ["甲", "B"]}}
    assert long["result"] == "中" * 3000
    world.model.script = lambda r: "字" * 40_000 if r["messages"][-1]["content"] == "long" else family_script(r)
    ended = await run(world, user, ask("scout", "long"))
    (step,) = [step for step in await user.steps(ended.id) if step.kind == CHILD]
    cut = json.loads(json.loads(step.output_json)["content"])
    assert (cut["size_bytes"] > 100_000, len(cut["result_cut_off"].encode()) <= 65_536) == (True, True)


async def test_a_dead_child_is_a_failed_step_with_its_code_and_the_parent_goes_on(world) -> None:
    user = world.client()
    ended = await run(world, user, ask("short", use("mes.takt", "A"), use("mes.takt", "B")), ask("scout", "fine"))
    assert ended.state == SUCCEEDED
    dead, fine = answers(ended)
    assert (dead["status"], dead["code"]) == ("failed", "limit_calls")
    assert fine["result"] == "fine"
    states = [step.state for step in await user.steps(ended.id) if step.kind == CHILD]
    assert states == [tasks_pb2.STEP_STATE_FAILED, tasks_pb2.STEP_STATE_DONE]


async def test_a_sub_agent_is_asked_for_the_same_thing_once(world) -> None:
    asked = {"task": say(use("mes.takt", "A"))}

    def script(request):
        if not request.get("tools"):
            return "done"
        if "You let others work" in request["messages"][0]["content"]:
            return ScriptedReply(tool_calls=[ScriptedCall(name="agent__scout", arguments=asked)] * 2)
        return family_script(request)

    world.model.script = script
    user = world.client()
    ended = await run(world, user, "go")
    assert (ended.state, ended.output) == (SUCCEEDED, "done")
    assert world.tools.effects == {"mes.takt": 1}
    told = [json.loads(json.loads(s.output_json)["content"]) for s in await user.steps(ended.id) if s.kind == CHILD]
    assert [answer["status"] for answer in told] == ["ok", "refused", "repeated", "repeated"]
    assert told[2]["answer"] == told[0]
    assert len(await children(user, ended.id)) == 1


HOSTILE = [
    ("agent__scout", {}),
    ("agent__scout", {"task": ""}),
    ("agent__scout", {"task": " \n"}),
    ("agent__scout", {"task": 1}),
    ("agent__scout", {"task": "x", "roles": ["tenant-admin"]}),
    ("agent__scout", {"task": "x" * 32_769}),
    ("agent__nobody", {"task": "x"}),
    ("agent__helper", {"task": "x"}),
    ("agent__../scout", {"task": "x"}),
    ("agent:u43/scout", {"task": "x"}),
    ("agent__", {"task": "x"}),
    ("agent__ѕcout", {"task": "x"}),
    ("scout", {"task": "x"}),
]


async def test_what_names_no_sub_agent_or_asks_for_more_starts_none(world) -> None:
    def script(request):
        if len(request["messages"]) > 2:
            return family_script(request)
        return ScriptedReply(tool_calls=[ScriptedCall(name=name, arguments=given) for name, given in HOSTILE])

    world.model.script = script
    user = world.client()
    ended = await run(world, user, "go")
    assert ended.state == SUCCEEDED, ended
    assert {answer["status"] for answer in answers(ended)} == {"invalid"}
    assert await rows(world, "SELECT 1 FROM harness.tasks WHERE parent_task_id IS NOT NULL") == []
    assert not world.tools.calls


async def test_a_child_that_asks_for_memory_beyond_its_parents_is_refused(world) -> None:
    user = world.client(read_paths=(MINE,), write_paths=())
    ended = await run(world, user, ask("grabby", "read all"), ask("scout", "fine"))
    refused, fine = answers(ended)
    assert (refused["status"], fine["result"]) == ("refused", "fine")
    assert [task.agent for task in await children(user, ended.id)] == ["scout"]


async def test_a_child_calls_no_skill_that_its_file_does_not_name_though_its_parent_may(world) -> None:
    user = world.client()
    ended = await run(world, user, ask("scout", use("mail.send"), use("ticket.delete")), ask("low", use("mes.takt")))
    told = [json.loads(answer["result"])["answers"] for answer in answers(ended)]
    assert [[answer["status"] for answer in each] for each in told] == [["invalid", "invalid"], ["invalid"]]
    assert not world.tools.calls


async def test_two_levels_down_a_call_still_waits_for_a_person(world) -> None:
    user = world.client()
    task = await user.submit(say(ask("mid", ask("scout", use("refund.pay")))), "boss")
    async with world.worker(concurrency=1):
        (mid,) = await waits(user, task.id)
        (scout,) = await waits(user, mid.id)
        await user.until(scout.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
        assert not world.tools.effects
        assert {(await user.get(t)).state for t in (task.id, mid.id)} == {WAITING}
        world.tools.approved.update(world.tools.parked)
        ended = await user.ended(task.id)
    assert ended.state == SUCCEEDED
    assert world.tools.effects == {"refund.pay": 1}


async def test_a_child_has_the_users_rights_narrowed_by_every_agent_above_it(world) -> None:
    user = world.client(roles=("user", "reviewer", "tenant-admin"), groups=frozenset({"east"}), clearance=3)
    ended = await run(world, user, ask("scout", use("mes.takt")))
    (scout,) = await children(user, ended.id)
    made = [kept.identity for kept in world.tools.calls.values()]
    (identity,) = [who for who in made if who.task_id == scout.id]
    assert (identity.tenant, identity.user, identity.chain) == ("acme", "u42", ("boss", "scout"))
    assert (identity.roles, identity.groups, identity.clearance) == ({"agent", "user"}, {"east"}, 3)
    assert (identity.session_id, identity.issuer) == (user.session_id, "memoryos-harness")
    assert {path for path in identity.read_paths if "/working/" not in path} == {f"{MINE}/scout"}


async def test_beyond_the_fan_out_no_sub_agent_is_started_or_offered(world) -> None:
    user = world.client()
    ended = await run(world, user, *(ask("scout", f"n{n}") for n in range(6)))
    assert [answer["status"] for answer in answers(ended)] == ["ok"] * 4 + ["refused"] * 2
    last = world.model.requests[-1]
    assert [tool["function"]["name"] for tool in last["tools"]] == ["mes__takt"]


async def test_beyond_the_depth_no_sub_agent_is_offered(world) -> None:
    user = world.client()
    ended = await run(world, user, ask("mid", ask("low", ask("lister", "deep"))))
    deepest = json.loads(answers(ended)[0]["result"])["answers"][0]["result"]
    assert json.loads(deepest)["answers"][0]["status"] == "invalid"
    depths = await rows(world, "SELECT max(depth) FROM harness.tasks")
    assert depths == [(2,)]


async def test_what_children_use_counts_for_the_parent_who_shares_out_what_is_left(world) -> None:
    user = world.client()
    seven = [use("mes.takt", str(n)) for n in range(7)]
    ended = await run(world, user, ask("scout", *seven), ask("scout", *seven[:3]))
    too_many, few = answers(ended)
    assert too_many["code"] == "limit_calls"  # twelve for two are six for each
    assert few["status"] == "ok"
    family = [await user.get(ended.id), *(await children(user, ended.id))]
    assert [(task.depth, task.parent_task_id) for task in family] == [(0, ""), (1, ended.id), (1, ended.id)]
    assert [task.limits.calls for task in family] == [12, 6, 6]
    assert all(0 < task.limits.tokens <= 5_000 for task in family[1:])
    used = [(task.depth, task.call_count, task.token_count) for task in family]
    (_, calls, tokens), *below = used
    assert calls == sum(row[1] for row in below) == 9
    own = sum(json.loads(step.output_json)["usage"]["input"] + json.loads(step.output_json)["usage"]["output"]
              for step in await user.steps(ended.id) if step.kind == tasks_pb2.STEP_KIND_MODEL_CALL)  # fmt: skip
    assert tokens == own + sum(row[2] for row in below)


async def test_a_childs_time_is_within_its_parents_and_a_persons_time_is_nobodys(world) -> None:
    user = world.client()
    task = await user.submit(say(ask("scout", use("refund.pay"))), "boss")
    left = "SELECT depth, extract(epoch FROM deadline_time - {}) FROM harness.tasks ORDER BY depth"
    async with world.worker():
        (scout,) = await waits(user, task.id)
        (_, parent_s), (_, child_s) = await rows(world, left.format("COALESCE(park_time, clock_timestamp())"))
        assert child_s <= parent_s <= 120
        await user.until(scout.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
        times = ("create_time", "park_time", "deadline_time")
        back = ", ".join(f"{time} = {time} - interval '1 hour'" for time in times)
        await rows_changed(world, f"UPDATE harness.tasks SET {back}")
        world.tools.approved.update(world.tools.parked)
        ended = await user.ended(task.id)
    assert ended.state == SUCCEEDED, ended
    ((_, parent_s), (_, child_s)) = await rows(world, left.format("end_time"))
    assert 0 < child_s <= 120 + 1
    assert 60 < parent_s <= 120 + 1


async def test_a_child_without_time_left_dies_and_so_does_its_parent(world) -> None:
    world.tools.hold = asyncio.Event()
    user = world.client()
    task = await user.submit(say(ask("scout", use("mes.takt"), use("mes.takt", "B"))), "boss")
    async with world.worker():
        await eventually(lambda: _async(world.tools.effects))
        await rows_changed(world, "UPDATE harness.tasks SET deadline_time = deadline_time - interval '1 hour'")
        world.tools.hold.set()
        (scout,) = await children(user, task.id)
        # The worker that holds the child counts by its own clock; taken over, the child is seen to be late.
        ended = await user.ended(scout.id)
        parent = await user.ended(task.id)
    assert ended.state in (DEAD, SUCCEEDED)
    assert parent.state == DEAD
    assert parent.error_code == "limit_seconds"


async def test_cancelling_a_parent_stops_everything_below_it_before_it_is_cancelled(world) -> None:
    world.tools.hold = asyncio.Event()
    user = world.client()
    inner = ask("mid", ask("low", "idle"))
    task = await user.submit(say(ask("scout", use("mes.takt"), use("mes.takt", "B")), inner), "boss")
    async with world.worker():
        await eventually(lambda: _async(world.tools.effects))
        stopping = await user.cancel(task.id)
        assert stopping.state == tasks_pb2.TASK_STATE_CANCELLING  # a worker still holds the child's call
        world.tools.hold.set()
        assert (await user.ended(task.id)).state == CANCELLED
    family = await rows(world, "SELECT state, end_time FROM harness.tasks ORDER BY depth")
    assert family[0][1] == max(end for _, end in family)
    assert all(state in ("CANCELLED", "SUCCEEDED") for state, _ in family)
    assert world.tools.effects == {"mes.takt": 1}  # the second call of the child was never made
    finished = await rows(world, "SELECT task_id FROM core.audit WHERE kind = 'TASK_FINISHED'")
    assert len(finished) == len(family)
    assert await rows(world, "SELECT 1 FROM harness.due_tasks") == []


async def test_cancelling_a_parent_whose_family_waits_for_a_person_ends_all_of_it_at_once(world) -> None:
    user = world.client()
    task = await user.submit(say(ask("scout", use("refund.pay"))), "boss")
    async with world.worker():
        (scout,) = await waits(user, task.id)
        await user.until(scout.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
    cancelled = await user.cancel(task.id)
    assert cancelled.state == CANCELLED
    assert (await user.get(scout.id)).state == CANCELLED
    world.tools.approved.update(world.tools.parked)
    async with world.worker():
        other = await user.submit("hello", "plain")
        await user.ended(other.id)
    assert not world.tools.effects
    (step,) = [s for s in await user.steps(task.id) if s.kind == CHILD]
    assert step.state == tasks_pb2.STEP_STATE_FAILED


async def test_a_cancelled_child_is_a_failed_step_of_its_parent(world) -> None:
    user = world.client()
    task = await user.submit(say(ask("scout", use("refund.pay")), ask("scout", "fine")), "boss")
    async with world.worker():
        scout, _ = await waits(user, task.id)
        await user.until(scout.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
        await user.cancel(scout.id)
        ended = await user.ended(task.id)
    stopped, fine = answers(ended)
    assert (stopped["status"], stopped["code"], fine["result"]) == ("failed", "cancelled", "fine")


async def test_a_user_who_is_revoked_makes_no_further_call_and_its_tasks_die(world) -> None:
    world.tools.hold = asyncio.Event()
    user, boss = world.client(), admin(world)
    task = await user.submit(say(ask("scout", use("mes.takt"), use("mes.takt", "B")), ask("scout", "fine")), "boss")
    async with world.worker():
        await eventually(lambda: _async(world.tools.effects))
        await boss.revoke("user:u42")
        asked = len(world.model.requests)
        world.tools.hold.set()
        ended = await user.ended(task.id)
        family = await children(user, task.id)
    assert (ended.state, ended.error_code) == (DEAD, "access_revoked")
    assert (family[0].state, family[0].error_code) == (DEAD, "access_revoked")
    assert world.tools.effects == {"mes.takt": 1}
    assert len(world.model.requests) == asked


@pytest.mark.parametrize("agent", ["boss", "scout"])
async def test_an_agent_that_is_revoked_stops_itself_and_what_works_for_it(world, agent) -> None:
    await admin(world).revoke(f"agent:u42/{agent}")
    user = world.client()
    ended = await run(world, user, ask("scout", use("mes.takt")), ask("lister", "fine"))
    if agent == "boss":
        assert (ended.state, ended.error_code) == (DEAD, "access_revoked")
        assert not world.model.requests
    else:
        assert answers(ended)[0]["code"] == "access_revoked"
    assert not world.tools.effects
    other = await run(world, world.client("u43"), ask("scout", use("mes.takt")))
    assert other.state == SUCCEEDED


async def test_a_task_that_is_revoked_takes_its_children_along(world) -> None:
    user, boss = world.client(), admin(world)
    task = await user.submit(say(ask("scout", use("refund.pay"))), "boss")
    async with world.worker():
        (scout,) = await waits(user, task.id)
        await user.until(scout.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
        await boss.revoke(task.id)
        world.tools.approved.update(world.tools.parked)
        ended = await user.ended(task.id)
    assert (ended.state, ended.error_code) == (DEAD, "access_revoked")
    assert (await user.get(scout.id)).error_code == "access_revoked"
    assert not world.tools.effects


async def test_a_model_call_is_broken_off_when_access_is_revoked(world) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def script(request):
        loop.call_soon_threadsafe(asked.set)
        world.model.stopping.wait(30)
        return "too late"

    world.model.script = script
    user, boss = world.client(), admin(world)
    task = await user.submit("hello", "plain")
    async with world.worker():
        await asked.wait()
        await boss.revoke("agent:u42/plain")
        ended = await user.ended(task.id)
        world.model.stopping.set()
    assert (ended.state, ended.error_code) == (DEAD, "access_revoked")


async def test_while_revocations_cannot_be_asked_no_token_is_made(world) -> None:
    user = world.client()
    await rows_changed(world, "REVOKE SELECT ON core.revocations FROM memoryos_harness")
    task = await user.submit(say(use("mes.takt")), "boss")
    async with world.worker():
        await user.until(task.id, lambda t: t.attempt >= 2)
        assert not world.tools.identities
        assert not world.model.requests
        await rows_changed(world, "GRANT SELECT ON core.revocations TO memoryos_harness")
        assert (await user.ended(task.id)).state == SUCCEEDED


async def test_audit_rows_of_a_family_hold_the_whole_chain(world) -> None:
    user = world.client()
    ended = await run(world, user, ask("mid", ask("low", "idle")))
    tasks = "FROM core.audit WHERE kind LIKE 'TASK%%'"
    kept = await rows(world, f"SELECT kind, actor, chain, user_name {tasks} ORDER BY seq")
    assert kept == [
        ("TASK_STARTED", "user:u42", None, "u42"),
        ("TASK_STARTED", "agent:u42/mid", ["boss", "mid"], "u42"),
        ("TASK_STARTED", "agent:u42/low", ["boss", "mid", "low"], "u42"),
        ("TASK_FINISHED", "agent:u42/low", ["boss", "mid", "low"], "u42"),
        ("TASK_FINISHED", "agent:u42/mid", ["boss", "mid"], "u42"),
        ("TASK_FINISHED", "agent:u42/boss", ["boss"], "u42"),
    ]
    assert ended.state == SUCCEEDED
    traces = await rows(world, f"SELECT DISTINCT trace_id {tasks}")
    assert traces == [(ended.trace_id,)]


async def test_nobody_elses_task_is_seen_or_stopped_by_way_of_a_child(world) -> None:
    user, other = world.client(), world.client("u43")
    ended = await run(world, user, ask("scout", "fine"))
    (scout,) = await children(user, ended.id)
    async with refused("TASK_NOT_FOUND"):
        await other.get(scout.id)
    async with refused("TASK_NOT_FOUND"):
        await other.cancel(scout.id)


async def _async(value):
    return value
