"""The rows of a new task, for whoever starts it: a caller, or the agent of another task."""

from __future__ import annotations

from dataclasses import dataclass

from memoryos_core.scope import Scope
from memoryos_postgres.transaction import Tx

from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_rows import QUERIES, WakeUp, Waking, add_event, wake
from memoryos_harness.domain.grants import extended, grant_to_json
from memoryos_harness.domain.states import TaskState
from memoryos_harness.ports import NewTask


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlace:
    """A new task's name, where its question stands in the session (0: nowhere), and how long its wake-up is trusted."""

    task_id: str
    question_sequence: int
    waking: Waking


async def insert_task(tx: Tx, sealed: SealedColumns, scope: Scope, task: NewTask, place: TaskPlace) -> None:
    """Insert a task with its first event, and wake a worker for it, in this transaction.

    What it may use up is pinned with the agent's definition, the version stays
    that of the file.
    """
    task_id = place.task_id
    grant = extended(task.grant, task.agent, session_id=task.session_id, task_id=task_id)
    pinned = task.agent if task.limits is None else task.agent.model_copy(update={"limits": task.limits})
    values = {
        "id": task_id,
        "agent_chain": list(task.grant[-1].identity.chain),
        "session_id": task.session_id,
        "question_sequence": place.question_sequence,
        "agent": task.agent.name,
        "agent_version": task.agent.version,
        "agent_label": task.agent_label,
        "sealed_agent": await sealed.seal_json(tx, scope, "tasks.agent", task_id, pinned.definition()),
        "sealed_grant": await sealed.seal_json(tx, scope, "tasks.grant", task_id, grant_to_json(grant)),
        "sealed_input": await sealed.seal_text(tx, scope, "tasks.input", task_id, task.input),
        "seconds": float(pinned.limits.seconds),
        "traceparent": task.traceparent,
        "parent_task_id": task.parent_task_id or None,
        "depth": task.depth,
        "priority": task.priority,
    }
    tx.defer(QUERIES["insert_task"], values)
    add_event(tx, scope, task_id, 1, TaskState.IDLE)
    wake(tx, scope, task_id, WakeUp(0.0, place.waking))
