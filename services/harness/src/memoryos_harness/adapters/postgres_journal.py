"""TaskJournal on PostgreSQL: each method is one transaction, fenced by the lease epoch in `move_task`."""

from __future__ import annotations

from memoryos_core.canonical import JsonValue
from memoryos_core.errors import SealedKeyUnavailable
from memoryos_core.ids import IdSource
from memoryos_core.scope import Scope
from memoryos_postgres import Database
from memoryos_postgres.transaction import Row, Tx

from memoryos_harness.adapters.message_rows import append_messages
from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_families import TaskFamilies
from memoryos_harness.adapters.task_moves import TaskMoves, id_columns, scope_of
from memoryos_harness.adapters.task_rows import (
    QUERIES,
    WakeUp,
    Waking,
    add_event,
    give_slots,
    owner_scope,
    read_step,
    wake,
)
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.grants import grant_from_json
from memoryos_harness.domain.sessions import MessageDraft, MessageRole
from memoryos_harness.domain.states import STATE_OF_STEP, StepKind, StepState, TaskState
from memoryos_harness.domain.tasks import CallIds, Counters, Lease, Step, StepResult
from memoryos_harness.errors import LeaseLost
from memoryos_harness.ports import Claim

STEPS_MAX = 500
"""Most steps of a task: the ceiling of `limits.steps`."""


