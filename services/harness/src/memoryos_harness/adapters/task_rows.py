"""Rows of tasks, steps and events, and what several writers of them share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity
from memoryos_postgres import queries
from memoryos_postgres.transaction import Row, Tx

from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.states import StepKind, StepState, TaskState
from memoryos_harness.domain.tasks import CallIds, Step, Task, TaskEvent

QUERIES = queries.load("memoryos_harness")
QUEUE = "tasks"
JOB = "run_task"
NEWS_CHANNEL = "memoryos_harness_task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waking:
    """How long the sweeper trusts a wake-up before it sends another, and how many tasks a tenant may have held."""

    quiet_s: float
    slots: int


@dataclass(frozen=True, slots=True)
class WakeUp:
    """When to wake a worker, and how."""

    after_s: float
    waking: Waking


def owner_scope(tenant: str, user: str) -> Scope:
    """Give the scope in which workers see a task: its own user's rows and nothing else."""
    return Scope.of(Identity(tenant=tenant, user=user, roles=frozenset()))


def news_payload(tenant: str, task_id: str) -> str:
    """Give what a notification says: ids only."""
    return f"{task_id}/{tenant}"


def add_event(tx: Tx, scope: Scope, task_id: str, sequence: int, state: TaskState, step_id: str = "") -> None:
    """Insert an event and tell watchers, both with the commit."""
    tx.defer(
        QUERIES["insert_event"], {"task_id": task_id, "sequence": sequence, "state": str(state), "step_id": step_id}
    )
    tx.defer(QUERIES["notify_task"], {"payload": news_payload(scope.tenant, task_id)})


def wake(tx: Tx, scope: Scope, task_id: str, wake_up: WakeUp) -> None:
    """Set when the task is due and queue the job that wakes a worker then, in this transaction.

    Where its tenant's slots are taken the task waits for one, and no job is
    queued: so many jobs of one tenant at most stand before those of others.
    """
    waking = wake_up.waking
    job = {"queue": QUEUE, "task_name": JOB, "task_id": task_id, "after_s": wake_up.after_s}
    tx.defer(QUERIES["wake_task"], {**job, "quiet_s": waking.quiet_s, "slots": waking.slots})


def forget_due(tx: Tx, task_id: str, waking: Waking) -> None:
    """Let nobody be woken for a task that has ended or rests; its slot goes to the task that waits first."""
    tx.defer(QUERIES["clear_due"], {"task_id": task_id})
    give_slots(tx, waking)


def give_slots(tx: Tx, waking: Waking) -> None:
    """Wake workers for the tasks of the tenant that wait first, as many as slots are free now."""
    job = {"queue": QUEUE, "task_name": JOB}
    tx.defer_last(QUERIES["give_slots"], {**job, "quiet_s": waking.quiet_s, "slots": waking.slots})


async def read_task(tx: Tx, sealed: SealedColumns, scope: Scope, row: Row) -> Task:
    """Give the task of a row."""
    output = row["sealed_output"]
    agent = Agent.of(await sealed.open_json(tx, scope, "tasks.agent", row["id"], row["sealed_agent"]))
    return replace(
        read_bare_task(row),
        input=await sealed.open_text(tx, scope, "tasks.input", row["id"], row["sealed_input"]),
        output="" if output is None else await sealed.open_text(tx, scope, "tasks.output", row["id"], output),
        limits=agent.limits,
    )


def read_bare_task(row: Row) -> Task:
    """Give the task of a row without its contents."""
    return Task(
        id=row["id"],
        user=row["user_id"],
        chain=tuple(row["agent_chain"]),
        agent=row["agent"],
        agent_version=row["agent_version"],
        session_id=row["session_id"],
        state=TaskState(row["state"]),
        input="",
        output="",
        error_code=row["error_code"],
        error_message=row["error_message"],
        attempt=row["attempt"],
        lease_epoch=row["lease_epoch"],
        step_count=row["step_count"],
        traceparent=row["traceparent"],
        create_time=row["create_time"],
        update_time=row["update_time"],
        end_time=row["end_time"],
        parent_task_id=row["parent_task_id"] or "",
        depth=row["depth"],
        priority=row["priority"],
        agent_label=row["agent_label"],
        token_count=row["token_count"],
        call_count=row["call_count"],
        deadline_time=row["deadline_time"],
    )


async def read_step(tx: Tx, sealed: SealedColumns, scope: Scope, row: Row) -> Step:
    """Give the step of a row."""
    output = row["sealed_output"]
    return Step(
        id=row["id"],
        sequence=row["sequence"],
        kind=StepKind(row["kind"]),
        state=StepState(row["state"]),
        target=row["target"],
        input=await sealed.open_json(tx, scope, "steps.input", row["id"], row["sealed_input"]),
        output=None if output is None else await sealed.open_json(tx, scope, "steps.output", row["id"], output),
        ids=CallIds(call_id=row["call_id"], decision_id=row["decision_id"], review_id=row["review_id"]),
        item_ids=tuple(row["item_ids"]),
        lease_epoch=row["lease_epoch"],
        create_time=row["create_time"],
        end_time=row["end_time"],
        child_task_id=row["child_task_id"] or "",
    )


def read_event(row: Row) -> TaskEvent:
    """Give the event of a row."""
    return TaskEvent(
        sequence=row["sequence"],
        state=TaskState(row["state"]),
        step_id=row["step_id"],
        create_time=row["create_time"],
    )
