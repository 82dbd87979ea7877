"""The journal on PostgreSQL: one holder at a time, and a fence before every write."""

import asyncio
from contextlib import asynccontextmanager

import psycopg
import pytest
from memoryos_core.ids import UlidSource
from memoryos_core.tokens import Identity
from memoryos_harness.adapters.postgres_children import PostgresChildren
from memoryos_harness.adapters.postgres_due import PostgresDue
from memoryos_harness.adapters.postgres_journal import PostgresJournal
from memoryos_harness.adapters.postgres_presence import PostgresPresence
from memoryos_harness.adapters.postgres_sessions import PostgresSessions
from memoryos_harness.adapters.postgres_tasks import PostgresTasks
from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_rows import Waking
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.grants import granted
from memoryos_harness.domain.states import StepKind, StepState, TaskState
from memoryos_harness.domain.tasks import CallIds, StepResult
from memoryos_harness.errors import CancelRequested, LeaseLost, TaskNotFound
from memoryos_harness.ports import ChildStart, NewTask, Request
from memoryos_postgres import roles
from memoryos_postgres.idempotency import Idempotency
from memoryos_testing import scope_of
from memoryos_testing.postgres import admin_execute

from .world import eventually

IDS = UlidSource()
WAKING = Waking(quiet_s=5, slots=64)
ME = scope_of(user="u42", roles=("user",))
GRANT = granted(Identity(tenant="acme", user="u42", roles=frozenset({"user"})))
AGENT = Agent(name="a", instructions="i")
CALL = CallIds(call_id="call_1", decision_id="dec_1", review_id="rev_1")


def request() -> Request:
    return Request(rpc="test", request_id=IDS.new("evt"), body=b"")


class Stores:
    def __init__(self, database, keyring) -> None:
        sealed, once = SealedColumns(keyring), Idempotency(keyring)
        self.sessions = PostgresSessions(database, sealed, once, IDS)
        self.tasks = PostgresTasks(database, sealed, once, IDS, waking=WAKING)
        self.journal = PostgresJournal(database, sealed, IDS, waking=WAKING)
        self.children = PostgresChildren(database, sealed, IDS, waking=WAKING)
        self.due = PostgresDue(database, slots=64)

    async def submitted(self) -> str:
        session = await self.sessions.create(ME, request())
        task = NewTask(session_id=session.id, agent=AGENT, grant=GRANT, input="q", traceparent="")
        return (await self.tasks.submit(ME, task, request())).id

    async def claim(self, task_id, holder="w", lease_s=300.0):
        return await self.journal.claim("acme", task_id, holder=holder, lease_s=lease_s)

    async def begun(self, lease, kind=StepKind.TOOL_CALL):
        """A started step; before a tool call a model call that was finished."""
        if kind is StepKind.TOOL_CALL:
            model = await self.begun(lease, StepKind.MODEL_CALL)
            await self.journal.finish_step(lease, model, StepResult(state=StepState.DONE, output={}))
        given = {"model_step": 1, "index": 0, "tool_call_id": "c", "name": "n", "skill": "s", "arguments": "{}"}
        return await self.journal.begin(lease, kind=kind, target="s", given=given)


@pytest.fixture
async def stores(database_factory, key_ring):
    return Stores(await database_factory(roles.HARNESS), key_ring)


@asynccontextmanager
async def present(database, *holders):
    """Workers of these names live."""
    presence = PostgresPresence(database.dsn(roles.HARNESS))
    async with presence.shown(holders[0]):
        if len(holders) > 1:
            async with present(database, *holders[1:]):
                yield
        else:
            yield


async def run_out(database) -> None:
    await admin_execute(
        database, "UPDATE harness.tasks SET lease_expire_time = now() - interval '1 s' WHERE lease_holder IS NOT NULL"
    )


async def test_of_twenty_workers_one_gets_the_task(stores, database) -> None:
    task_id = await stores.submitted()
    async with present(database, "w"):
        claims = await asyncio.gather(*(stores.claim(task_id) for _ in range(20)))
        assert [claim.lease.epoch for claim in claims if claim] == [1]
        assert await stores.claim(task_id) is None  # the same name gives no right


async def test_a_lease_that_ran_out_and_a_worker_that_is_gone_are_taken_over(stores, database) -> None:
    task_id = await stores.submitted()
    async with present(database, "alive"):
        assert (await stores.claim(task_id, "alive")).stalled_attempts == 0
        assert await stores.claim(task_id, "other") is None
        await run_out(database)
        second = await stores.claim(task_id, "gone")
        assert (second.lease.epoch, second.attempt, second.stalled_attempts) == (2, 2, 1)
    third = await eventually(lambda: stores.claim(task_id, "third"))
    assert (third.lease.epoch, third.attempt, third.stalled_attempts) == (3, 3, 2)


