"""Writes of a worker to the task that it holds: fenced by the lease epoch, each change of state with its event."""

from __future__ import annotations

from typing import Any

from memoryos_audit import Actor, AuditEvent, Kind, Outcome, record
from memoryos_core.errors import InternalError
from memoryos_core.scope import Scope
from memoryos_postgres.transaction import Row, Tx
from memoryos_telemetry.context import trace_id_of

from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_families import TaskFamilies
from memoryos_harness.adapters.task_rows import QUERIES, Waking, add_event, forget_due, owner_scope
from memoryos_harness.domain.states import ENDED, StepState, TaskState, may_become
from memoryos_harness.domain.tasks import CallIds, Lease, StepResult
from memoryos_harness.errors import CancelRequested, LeaseLost, PauseRequested

_DIED = "harness.task"
_RESTED_INSTEAD = (TaskState.WAITING_REVIEW, TaskState.WAITING_TASK, TaskState.FAILED)
"""States in which nobody holds a task: one that was asked to rest rests instead."""


class TaskMoves:
    """What the writers of the journal share."""

    def __init__(self, sealed: SealedColumns, *, waking: Waking) -> None:
        self._sealed = sealed
        self._waking = waking
        self._families = TaskFamilies(sealed, waking=waking)

    async def lock(self, tx: Tx, lease: Lease) -> Row:
        """Lock the task's row and give what decides on its next state."""
        row = await tx.fetch_one(QUERIES["lock_task"], {"id": lease.task_id})
        if row is None:
            raise LeaseLost
        return row

    async def move(
        self,
        tx: Tx,
        lease: Lease,
        wanted: TaskState,
        *,
        step_id: str = "",
        keep_cancelling: bool = False,
        held: bool = True,
        parked: bool = False,
        progress: bool = False,
        **changes: Any,
    ) -> Row:
        """Change the task under the fence and add the event; give the row's counters.

        Raises LeaseLost when the epoch is another one, and CancelRequested when
        the task was asked to stop, unless `keep_cancelling`. A task that was asked
        to rest begins no new step (PauseRequested) and rests where it would wait.
        """
        row = await self.lock(tx, lease)
        before, after = TaskState(row["state"]), wanted
        if before is TaskState.CANCELLING and wanted is not TaskState.CANCELLED:
            after = before
        elif row["pause_requested"] and changes.get("steps"):
            raise PauseRequested  # the transaction is undone with it
        elif row["pause_requested"] and wanted in _RESTED_INSTEAD:
            after = wanted = TaskState.PAUSED
            parked = True
        elif not may_become(before, wanted):
            if before in ENDED or row["lease_epoch"] != lease.epoch or not row["held"]:
                raise LeaseLost  # it went on without us
            raise InternalError(f"a task does not go from {before} to {wanted}")
        values = {
            "id": lease.task_id, "epoch": lease.epoch, "state": str(after), "held": held, "parked": parked,
            "progress": progress, "ended": after in ENDED, "events": 1, "steps": 0, "tokens": 0, "calls": 0,
            "stalled": 0, "charged_s": 0.0, "error_code": "", "error_message": "", "sealed_output": None, **changes,
        }  # fmt: skip
        moved = await tx.fetch_one(QUERIES["move_task"], values)
        if moved is None:
            raise LeaseLost
        if after is not wanted and not keep_cancelling:
            raise CancelRequested  # the transaction is undone with it
        add_event(tx, scope_of(lease), lease.task_id, moved["event_count"], after, step_id)
        if after is TaskState.PAUSED:
            forget_due(tx, lease.task_id, self._waking)
        return moved

    async def close_step(self, tx: Tx, lease: Lease, step_id: str, result: StepResult) -> None:
        """Journal what became of a step."""
        scope = scope_of(lease)
        tx.defer(
            QUERIES["finish_step"],
            {
                "task_id": lease.task_id,
                "id": step_id,
                "state": str(result.state),
                "sealed_output": await self._sealed.seal_json(tx, scope, "steps.output", step_id, result.output),
                "item_ids": list(result.item_ids),
                "epoch": lease.epoch,
                **id_columns(result.ids),
            },
        )

    async def give_up_steps(self, tx: Tx, lease: Lease, why: str) -> None:
        """Close what was under way: its outcome is not known here, and nobody asks again."""
        for row in await tx.fetch_all(QUERIES["open_steps"], {"task_id": lease.task_id}):
            sealed = await self._sealed.seal_json(
                tx, scope_of(lease), "steps.output", row["id"], {"outcome": "UNKNOWN", "error": why}
            )
            tx.defer(QUERIES["give_up_step"], {
                "task_id": lease.task_id, "id": row["id"], "state": str(StepState.FAILED), "sealed_output": sealed,
                "epoch": lease.epoch,
            })  # fmt: skip

    async def release(self, tx: Tx, lease: Lease, *, stalled: int = 0) -> None:
        """Give the lease back; a task that was asked to rest rests from now on."""
        row = await self.lock(tx, lease)
        if row["pause_requested"] and may_become(TaskState(row["state"]), TaskState.PAUSED):
            await self.move(tx, lease, TaskState.PAUSED, held=False, parked=True)
            return
        values = {"id": lease.task_id, "epoch": lease.epoch, "stalled": stalled}
        if not await tx.execute(QUERIES["release_task"], values):
            raise LeaseLost

    async def die(self, tx: Tx, lease: Lease, code: str, message: str) -> None:
        """End the task DEAD; everything below it is asked to stop."""
        await self._families.lock_parent(tx, lease.task_id)
        moved = await self.move(tx, lease, TaskState.DEAD, held=False, error_code=code, error_message=message)
        await self.give_up_steps(tx, lease, code)
        await self._families.stop_below(tx, scope_of(lease), lease.task_id, _DIED)
        await self.ended(tx, lease, moved, TaskState.DEAD, code)

    async def ended(self, tx: Tx, lease: Lease, moved: Row, state: TaskState, reason: str) -> None:
        """Record the end of a task that was moved to it, and wake the parent that waits for it."""
        forget_due(tx, lease.task_id, self._waking)
        event = AuditEvent(
            kind=Kind.TASK_FINISHED,
            actor=Actor(
                tenant=lease.tenant,
                user=lease.user,
                principal=f"agent:{lease.user}/{moved['agent']}",
                chain=(*moved["agent_chain"], moved["agent"]),
                session_id=moved["session_id"],
                task_id=lease.task_id,
            ),
            service="harness",
            outcome=Outcome.OK if state is TaskState.SUCCEEDED else Outcome.ERROR,
            reason=reason,
            target_type="task",
            target_ids=[lease.task_id],
            trace_id=trace_id_of(moved["traceparent"]),
        )
        record(tx, event)
        await self._families.wake_parent(tx, scope_of(lease), lease.task_id)


def scope_of(lease: Lease) -> Scope:
    """Give the scope of the task that a lease is of."""
    return owner_scope(lease.tenant, lease.user)


def id_columns(ids: CallIds) -> dict[str, str]:
    """Give the columns of a call's ids."""
    return {"call_id": ids.call_id, "decision_id": ids.decision_id, "review_id": ids.review_id}