class PostgresJournal:
    """See `TaskJournal`."""

    def __init__(self, database: Database, sealed: SealedColumns, ids: IdSource, *, waking: Waking) -> None:
        self._database = database
        self._sealed = sealed
        self._ids = ids
        self._waking = waking
        self._families = TaskFamilies(sealed, waking=waking)
        self._moves = TaskMoves(sealed, waking=waking)

    async def claim(self, tenant: str, task_id: str, *, holder: str, lease_s: float) -> Claim | None:
        """See `TaskJournal.claim`."""
        async with self._database.unscoped() as tx:
            user = await tx.fetch_value(QUERIES["user_of_due_task"], {"tenant": tenant, "task_id": task_id})
        if user is None:
            return None
        taken = await self._take(owner_scope(tenant, user), task_id, holder=holder, lease_s=lease_s)
        return None if taken is None else await self._open(*taken)

    async def _take(self, scope: Scope, task_id: str, *, holder: str, lease_s: float) -> tuple[Lease, Row] | None:
        """Take the task. Short: other claims of the tenant wait for this transaction."""
        async with self._database.scoped(scope) as tx:
            await tx.fetch_all(QUERIES["lock_slots"])
            before = await tx.fetch_one(QUERIES["look_at_claim"], {"id": task_id, "slots": self._waking.slots})
            if before is None:
                return None
            if before["held"] >= self._waking.slots:
                tx.defer(QUERIES["wait_for_slot"], {"task_id": task_id})  # for its turn
                return None
            row = await tx.fetch_one(QUERIES["claim_task"], {"id": task_id, "holder": holder, "lease_s": lease_s})
            if row is None:
                return None
            user = scope.user
            lease = Lease(tenant=scope.tenant, user=user, task_id=task_id, epoch=row["lease_epoch"], holder=holder)
            if before["state"] == TaskState.FAILED:
                add_event(tx, scope, task_id, row["event_count"], TaskState.RETRY)
            if row["pause_requested"]:
                await self._moves.move(tx, lease, TaskState.PAUSED, held=False, parked=True)
                return None
            tx.defer(QUERIES["set_due"], {"task_id": task_id, "after_s": lease_s, "holder": holder})
            give_slots(tx, self._waking)  # the place in the queue that it had
            return lease, row

    async def _open(self, lease: Lease, row: Row) -> Claim | None:
        """Give what the task and its journal say; None when that cannot be read any more, and the task has ended."""
        scope = scope_of(lease)
        async with self._database.scoped(scope) as tx:
            place = {"task_id": lease.task_id, "after": 0, "limit": STEPS_MAX}
            try:
                return await self._read_claim(tx, scope, lease, row, await tx.fetch_all(QUERIES["list_steps"], place))
            except SealedKeyUnavailable:
                await self._end_unreadable(tx, lease, TaskState(row["state"]))
                return None

    async def heartbeat(self, lease: Lease, *, lease_s: float) -> TaskState:
        """See `TaskJournal.heartbeat`."""
        async with self._database.scoped(scope_of(lease)) as tx:
            state = await tx.fetch_value(
                QUERIES["extend_lease"], {"id": lease.task_id, "epoch": lease.epoch, "lease_s": lease_s}
            )
            if state is None:
                raise LeaseLost
            due = {"task_id": lease.task_id, "after_s": lease_s, "holder": lease.holder}
            tx.defer(QUERIES["set_due"], due)
            return TaskState(state)

    async def begin(self, lease: Lease, *, kind: StepKind, target: str, given: JsonValue) -> Step:
        """See `TaskJournal.begin`."""
        scope = scope_of(lease)
        async with self._database.scoped(scope) as tx:
            step_id = self._ids.new("step")
            moved = await self._moves.move(tx, lease, STATE_OF_STEP[kind], step_id=step_id, steps=1)
            tx.defer(
                QUERIES["insert_step"],
                {
                    "task_id": lease.task_id,
                    "sequence": moved["step_count"],
                    "id": step_id,
                    "kind": str(kind),
                    "target": target,
                    "sealed_input": await self._sealed.seal_json(tx, scope, "steps.input", step_id, given),
                    "epoch": lease.epoch,
                },
            )
            return Step(
                id=step_id,
                sequence=moved["step_count"],
                kind=kind,
                state=StepState.STARTED,
                target=target,
                input=given,
                output=None,
                ids=CallIds(),
                item_ids=(),
                lease_epoch=lease.epoch,
                create_time=moved["update_time"],
                end_time=None,
            )

    async def resume(self, lease: Lease, step: Step) -> Step:
        """See `TaskJournal.resume`."""
        async with self._database.scoped(scope_of(lease)) as tx:
            await self._moves.move(tx, lease, STATE_OF_STEP[step.kind], step_id=step.id)
            tx.defer(QUERIES["restart_step"], {"task_id": lease.task_id, "id": step.id, "epoch": lease.epoch})
            return step

    async def finish_step(self, lease: Lease, step: Step, result: StepResult, *, responding: bool = False) -> None:
        """See `TaskJournal.finish_step`."""
        async with self._database.scoped(scope_of(lease)) as tx:
            wanted = TaskState.RESPONDING if responding else STATE_OF_STEP[step.kind]
            await self._moves.move(
                tx,
                lease,
                wanted,
                step_id=step.id,
                keep_cancelling=True,
                tokens=result.token_count,
                calls=result.call_count,
                progress=result.state is StepState.DONE or step.kind is StepKind.TOOL_CALL,
            )
            await self._moves.close_step(tx, lease, step.id, result)

    async def park(self, lease: Lease, step: Step, ids: CallIds, *, wake_after_s: float) -> None:
        """See `TaskJournal.park`."""
        scope = scope_of(lease)
        async with self._database.scoped(scope) as tx:
            row = await self._moves.lock(tx, lease)
            if row["state"] == TaskState.WAITING_REVIEW:
                await self._moves.release(tx, lease)
            else:
                await self._moves.move(
                    tx, lease, TaskState.WAITING_REVIEW, step_id=step.id, held=False, parked=True, progress=True
                )
                tx.defer(
                    QUERIES["park_step"],
                    {"task_id": lease.task_id, "id": step.id, "epoch": lease.epoch, **id_columns(ids)},
                )
            wake(tx, scope, lease.task_id, WakeUp(wake_after_s, self._waking))

    async def rest(self, lease: Lease, step: Step | None = None) -> None:
        """See `TaskJournal.rest`."""
        step_id, progress = ("", False) if step is None else (step.id, True)
        async with self._database.scoped(scope_of(lease)) as tx:
            await self._moves.move(
                tx, lease, TaskState.PAUSED, step_id=step_id, held=False, parked=True, progress=progress
            )

    async def succeed(self, lease: Lease, text: str) -> None:
        """See `TaskJournal.succeed`."""
        scope = scope_of(lease)
        async with self._database.scoped(scope) as tx:
            await self._families.lock_parent(tx, lease.task_id)
            row = await self._moves.lock(tx, lease)
            if row["state"] != TaskState.RESPONDING:
                await self._moves.move(tx, lease, TaskState.RESPONDING)
            sealed = await self._sealed.seal_text(tx, scope, "tasks.output", lease.task_id, text)
            moved = await self._moves.move(tx, lease, TaskState.SUCCEEDED, held=False, sealed_output=sealed)
            if moved["parent_task_id"] is None:
                answer = MessageDraft(role=MessageRole.ASSISTANT, content=text)
                await append_messages(tx, self._sealed, self._ids, scope, moved["session_id"], [answer])
            await self._moves.ended(tx, lease, moved, TaskState.SUCCEEDED, "")

    async def fail(
        self, lease: Lease, *, code: str, message: str, retry_after_s: float, attempts_max: int
    ) -> TaskState:
        """See `TaskJournal.fail`."""
        scope = scope_of(lease)
        async with self._database.scoped(scope) as tx:
            await self._families.lock_parent(tx, lease.task_id)
            row = await self._moves.lock(tx, lease)
            if row["stalled_attempts"] + 1 >= attempts_max:
                await self._moves.die(tx, lease, code, message)
                return TaskState.DEAD
            await self._moves.move(
                tx, lease, TaskState.FAILED, held=False, stalled=1, error_code=code, error_message=message
            )
            wake(tx, scope, lease.task_id, WakeUp(retry_after_s, self._waking))
            return TaskState.FAILED

    async def die(self, lease: Lease, *, code: str, message: str) -> None:
        """See `TaskJournal.die`."""
        async with self._database.scoped(scope_of(lease)) as tx:
            await self._moves.die(tx, lease, code, message)

    async def end_cancelled(self, lease: Lease) -> None:
        """See `TaskJournal.end_cancelled`."""
        async with self._database.scoped(scope_of(lease)) as tx:
            await self._families.lock_parent(tx, lease.task_id)
            row = await self._moves.lock(tx, lease)
            if row["state"] != TaskState.CANCELLING:
                raise LeaseLost  # ended by the one who asked
            if await self._families.living_children(tx, lease.task_id):
                await self._moves.release(tx, lease)  # the end of the last one wakes it
                return
            moved = await self._moves.move(tx, lease, TaskState.CANCELLED, held=False, keep_cancelling=True)
            await self._moves.give_up_steps(tx, lease, "cancelled")
            await self._moves.ended(tx, lease, moved, TaskState.CANCELLED, str(TaskState.CANCELLED))

    async def release(self, lease: Lease, *, after_s: float = 0.0, stalled: bool = False) -> None:
        """See `TaskJournal.release`."""
        scope = scope_of(lease)
        async with self._database.scoped(scope) as tx:
            await self._moves.release(tx, lease, stalled=int(stalled))
            wake(tx, scope, lease.task_id, WakeUp(after_s, self._waking))

    async def _read_claim(self, tx: Tx, scope: Scope, lease: Lease, row: Row, steps: list[Row]) -> Claim:
        opened = self._sealed
        task_id = lease.task_id
        agent = Agent.of(await opened.open_json(tx, scope, "tasks.agent", task_id, row["sealed_agent"]))
        grant = await opened.open_json(tx, scope, "tasks.grant", task_id, row["sealed_grant"])
        return Claim(
            lease=lease,
            state=TaskState(row["state"]),
            agent=agent,
            grant=grant_from_json(grant, agent, session_id=row["session_id"], task_id=task_id),
            session_id=row["session_id"],
            question=await opened.open_text(tx, scope, "tasks.input", task_id, row["sealed_input"]),
            question_sequence=row["question_sequence"],
            steps=tuple([await read_step(tx, opened, scope, step) for step in steps]),
            used=Counters(steps=row["step_count"], tokens=row["token_count"], calls=row["call_count"]),
            attempt=row["attempt"],
            stalled_attempts=row["stalled_attempts"],
            seconds_left=row["seconds_left"],
            parked_s=row["parked_s"],
            claim_time=row["claim_time"],
            traceparent=row["traceparent"],
        )

    async def _end_unreadable(self, tx: Tx, lease: Lease, state: TaskState) -> None:
        """End a task that nobody can carry on: no new key is made for an erased user to say so."""
        if state is TaskState.CANCELLING:
            moved = await self._moves.move(tx, lease, TaskState.CANCELLED, held=False)
            await self._moves.ended(tx, lease, moved, TaskState.CANCELLED, str(TaskState.CANCELLED))
        else:
            code, message = SealedKeyUnavailable.reason.lower(), "What the task needs was erased."
            moved = await self._moves.move(
                tx, lease, TaskState.DEAD, held=False, error_code=code, error_message=message
            )
            await self._moves.ended(tx, lease, moved, TaskState.DEAD, code)
