"""memoryos.harness.v1.Tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

import grpc
from memoryos.harness.v1 import tasks_pb2, tasks_pb2_grpc
from memoryos_grpc import caller, scope

from memoryos_harness.agent_ports import AgentCatalog
from memoryos_harness.operations.cancel_task import cancel_task
from memoryos_harness.operations.get_task import get_task
from memoryos_harness.operations.list_steps import list_steps
from memoryos_harness.operations.list_tasks import list_tasks
from memoryos_harness.operations.pause_task import pause_task
from memoryos_harness.operations.resume_task import resume_task
from memoryos_harness.operations.retry_task import retry_task
from memoryos_harness.operations.submit_task import submit_task
from memoryos_harness.operations.watch_task import watch_task
from memoryos_harness.ports import PageKeys, TaskNews, TaskStore
from memoryos_harness.servicers.messages import event_message, step_message, task_message
from memoryos_harness.servicers.requests import SequencePages, TaskPages, request_key, task_filter, wish_of

_SERVICE: Final = "memoryos.harness.v1.Tasks"


class TasksServicer(tasks_pb2_grpc.TasksServicer):
    """Parses, runs one operation, renders."""

    def __init__(self, store: TaskStore, agents: AgentCatalog, news: TaskNews, keys: PageKeys) -> None:
        self._store = store
        self._agents = agents
        self._news = news
        self._pages = SequencePages(keys, f"{_SERVICE}/ListSteps")
        self._task_pages = TaskPages(keys, f"{_SERVICE}/ListTasks")

    async def SubmitTask(
        self, request: tasks_pb2.SubmitTaskRequest, context: grpc.aio.ServicerContext
    ) -> tasks_pb2.SubmitTaskResponse:
        """Start a task."""
        task = await submit_task(
            self._store,
            self._agents,
            caller().identity,
            agent_name=request.agent,
            session_id=request.session_id,
            text=request.input,
            request=request_key(f"{_SERVICE}/SubmitTask", request),
            wish=wish_of(request),
        )
        return tasks_pb2.SubmitTaskResponse(task=task_message(task))

    async def GetTask(
        self, request: tasks_pb2.GetTaskRequest, context: grpc.aio.ServicerContext
    ) -> tasks_pb2.GetTaskResponse:
        """Give a task."""
        return tasks_pb2.GetTaskResponse(task=task_message(await get_task(self._store, scope(), request.id)))

    async def WatchTask(
        self, request: tasks_pb2.WatchTaskRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[tasks_pb2.WatchTaskResponse]:
        """Stream events."""
        events = watch_task(self._store, self._news, scope(), request.id, after_sequence=request.after_sequence)
        async with aclosing(events):
            async for seen in events:
                yield event_message(seen)

    async def CancelTask(
        self, request: tasks_pb2.CancelTaskRequest, context: grpc.aio.ServicerContext
    ) -> tasks_pb2.CancelTaskResponse:
        """Stop a task."""
        task = await cancel_task(self._store, scope(), request.id, request_key(f"{_SERVICE}/CancelTask", request))
        return tasks_pb2.CancelTaskResponse(task=task_message(task))

    async def ListSteps(
        self, request: tasks_pb2.ListStepsRequest, context: grpc.aio.ServicerContext
    ) -> tasks_pb2.ListStepsResponse:
        """List steps."""
        who = scope()
        after = await self._pages.start(who, request.task_id, request.page_token)
        found, more = await list_steps(
            self._store, who, request.task_id, after_sequence=after, page_size=request.page_size
        )
        token = await self._pages.token(who, request.task_id, found[-1].sequence) if more else ""
        return tasks_pb2.ListStepsResponse(steps=[step_message(step) for step in found], next_page_token=token)

    async def ListTasks(
        self, request: tasks_pb2.ListTasksRequest, context: grpc.aio.ServicerContext
    ) -> tasks_pb2.ListTasksResponse:
        """List tasks."""
        who = scope()
        which = task_filter(request)
        after = await self._task_pages.start(who, request)
        page = await list_tasks(self._store, who, which, after=after, page_size=request.page_size)
        token = await self._task_pages.token(who, request, page.next) if page.next else ""
        return tasks_pb2.ListTasksResponse(tasks=[task_message(task) for task in page.tasks], next_page_token=token)

    async def PauseTask(
        self, request: tasks_pb2.PauseTaskRequest, context: grpc.aio.ServicerContext
    ) -> tasks_pb2.PauseTaskResponse:
        """Let a task rest."""
        task = await pause_task(self._store, scope(), request.id, request_key(f"{_SERVICE}/PauseTask", request))
        return tasks_pb2.PauseTaskResponse(task=task_message(task))

    async def ResumeTask(
        self, request: tasks_pb2.ResumeTaskRequest, context: grpc.aio.ServicerContext
    ) -> tasks_pb2.ResumeTaskResponse:
        """Let a task go on."""
        key = request_key(f"{_SERVICE}/ResumeTask", request)
        task = await resume_task(self._store, scope(), request.id, request.note, key)
        return tasks_pb2.ResumeTaskResponse(task=task_message(task))

    async def RetryTask(
        self, request: tasks_pb2.RetryTaskRequest, context: grpc.aio.ServicerContext
    ) -> tasks_pb2.RetryTaskResponse:
        """Have a task tried again."""
        task = await retry_task(self._store, scope(), request.id, request_key(f"{_SERVICE}/RetryTask", request))
        return tasks_pb2.RetryTaskResponse(task=task_message(task))
