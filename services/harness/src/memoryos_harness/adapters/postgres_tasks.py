"""TaskStore on PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_core.crashpoints import crash_point
from memoryos_core.ids import IdSource
from memoryos_core.scope import Scope
from memoryos_postgres import Database
from memoryos_postgres.idempotency import Idempotency
from memoryos_postgres.session_facts import carry_over
from memoryos_postgres.transaction import Tx

from memoryos_harness.adapters.message_rows import append_messages
from memoryos_harness.adapters.new_tasks import TaskPlace, insert_task
from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_families import TaskFamilies
from memoryos_harness.adapters.task_rests import RESTS, TaskRests
from memoryos_harness.adapters.task_rows import QUERIES, Waking, read_bare_task, read_event, read_step, read_task
from memoryos_harness.domain.sessions import MessageDraft, MessageRole
from memoryos_harness.domain.states import ENDED, TaskState
from memoryos_harness.domain.tasks import Step, Task, TaskEvent, TaskFilter, TaskListPlace, TaskPage
from memoryos_harness.errors import TaskEnded, TaskNotFound
from memoryos_harness.ports import NewTask, Request


class PostgresTasks:
    """See `TaskStore`."""

    def __init__(
        self, database: Database, sealed: SealedColumns, idempotency: Idempotency, ids: IdSource, *, waking: Waking
    ) -> None:
        self._database = database
        self._sealed = sealed
        self._idempotency = idempotency
        self._ids = ids
        self._waking = waking
        self._families = TaskFamilies(sealed, waking=waking)
        self._rests = TaskRests(sealed, waking=waking)

    async def submit(self, scope: Scope, task: NewTask, request: Request) -> Task:
        """See `TaskStore.submit`."""
        async with self._database.scoped(scope) as tx:
            stored = await self._idempotency.begin(tx, scope, request.rpc, request.request_id, request.body)
            task_id = stored.decode() if stored else self._ids.new("task")
            if stored is None:
                question = MessageDraft(role=MessageRole.USER, content=task.input)
                sequence = await append_messages(tx, self._sealed, self._ids, scope, task.session_id, [question])
                place = TaskPlace(task_id=task_id, question_sequence=sequence, waking=self._waking)
                await insert_task(tx, self._sealed, scope, task, place)
                record(tx, _audit(Kind.TASK_STARTED, scope, task_id, task.session_id, request.rpc, task.agent.version))
                await self._idempotency.finish(tx, scope, request.rpc, request.request_id, task_id.encode())
            crash_point("harness.request.before_commit")
        crash_point("harness.request.after_commit")
        return await self.get(scope, task_id)

    async def get(self, scope: Scope, task_id: str) -> Task:
        """See `TaskStore.get`."""
        async with self._database.scoped(scope) as tx:
            return await self._get(tx, scope, task_id)

    async def cancel(self, scope: Scope, task_id: str, request: Request) -> Task:
        """See `TaskStore.cancel`."""
        return await self._once(scope, task_id, request, lambda tx: self._cancel(tx, scope, task_id, request))

    async def pause(self, scope: Scope, task_id: str, request: Request) -> Task:
        """See `TaskStore.pause`."""

        async def pause(tx: Tx) -> None:
            await self._rests.pause(tx, scope, task_id)
            record(tx, _asked(Kind.TASK_PAUSED, scope, task_id, request.rpc))

        return await self._once(scope, task_id, request, pause)

    async def resume(self, scope: Scope, task_id: str, note: str, request: Request) -> Task:
        """See `TaskStore.resume`."""

        async def resume(tx: Tx) -> None:
            await self._rests.resume(tx, scope, task_id, note)
            record(tx, _asked(Kind.TASK_RESUMED, scope, task_id, request.rpc))

        return await self._once(scope, task_id, request, resume)

    async def retry(self, scope: Scope, task_id: str, request: Request) -> Task:
        """See `TaskStore.retry`."""

        async def retry(tx: Tx) -> None:
            await self._rests.retry(tx, scope, task_id)
            record(tx, _asked(Kind.TASK_RESUMED, scope, task_id, request.rpc))

        return await self._once(scope, task_id, request, retry)

    async def _once(
        self, scope: Scope, task_id: str, request: Request, change: Callable[[Tx], Awaitable[None]]
    ) -> Task:
        """Change a task unless this request has already done so; give the task as it stands now."""
        async with self._database.scoped(scope) as tx:
            stored = await self._idempotency.begin(tx, scope, request.rpc, request.request_id, request.body)
            if stored is None:
                await change(tx)
                await self._idempotency.finish(tx, scope, request.rpc, request.request_id, task_id.encode())
            crash_point("harness.request.before_commit")
        crash_point("harness.request.after_commit")
        return await self.get(scope, task_id)

    async def list(self, scope: Scope, which: TaskFilter, *, after: TaskListPlace | None, limit: int) -> TaskPage:
        """See `TaskStore.list`."""
        whose = "" if which.all_users else " AND user_id = core.user_name()"
        params = {
            "before_time": after.create_time if after else "infinity",
            "before_id": after.id if after else "",
            "states": [str(state) for state in which.states],
            "session_id": which.session_id,
            "agent": which.agent,
            "parent_task_id": which.parent_task_id,
            "limit": limit + 1,
        }
        async with self._database.scoped(scope) as tx:
            rows = await tx.fetch_all(RESTS["list_tasks"].replace("/*whose*/", whose), params)
            shown = rows[:limit]
            if which.all_users:
                tasks = [read_bare_task(row) for row in shown]
            else:
                tasks = [await read_task(tx, self._sealed, scope, row) for row in shown]
        more = len(rows) > limit
        place = TaskListPlace(shown[-1]["create_time"], shown[-1]["id"]) if more else None
        return TaskPage(tasks=tuple(tasks), next=place)

    async def list_steps(self, scope: Scope, task_id: str, *, after_sequence: int, limit: int) -> tuple[Step, ...]:
        """See `TaskStore.list_steps`."""
        async with self._database.scoped(scope) as tx:
            await self._exists(tx, scope, task_id)
            rows = await tx.fetch_all(
                QUERIES["list_steps"], {"task_id": task_id, "after": after_sequence, "limit": limit}
            )
            return tuple([await read_step(tx, self._sealed, scope, row) for row in rows])

    async def get_steps(self, scope: Scope, task_id: str, step_ids: Sequence[str]) -> Mapping[str, Step]:
        """See `TaskStore.get_steps`."""
        async with self._database.scoped(scope) as tx:
            rows = await tx.fetch_all(QUERIES["steps_by_id"], {"task_id": task_id, "ids": list(set(step_ids))})
            return {row["id"]: await read_step(tx, self._sealed, scope, row) for row in rows}

    async def events(self, scope: Scope, task_id: str, *, after_sequence: int, limit: int) -> tuple[TaskEvent, ...]:
        """See `TaskStore.events`."""
        async with self._database.scoped(scope) as tx:
            await self._exists(tx, scope, task_id)
            rows = await tx.fetch_all(
                QUERIES["list_events"], {"task_id": task_id, "after": after_sequence, "limit": limit}
            )
            return tuple(read_event(row) for row in rows)

    async def _get(self, tx: Tx, scope: Scope, task_id: str) -> Task:
        row = await tx.fetch_one(QUERIES["get_task"], {"id": task_id})
        if row is None:
            raise TaskNotFound
        carry_over(tx, scope, [row["session_id"]])
        return await read_task(tx, self._sealed, scope, row)

    async def _exists(self, tx: Tx, scope: Scope, task_id: str) -> None:
        row = await tx.fetch_one(QUERIES["get_task"], {"id": task_id})
        if row is None:
            raise TaskNotFound
        carry_over(tx, scope, [row["session_id"]])  # who reads a task has seen what its session has

    async def _cancel(self, tx: Tx, scope: Scope, task_id: str, request: Request) -> None:
        """CANCELLING, and all below it; CANCELLED in the same transaction where no worker lives that could end it."""
        await self._families.lock_parent(tx, task_id)
        row = await tx.fetch_one(QUERIES["lock_task"], {"id": task_id})
        if row is None:
            raise TaskNotFound
        state = TaskState(row["state"])
        if state is TaskState.CANCELLED:
            return
        if state in ENDED:
            raise TaskEnded
        held = await self._families.stop_below(tx, scope, task_id, request.rpc) or row["live"]
        if await self._families.stop(tx, scope, row, request.rpc, held=held):
            await self._families.wake_parent(tx, scope, task_id)


def _audit(kind: Kind, scope: Scope, task_id: str, session_id: str, rpc: str, version: str) -> AuditEvent:
    return AuditEvent(
        kind=kind,
        actor=Actor.of(scope),
        service="harness",
        method=rpc,
        target_type="task",
        target_ids=[task_id],
        task_id=task_id,
        attributes={"session_id": session_id, "agent_version": version},
    )


def _asked(kind: Kind, scope: Scope, task_id: str, rpc: str) -> AuditEvent:
    return AuditEvent(
        kind=kind,
        actor=Actor.of(scope),
        service="harness",
        method=rpc,
        target_type="task",
        target_ids=[task_id],
        task_id=task_id,
    )
