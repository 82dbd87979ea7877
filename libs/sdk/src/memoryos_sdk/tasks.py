"""Tasks: durable runs of an agent. The client may leave and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from memoryos.harness.v1 import tasks_pb2

from memoryos_sdk.errors import DeadlineExceeded, Unavailable
from memoryos_sdk.invocation import Invocation, new_request_id
from memoryos_sdk.names import number
from memoryos_sdk.paging import Pager
from memoryos_sdk.task_values import (
    ENDED,
    LIMIT_NAMES,
    NO_LIMITS,
    Step,
    Task,
    TaskEvent,
    TaskLimits,
    event,
    step,
    task,
)

__all__ = ["ENDED", "Step", "Task", "TaskEvent", "TaskFilter", "TaskLimits", "Tasks", "event", "step", "task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks are listed; what is empty does not matter. `states` are words as in Task.state."""

    states: tuple[str, ...] = ()
    session_id: str = ""
    agent: str = ""
    parent_task_id: str = ""


EVERY_TASK: Final = TaskFilter()


class Tasks:
    """Durable agent tasks of the caller."""

    def __init__(self, stub: Any, invocation: Invocation) -> None:
        self._stub = stub
        self._invocation = invocation

    async def submit(
        self,
        agent: str,
        *,
        session_id: str,
        input: str,
        priority: int = 0,
        limits: TaskLimits = NO_LIMITS,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Task:
        """Start a task of an agent in a session of the caller, and return at once.

        `priority` 0..9: sooner when higher, among the tasks of one tenant.
        """
        request = tasks_pb2.SubmitTaskRequest(
            agent=agent,
            session_id=session_id,
            input=input,
            priority=priority,
            limits=tasks_pb2.TaskLimits(**{name: getattr(limits, name) for name in LIMIT_NAMES}),
            request_id=request_id or new_request_id(),
        )
        return task((await self._invocation.unary(self._stub.SubmitTask, request, timeout_s=timeout_s)).task)

    async def get(self, id: str, *, timeout_s: float | None = None) -> Task:
        """Give one task of the caller."""
        request = tasks_pb2.GetTaskRequest(id=id)
        return task((await self._invocation.unary(self._stub.GetTask, request, timeout_s=timeout_s)).task)

    async def cancel(
        self,
        id: str,
        *,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Task:
        """Ask a task to stop before its next step, and its child tasks with it; give it as it stands."""
        request = tasks_pb2.CancelTaskRequest(id=id, request_id=request_id or new_request_id())
        return task((await self._invocation.unary(self._stub.CancelTask, request, timeout_s=timeout_s)).task)

    async def pause(self, id: str, *, request_id: str | None = None, timeout_s: float | None = None) -> Task:
        """Let a task rest after the step under way, until it is resumed; give it as it stands."""
        request = tasks_pb2.PauseTaskRequest(id=id, request_id=request_id or new_request_id())
        return task((await self._invocation.unary(self._stub.PauseTask, request, timeout_s=timeout_s)).task)

    async def resume(
        self, id: str, *, note: str = "", request_id: str | None = None, timeout_s: float | None = None
    ) -> Task:
        """Let a paused task go on; `note` is told to its agent in the person's words."""
        request = tasks_pb2.ResumeTaskRequest(id=id, note=note, request_id=request_id or new_request_id())
        return task((await self._invocation.unary(self._stub.ResumeTask, request, timeout_s=timeout_s)).task)

    async def retry(self, id: str, *, request_id: str | None = None, timeout_s: float | None = None) -> Task:
        """Give a dead or failed task a new count of attempts; it goes on after its last finished step."""
        request = tasks_pb2.RetryTaskRequest(id=id, request_id=request_id or new_request_id())
        return task((await self._invocation.unary(self._stub.RetryTask, request, timeout_s=timeout_s)).task)

    def list(self, wanted: TaskFilter = EVERY_TASK, *, all_users: bool = False, page_size: int = 50) -> Pager[Task]:
        """Give tasks of the caller, newest first.

        `all_users`: those of the whole tenant without contents, for operators and auditors.
        """
        request = tasks_pb2.ListTasksRequest(
            states=[number(tasks_pb2.TaskState, state, "states") for state in wanted.states],
            session_id=wanted.session_id,
            agent=wanted.agent,
            parent_task_id=wanted.parent_task_id,
            all_users=all_users,
            page_size=page_size,
        )

        async def fetch(token: str) -> tuple[Sequence[Task], str]:
            request.page_token = token
            answer = await self._invocation.unary(self._stub.ListTasks, request)
            return [task(found) for found in answer.tasks], answer.next_page_token

        return Pager(fetch)

    async def watch(self, id: str, *, after_sequence: int = 0) -> AsyncIterator[TaskEvent]:
        """Give each event of a task once and in order until it has ended.

        A lost connection is taken up again after the last event; Unavailable
        only when the service stays away for several attempts in a row.
        """
        retry, failures = self._invocation.retry, 0
        while True:
            request = tasks_pb2.WatchTaskRequest(id=id, after_sequence=after_sequence)
            try:
                async with aclosing(self._invocation.stream(self._stub.WatchTask, request)) as answers:
                    async for answer in answers:
                        if answer.sequence <= after_sequence:
                            continue
                        after_sequence, failures = answer.sequence, 0
                        found = event(answer)
                        yield found
                        if found.state in ENDED:
                            return
                # The service closed the stream, e.g. while it drains: go on unless all was told.
                if (await self.get(id)).ended and failures:
                    return
            except Unavailable:
                if failures + 1 >= retry.attempts_max:
                    raise
            failures += 1
            await asyncio.sleep(retry.pause_s(min(failures, retry.attempts_max)))

    async def wait(self, id: str, *, timeout_s: float = 300.0) -> Task:
        """Give the task when it has ended; DeadlineExceeded after `timeout_s`, which changes nothing."""
        try:
            async with asyncio.timeout(timeout_s), aclosing(self.watch(id)) as events:  # type: ignore[type-var]
                async for _event in events:
                    pass
                return await self.get(id)
        except TimeoutError:
            raise DeadlineExceeded(f"the task {id} has not ended within {timeout_s:g} s") from None

    def steps(self, id: str, *, page_size: int = 50) -> Pager[Step]:
        """Give the journaled steps of a task, in order."""
        request = tasks_pb2.ListStepsRequest(task_id=id, page_size=page_size)

        async def fetch(token: str) -> tuple[Sequence[Step], str]:
            request.page_token = token
            answer = await self._invocation.unary(self._stub.ListSteps, request)
            return [step(found) for found in answer.steps], answer.next_page_token

        return Pager(fetch)
