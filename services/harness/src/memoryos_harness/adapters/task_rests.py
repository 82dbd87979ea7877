"""What people do to tasks from outside: let them rest, go on, and be tried again, families together."""

from __future__ import annotations

from typing import Final

from memoryos_core.errors import InvalidField
from memoryos_core.scope import Scope
from memoryos_postgres import queries
from memoryos_postgres.transaction import Row, Tx

from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_rows import QUERIES, WakeUp, Waking, add_event, forget_due, wake
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.states import ENDED, TaskState
from memoryos_harness.errors import TaskEnded, TaskNotFound, TaskStateForbids

RESTS: Final = queries.load("memoryos_harness", "rests.sql")


class TaskRests:
    """Each method is part of the caller's transaction. Locks go from the top of a family to its bottom."""

    def __init__(self, sealed: SealedColumns, *, waking: Waking) -> None:
        self._sealed = sealed
        self._waking = waking

    async def pause(self, tx: Tx, scope: Scope, task_id: str) -> None:
        """Let a task rest, and all below it: at once where nobody holds it, else after the step under way."""
        top = await self._lock(tx, task_id)
        state = TaskState(top["state"])
        if state in ENDED:
            raise TaskEnded
        if state is TaskState.CANCELLING:
            raise TaskStateForbids(metadata={"state": str(state)})
        for row in (top, *await self._below(tx, task_id)):
            if row["state"] not in (TaskState.PAUSED, TaskState.CANCELLING):
                await self._pause(tx, scope, row)

    async def resume(self, tx: Tx, scope: Scope, task_id: str, note: str) -> None:
        """Let a task at rest go on, and what rests below it; `note` is the answer of the call that was handed over."""
        top = await self._lock(tx, task_id)
        if top["state"] in ENDED:
            raise TaskEnded
        rows = [top, *await self._below(tx, task_id)]
        ids = [row["id"] for row in rows]
        handed = {row["task_id"]: row["id"] for row in await tx.fetch_all(RESTS["open_hand_offs"], {"ids": ids})}
        if note and task_id not in handed:
            raise InvalidField.of("note", "only for a task whose call was handed over to a person")
        taken_back = await tx.execute(RESTS["take_pause_back"], {"ids": ids})
        if top["state"] != TaskState.PAUSED and not taken_back:
            raise TaskStateForbids(metadata={"state": str(top["state"])})
        if task_id in handed and top["state"] == TaskState.PAUSED:
            step_id = handed.pop(task_id)
            sealed = await self._sealed.seal_json(tx, scope, "steps.output", step_id, {"note": note})
            tx.defer(RESTS["answer_hand_off"], {"task_id": task_id, "id": step_id, "sealed_output": sealed})
        for row in rows:
            # What a person must take over goes on by their word for it alone.
            if row["state"] == TaskState.PAUSED and row["id"] not in handed:
                await self._move(tx, scope, row["id"], RESTS["resume_task"], {})

    async def retry(self, tx: Tx, scope: Scope, task_id: str) -> None:
        """Have a DEAD or FAILED task tried again, with a new count of attempts."""
        row = await self._lock(tx, task_id)
        state = TaskState(row["state"])
        if state not in (TaskState.DEAD, TaskState.FAILED):
            raise TaskStateForbids(metadata={"state": str(state)})
        task = await tx.fetch_one(QUERIES["get_task"], {"id": task_id})
        assert task is not None
        if task["parent_task_id"] is not None and state is TaskState.DEAD:
            # Its parent has its answer; another try is the parent's to ask for.
            raise TaskStateForbids("The task belongs to another one that went on.", metadata={"state": str(state)})
        agent = Agent.of(await self._sealed.open_json(tx, scope, "tasks.agent", task_id, task["sealed_agent"]))
        await self._move(tx, scope, task_id, RESTS["retry_task"], {"seconds": float(agent.limits.seconds)})

    async def _lock(self, tx: Tx, task_id: str) -> Row:
        row = await tx.fetch_one(QUERIES["lock_task"], {"id": task_id})
        if row is None:
            raise TaskNotFound
        return row

    async def _below(self, tx: Tx, task_id: str) -> list[Row]:
        found: list[Row] = []
        above = [task_id]
        while above:
            rows = await tx.fetch_all(QUERIES["lock_children"], {"ids": above})
            found += rows
            above = [row["id"] for row in rows]
        return found

    async def _pause(self, tx: Tx, scope: Scope, row: Row) -> None:
        if row["live"]:
            tx.defer(RESTS["ask_to_pause"], {"id": row["id"]})
            return
        paused = await tx.fetch_one(RESTS["pause_task"], {"id": row["id"]})
        assert paused is not None
        add_event(tx, scope, row["id"], paused["event_count"], TaskState.PAUSED)
        forget_due(tx, row["id"], self._waking)

    async def _move(self, tx: Tx, scope: Scope, task_id: str, statement: str, params: dict[str, float]) -> None:
        row = await tx.fetch_one(statement, {"id": task_id, **params})
        assert row is not None
        add_event(tx, scope, task_id, row["event_count"], TaskState.RETRY)
        wake(tx, scope, task_id, WakeUp(0.0, self._waking))
