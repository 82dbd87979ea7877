"""Parents and children: who waits for whom, and who ends with whom.

Locks go from the top of a family to its bottom, siblings in order of their
names: whoever ends a task takes its parent's row first.
"""

from __future__ import annotations

from memoryos_audit import Actor, AuditEvent, Kind, Outcome, record
from memoryos_core.scope import Scope
from memoryos_postgres.transaction import Row, Tx

from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_rows import QUERIES, WakeUp, Waking, add_event, forget_due, wake
from memoryos_harness.domain.states import StepState, TaskState

NOT_KNOWN = {"outcome": "UNKNOWN", "error": "cancelled"}
"""Output of a step that was under way when its task was ended from outside."""


class TaskFamilies:
    """What the end of one task does to the tasks above and below it, in the transaction of that end."""

    def __init__(self, sealed: SealedColumns, *, waking: Waking) -> None:
        self._sealed = sealed
        self._waking = waking

    async def lock_parent(self, tx: Tx, task_id: str) -> None:
        """Lock the parent's row, if there is one: before the task's own."""
        await tx.fetch_one(QUERIES["lock_parent"], {"id": task_id})

    async def living_children(self, tx: Tx, task_id: str) -> bool:
        """Tell whether a child of the task has not ended."""
        return bool(await tx.fetch_value(QUERIES["living_children"], {"id": task_id}))

    async def wake_parent(self, tx: Tx, scope: Scope, task_id: str) -> None:
        """Wake the parent if it waits and no other child that it waits for goes on. The task has ended before."""
        parent_id = await tx.fetch_value(QUERIES["waiting_parent"], {"id": task_id})
        if parent_id is not None:
            wake(tx, scope, parent_id, WakeUp(0.0, self._waking))

    async def stop_below(self, tx: Tx, scope: Scope, task_id: str, rpc: str) -> bool:
        """Ask everything below a task to stop; True while a worker still holds something of it.

        What nobody holds is CANCELLED in this transaction, from the bottom up;
        the rest ends with its worker, and then what waits for it.
        """
        levels: list[list[Row]] = []
        above = [task_id]
        while above:
            rows = await tx.fetch_all(QUERIES["lock_children"], {"ids": above})
            levels.append(rows)
            above = [row["id"] for row in rows]
        alive: set[str] = set()
        for row in (row for level in reversed(levels) for row in level):
            if not await self.stop(tx, scope, row, rpc, held=row["live"] or row["id"] in alive):
                alive.add(row["parent_task_id"])
        return task_id in alive

    async def stop(self, tx: Tx, scope: Scope, row: Row, rpc: str, *, held: bool) -> bool:
        """Ask one task to stop whose row is locked; True when it is CANCELLED now, as nothing of it is `held`."""
        task_id = row["id"]
        if row["state"] != TaskState.CANCELLING:
            await self._move(tx, scope, task_id, TaskState.CANCELLING)
        if held:
            return False
        for step in await tx.fetch_all(QUERIES["open_steps"], {"task_id": task_id}):
            sealed = await self._sealed.seal_json(tx, scope, "steps.output", step["id"], dict(NOT_KNOWN))
            tx.defer(QUERIES["give_up_step"], {
                "task_id": task_id, "id": step["id"], "state": str(StepState.FAILED), "sealed_output": sealed,
                "epoch": row["lease_epoch"],
            })  # fmt: skip
        ended = await self._move(tx, scope, task_id, TaskState.CANCELLED)
        forget_due(tx, task_id, self._waking)
        record(tx, _finished(scope, ended, rpc))
        return True

    async def _move(self, tx: Tx, scope: Scope, task_id: str, state: TaskState) -> Row:
        row = await tx.fetch_one(
            QUERIES["cancel_task"], {"id": task_id, "state": str(state), "ended": state is TaskState.CANCELLED}
        )
        assert row is not None
        add_event(tx, scope, task_id, row["event_count"], state)
        return row


def _finished(scope: Scope, ended: Row, rpc: str) -> AuditEvent:
    """Give the audit row of a task that was ended from outside: by whom, and whose chain it was."""
    chain = (*ended["agent_chain"], ended["agent"])
    by_family = ended["parent_task_id"] is not None
    agent = Actor(scope.tenant, scope.user, f"agent:{scope.user}/{ended['agent']}", chain, ended["session_id"])
    return AuditEvent(
        kind=Kind.TASK_FINISHED,
        actor=agent if by_family else Actor.of(scope),
        service="harness",
        method=rpc,
        outcome=Outcome.ERROR,
        reason=str(TaskState.CANCELLED),
        target_type="task",
        target_ids=[ended["id"]],
        task_id=ended["id"],
        attributes={"session_id": ended["session_id"]},
    )