WRITES = {
    "heartbeat": lambda j, lease, step: j.heartbeat(lease, lease_s=300),
    "begin": lambda j, lease, step: j.begin(lease, kind=StepKind.MODEL_CALL, target="m", given={}),
    "resume": lambda j, lease, step: j.resume(lease, step),
    "finish_step": lambda j, lease, step: j.finish_step(lease, step, StepResult(state=StepState.DONE, output={})),
    "park": lambda j, lease, step: j.park(lease, step, CALL, wake_after_s=1),
    "succeed": lambda j, lease, step: j.succeed(lease, "answer"),
    "fail": lambda j, lease, step: j.fail(lease, code="c", message="m", retry_after_s=1, attempts_max=3),
    "die": lambda j, lease, step: j.die(lease, code="c", message="m"),
    "release": lambda j, lease, step: j.release(lease),
    "end_cancelled": lambda j, lease, step: j.end_cancelled(lease),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_stale_worker_changes_nothing(stores, database, write) -> None:
    task_id = await stores.submitted()
    async with present(database, "stale", "new"):
        stale = (await stores.claim(task_id, "stale")).lease
        step = await stores.begun(stale)
        if write == "succeed":
            await stores.journal.finish_step(stale, step, StepResult(state=StepState.DONE, output={}))
            model = await stores.begun(stale, StepKind.MODEL_CALL)
            await stores.journal.finish_step(stale, model, StepResult(state=StepState.DONE, output={}), responding=True)
        if write == "end_cancelled":
            await stores.tasks.cancel(ME, task_id, request())
        await run_out(database)
        fresh = (await stores.claim(task_id, "new")).lease
        before = await everything(database)
        with pytest.raises(LeaseLost):
            await WRITES[write](stores.journal, stale, step)
        assert await everything(database) == before
        await stores.journal.heartbeat(fresh, lease_s=300)


async def test_a_lease_that_was_given_back_is_worth_nothing(stores, database) -> None:
    task_id = await stores.submitted()
    lease = (await stores.claim(task_id)).lease
    step = await stores.begun(lease)
    await stores.journal.release(lease)
    before = await everything(database)
    for name, write in WRITES.items():
        with pytest.raises(LeaseLost):
            await write(stores.journal, lease, step)
        assert await everything(database) == before, name


async def test_a_cancel_stops_every_write_but_the_end_of_the_step(stores, database) -> None:
    task_id = await stores.submitted()
    lease = (await stores.claim(task_id)).lease
    step = await stores.begun(lease)
    assert (await stores.tasks.cancel(ME, task_id, request())).state is TaskState.CANCELLING
    for name in ("begin", "resume", "park", "succeed", "fail", "die"):
        with pytest.raises(CancelRequested):
            await WRITES[name](stores.journal, lease, step)
    assert await stores.journal.heartbeat(lease, lease_s=300) is TaskState.CANCELLING
    await WRITES["finish_step"](stores.journal, lease, step)
    await stores.journal.end_cancelled(lease)
    assert (await stores.tasks.get(ME, task_id)).state is TaskState.CANCELLED
    _, kept = await stores.tasks.list_steps(ME, task_id, after_sequence=0, limit=9)
    assert kept.state is StepState.DONE


LETS_GO = {name: WRITES[name] for name in ("release", "park", "fail")} | {
    "wait_long": lambda j, lease, step: j.release(lease, after_s=600),
}


@pytest.mark.parametrize("write", LETS_GO)
async def test_a_task_that_was_asked_to_rest_rests_as_soon_as_its_worker_lets_go(stores, database, write) -> None:
    task_id = await stores.submitted()
    claim = await stores.claim(task_id)
    step = await stores.begun(claim.lease)
    await stores.tasks.pause(ME, task_id, request())
    await LETS_GO[write](stores.journal, claim.lease, step)
    assert (await stores.tasks.get(ME, task_id)).state is TaskState.PAUSED
    assert await stores.claim(task_id) is None
    assert await due_rows(database) == 0, "nobody is woken for it"
    assert (await stores.tasks.resume(ME, task_id, "", request())).state is TaskState.RETRY
    again = await stores.claim(task_id)
    assert again.seconds_left == pytest.approx(claim.seconds_left, abs=60)


async def test_a_parent_that_was_asked_to_rest_rests_when_it_has_looked_at_its_children(stores, database) -> None:
    task_id = await stores.submitted()
    claim = await stores.claim(task_id)
    model = await stores.begun(claim.lease, StepKind.MODEL_CALL)
    await stores.journal.finish_step(claim.lease, model, StepResult(state=StepState.DONE, output={}))
    child = NewTask(session_id=claim.session_id, agent=AGENT, grant=GRANT, input="q", traceparent="",
                    parent_task_id=task_id, depth=1)  # fmt: skip
    await stores.children.start(claim.lease, [ChildStart(agent="a", given={}, task=child, refusal=None)])
    looking = await stores.claim(task_id)
    await stores.tasks.pause(ME, task_id, request())
    assert await stores.children.join(looking.lease, looking.steps[1:]) is None
    assert (await stores.tasks.get(ME, task_id)).state is TaskState.PAUSED
    assert await due_rows(database) == 0


async def test_the_claim_gives_back_the_whole_journal(stores) -> None:
    task_id = await stores.submitted()
    lease = (await stores.claim(task_id)).lease
    step = await stores.begun(lease)
    await stores.journal.finish_step(
        lease,
        step,
        StepResult(
            state=StepState.DONE, output={"x": "中"}, ids=CALL, item_ids=("mem_1",), token_count=7, call_count=1
        ),
    )
    await stores.journal.release(lease)
    claim = await stores.claim(task_id)
    _, kept = claim.steps
    assert (kept.id, kept.state, kept.output, kept.ids, kept.item_ids) == (
        step.id, StepState.DONE, {"x": "中"}, CALL, ("mem_1",),
    )  # fmt: skip
    assert (claim.used.steps, claim.used.tokens, claim.used.calls) == (2, 7, 1)
    assert (claim.agent, claim.question, claim.attempt) == (AGENT, "q", 1)
    assert [sorted(link.identity.roles) for link in claim.grant] == [["user"], ["agent", "user"]]


async def test_waiting_for_a_person_costs_no_time_and_its_deadline_is_absolute_else(stores, database) -> None:
    task_id = await stores.submitted()
    lease = (await stores.claim(task_id)).lease
    step = await stores.begun(lease)
    await stores.journal.park(lease, step, CALL, wake_after_s=0)
    await admin_execute(database, "UPDATE harness.tasks SET park_time = park_time - interval '1 hour',"
                                  " deadline_time = deadline_time - interval '1 hour'")  # fmt: skip
    claim = await stores.claim(task_id)
    assert 890 < claim.seconds_left < 900
    assert 3600 < claim.parked_s < 3700
    await stores.journal.finish_step(claim.lease, step, StepResult(state=StepState.DONE, output={}))
    await stores.journal.release(claim.lease)
    await admin_execute(database, "UPDATE harness.tasks SET deadline_time = deadline_time - interval '1 hour'")
    again = await stores.claim(task_id)
    assert -2720 < again.seconds_left < -2700


async def test_two_sweepers_wake_each_task_once(stores, database) -> None:
    ids = [await stores.submitted() for _ in range(8)]  # as many as are woken for at once
    await admin_execute(database, "UPDATE harness.due_tasks SET quiet_until = '-infinity'")
    await admin_execute(database, "DELETE FROM harness_queue.procrastinate_jobs")
    woken = await asyncio.gather(*(stores.due.wake_due(limit=500, quiet_s=60) for _ in range(4)))
    assert sum(woken) == len(ids)
    assert await stores.due.wake_due(limit=500, quiet_s=60) == 0


async def test_a_task_of_a_worker_that_is_gone_is_due_at_once(stores, database) -> None:
    task_id = await stores.submitted()
    async with present(database, "w"):
        await stores.claim(task_id, "w")
        assert await stores.due.wake_due(limit=9, quiet_s=60) == 0
    # The server frees the lock when it sees the connection end.
    assert await eventually(lambda: stores.due.wake_due(limit=9, quiet_s=60)) == 1


async def test_another_user_of_the_store_sees_nothing(stores) -> None:
    task_id = await stores.submitted()
    for stranger in (scope_of(user="u7", roles=("user", "auditor")), scope_of("other", "u42")):
        with pytest.raises(TaskNotFound):
            await stores.tasks.get(stranger, task_id)
        assert await stores.tasks.get_steps(stranger, task_id, ["x"]) == {}


async def due_rows(database) -> int:
    async with await psycopg.AsyncConnection.connect(database.admin_dsn) as admin:
        (number,) = await (await admin.execute("SELECT count(*) FROM harness.due_tasks")).fetchone()
    return number


async def everything(database) -> list[str]:
    """All rows of the schema as text."""
    found = []
    async with await psycopg.AsyncConnection.connect(database.admin_dsn) as admin:
        for table in ("tasks", "steps", "task_events", "due_tasks", "messages"):
            rows = await (await admin.execute(f"SELECT t::text FROM harness.{table} t ORDER BY 1".encode())).fetchall()
            found += [str(row) for row in rows]
    return found
