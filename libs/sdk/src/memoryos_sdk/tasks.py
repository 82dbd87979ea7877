"""Tasks: durable runs of an agent. The client may leave and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from memoryos.harness.v1 import tasks_pb2

from memoryos_sdk.calls import Actor, actor
from memoryos_sdk.entries import json_value
from memoryos_sdk.errors import DeadlineExceeded, Unavailable
from memoryos_sdk.invocation import Invocation, new_request_id
from memoryos_sdk.names import word
from memoryos_sdk.paging import Pager
from memoryos_sdk.times import moment

ENDED: Final = frozenset({"succeeded", "dead", "cancelled"})
"""States that a task never leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One durable run of an agent."""

    id: str
    agent: str
    agent_version: str
    session_id: str
    state: str
    input: str
    output: str
    error_code: str
    error_message: str
    actor: Actor
    attempt: int
    lease_epoch: int
    step_count: int
    trace_id: str
    create_time: datetime | None
    update_time: datetime | None
    end_time: datetime | None

    @property
    def ended(self) -> bool:
        """Whether it will not change any more."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One journaled step: kind model_call, memory_read or tool_call; state started, done or failed."""

    id: str
    sequence: int
    kind: str
    state: str
    target: str
    input: Any
    output: Any
    call_id: str
    decision_id: str
    review_id: str
    item_ids: tuple[str, ...]
    lease_epoch: int
    create_time: datetime | None
    end_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """One thing that happened to a task: its state after it, and the step, if any."""

    sequence: int
    state: str
    step: Step | None
    create_time: datetime | None


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
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Task:
        """Start a task of an agent in a session of the caller, and return at once."""
        request = tasks_pb2.SubmitTaskRequest(
            agent=agent, session_id=session_id, input=input, request_id=request_id or new_request_id()
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
        """Ask a task to stop before its next step; give it as it stands."""
        request = tasks_pb2.CancelTaskRequest(id=id, request_id=request_id or new_request_id())
        return task((await self._invocation.unary(self._stub.CancelTask, request, timeout_s=timeout_s)).task)

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

        async def fetch(token: str) -> tuple[list[Step], str]:
            request.page_token = token
            answer = await self._invocation.unary(self._stub.ListSteps, request)
            return [step(found) for found in answer.steps], answer.next_page_token

        return Pager(fetch)


def task(message: tasks_pb2.Task) -> Task:
    """Give the value of a Task message."""
    return Task(
        id=message.id,
        agent=message.agent,
        agent_version=message.agent_version,
        session_id=message.session_id,
        state=word(tasks_pb2.TaskState, message.state),
        input=message.input,
        output=message.output,
        error_code=message.error_code,
        error_message=message.error_message,
        actor=actor(message.actor),
        attempt=message.attempt,
        lease_epoch=message.lease_epoch,
        step_count=message.step_count,
        trace_id=message.trace_id,
        create_time=moment(message, "create_time"),
        update_time=moment(message, "update_time"),
        end_time=moment(message, "end_time"),
    )


def step(message: tasks_pb2.Step) -> Step:
    """Give the value of a Step message."""
    return Step(
        id=message.id,
        sequence=message.sequence,
        kind=word(tasks_pb2.StepKind, message.kind),
        state=word(tasks_pb2.StepState, message.state),
        target=message.target,
        input=json_value(message.input_json),
        output=json_value(message.output_json),
        call_id=message.call_id,
        decision_id=message.decision_id,
        review_id=message.review_id,
        item_ids=tuple(message.item_ids),
        lease_epoch=message.lease_epoch,
        create_time=moment(message, "create_time"),
        end_time=moment(message, "end_time"),
    )


def event(message: tasks_pb2.WatchTaskResponse) -> TaskEvent:
    """Give the value of a WatchTaskResponse message."""
    return TaskEvent(
        sequence=message.sequence,
        state=word(tasks_pb2.TaskState, message.state),
        step=step(message.step) if message.HasField("step") else None,
        create_time=moment(message, "create_time"),
    )
