"""ChildTasks on PostgreSQL: a parent's step and its child's row are one transaction, and so is their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_core.crashpoints import crash_point
from memoryos_core.ids import IdSource
from memoryos_core.scope import Scope
from memoryos_postgres import Database
from memoryos_postgres.transaction import Row, Tx

from memoryos_harness.adapters.new_tasks import TaskPlace, insert_task
from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_moves import TaskMoves, scope_of
from memoryos_harness.adapters.task_rows import QUERIES, WakeUp, Waking, wake
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.children import EndedChild, child_result
from memoryos_harness.domain.states import StepKind, StepState, TaskState
from memoryos_harness.domain.tasks import NO_CALL, Lease, Step, StepResult
from memoryos_harness.ports import ChildStart, Joined, NewTask

LOOK_S: Final = 300.0
"""A parent that waits is looked at so often, should the wake-up by its last child have been lost."""


class PostgresChildren:
    """See `ChildTasks`."""

    def __init__(self, database: Database, sealed: SealedColumns, ids: IdSource, *, waking: Waking) -> None:
        self._database = database
        self._sealed = sealed
        self._ids = ids
        self._waking = waking
        self._moves = TaskMoves(sealed, waking=waking)

    async def start(self, lease: Lease, starts: Sequence[ChildStart]) -> tuple[Step, ...]:
        """See `ChildTasks.start`."""
        async with self._database.scoped(scope_of(lease)) as tx:
            steps = [await self._start(tx, lease, start) for start in starts]
            if any(step.child_task_id for step in steps):
                await self._moves.move(
                    tx, lease, TaskState.WAITING_TASK, step_id=steps[-1].id, held=False, parked=True, progress=True
                )
                wake(tx, scope_of(lease), lease.task_id, WakeUp(LOOK_S, self._waking))
            await tx.run_deferred()
            crash_point("harness.child.before_commit")
        return tuple(steps)

    async def join(self, lease: Lease, steps: Sequence[Step]) -> Joined | None:
        """See `ChildTasks.join`."""
        scope = scope_of(lease)
        async with self._database.scoped(scope) as tx:
            before = await self._moves.lock(tx, lease)
            rows = await tx.fetch_all(QUERIES["children_of_steps"], {"task_id": lease.task_id})
            if any(row["end_time"] is None for row in rows):
                await self._wait_on(tx, lease, TaskState(before["state"]))
                return None
            children = {row["step_id"]: row for row in rows}
            results = [(step, await self._result(tx, scope, children.get(step.id))) for step in steps]
            took_s = max((_seconds(step) - children[step.id]["seconds_left"] for step in steps if step.id in children),
                         default=0.0)  # fmt: skip
            for step, result in results:
                await self._moves.move(
                    tx,
                    lease,
                    TaskState.TOOL_CALLING,
                    step_id=step.id,
                    keep_cancelling=True,
                    progress=True,
                    tokens=result.token_count,
                    calls=result.call_count,
                    charged_s=max(0.0, took_s) if step is steps[-1] else 0.0,
                )
                await self._moves.close_step(tx, lease, step.id, result)
            return Joined(results=tuple(results), seconds=max(0.0, took_s))

    async def _wait_on(self, tx: Tx, lease: Lease, state: TaskState) -> None:
        """Give the lease back; a task that was resumed, or fails over, waits again."""
        if state not in (TaskState.WAITING_TASK, TaskState.CANCELLING):
            await self._moves.move(tx, lease, TaskState.TOOL_CALLING)
            await self._moves.move(tx, lease, TaskState.WAITING_TASK, held=False, parked=True)
        else:
            await self._moves.release(tx, lease)
        wake(tx, scope_of(lease), lease.task_id, WakeUp(LOOK_S, self._waking))

    async def _start(self, tx: Tx, lease: Lease, start: ChildStart) -> Step:
        """Journal one call: STARTED with its task, or closed with what the model is told."""
        scope, step_id = scope_of(lease), self._ids.new("step")
        moved = await self._moves.move(tx, lease, TaskState.TOOL_CALLING, step_id=step_id, steps=1)
        child_id = self._ids.new("task") if start.task is not None else ""
        tx.defer(
            QUERIES["insert_child_step"],
            {
                "task_id": lease.task_id,
                "sequence": moved["step_count"],
                "id": step_id,
                "target": start.agent,
                "sealed_input": await self._sealed.seal_json(tx, scope, "steps.input", step_id, start.given),
                "epoch": lease.epoch,
                "child_task_id": child_id or None,
            },
        )
        if start.task is not None:
            place = TaskPlace(task_id=child_id, question_sequence=0, waking=self._waking)
            await insert_task(tx, self._sealed, scope, start.task, place)
            record(tx, _started(scope, child_id, start.task))
        if start.refusal is not None:
            await self._moves.close_step(tx, lease, step_id, start.refusal)
        return Step(
            id=step_id, sequence=moved["step_count"], kind=StepKind.CHILD_TASK,
            state=StepState.STARTED if start.refusal is None else start.refusal.state, target=start.agent,
            input=start.given, output=None if start.refusal is None else start.refusal.output, ids=NO_CALL,
            item_ids=(), lease_epoch=lease.epoch, create_time=moved["update_time"],
            end_time=None if start.refusal is None else moved["update_time"], child_task_id=child_id,
        )  # fmt: skip

    async def _result(self, tx: Tx, scope: Scope, row: Row | None) -> StepResult:
        if row is None:  # started by nobody: there is no such step, unless a row was lost
            return StepResult(state=StepState.FAILED, output={"outcome": "UNKNOWN", "error": "child_lost"})
        output, is_json = "", False
        if row["sealed_output"] is not None:
            output = await self._sealed.open_text(tx, scope, "tasks.output", row["id"], row["sealed_output"])
            agent = Agent.of(await self._sealed.open_json(tx, scope, "tasks.agent", row["id"], row["sealed_agent"]))
            is_json = agent.output_schema is not None
        return child_result(
            EndedChild(
                state=TaskState(row["state"]),
                output=output,
                output_is_json=is_json,
                error_code=row["error_code"],
                error_message=row["error_message"],
                token_count=row["token_count"],
                call_count=row["call_count"],
            )
        )


def _seconds(step: Step) -> float:
    given: Any = step.input
    return float(given["seconds"])


def _started(scope: Scope, task_id: str, task: NewTask) -> AuditEvent:
    chain = (*task.grant[-1].identity.chain, task.agent.name)
    return AuditEvent(
        kind=Kind.TASK_STARTED,
        actor=Actor(scope.tenant, scope.user, f"agent:{scope.user}/{task.agent.name}", chain, task.session_id, task_id),
        service="harness",
        target_type="task",
        target_ids=[task_id],
        task_id=task_id,
        attributes={
            "session_id": task.session_id, "agent_version": task.agent.version, "parent_task_id": task.parent_task_id,
        },
    )  # fmt: skip
