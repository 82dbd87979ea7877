"""What makes a retry of a request safe, and where its pages go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from memoryos.harness.v1 import tasks_pb2
from memoryos_core.errors import InvalidField
from memoryos_core.scope import Scope

from memoryos_harness.domain.sessions import SessionPlace
from memoryos_harness.domain.states import TaskState
from memoryos_harness.domain.tasks import TaskFilter, TaskListPlace
from memoryos_harness.operations.submit_task import Wish
from memoryos_harness.ports import PageKeys, Request

_STATES: Final = frozenset(tasks_pb2.TaskState.values()) - {tasks_pb2.TASK_STATE_UNSPECIFIED}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def request_key(rpc: str, message: Any) -> Request:
    """Give the idempotency key of a mutating request: its id, and the rest of it as the body."""
    body = type(message)()
    body.CopyFrom(message)
    body.ClearField("request_id")
    return Request(rpc=rpc, request_id=message.request_id, body=body.SerializeToString(deterministic=True))


class SequencePages:
    """Pages of a list in order of sequence; a token belongs to one caller, method and list."""

    def __init__(self, keys: PageKeys, method: str) -> None:
        self._keys = keys
        self._method: Final = method

    async def start(self, scope: Scope, list_id: str, token: str) -> int:
        """Give the sequence after which the page starts; InvalidPageToken for a token of another list."""
        position = (await self._keys.of(scope)).decode(scope, self._method, list_id.encode(), token)
        return int(position[0]) if position else 0

    async def token(self, scope: Scope, list_id: str, last_sequence: int) -> str:
        """Give the token that continues after a sequence."""
        return (await self._keys.of(scope)).encode(scope, self._method, list_id.encode(), (last_sequence,))


class SessionPages:
    """Pages of sessions, last active first; a token belongs to one caller, method and choice of users."""

    def __init__(self, keys: PageKeys, method: str) -> None:
        self._keys = keys
        self._method: Final = method

    async def start(self, scope: Scope, all_users: bool, token: str) -> SessionPlace | None:
        """Give the place after which the page starts, None for the first; InvalidPageToken for one of another list."""
        position = (await self._keys.of(scope)).decode(scope, self._method, bytes([all_users]), token)
        if position is None:
            return None
        as_of, last_active, session_id = position
        moved = last_active == ""
        return SessionPlace(
            as_of=_instant(int(as_of)),
            last_active_time=None if moved else _instant(int(last_active)),
            id=str(session_id),
        )

    async def token(self, scope: Scope, all_users: bool, place: SessionPlace) -> str:
        """Give the token that continues after a place."""
        last_active = "" if place.last_active_time is None else _microseconds(place.last_active_time)
        position = (_microseconds(place.as_of), last_active, place.id)
        return (await self._keys.of(scope)).encode(scope, self._method, bytes([all_users]), position)


class TaskPages:
    """Pages of tasks, newest first; a token belongs to one caller, method and filter."""

    def __init__(self, keys: PageKeys, method: str) -> None:
        self._keys = keys
        self._method: Final = method

    async def start(self, scope: Scope, request: tasks_pb2.ListTasksRequest) -> TaskListPlace | None:
        """Give the place after which the page starts, None for the first; InvalidPageToken for one of another list."""
        keys = await self._keys.of(scope)
        position = keys.decode(scope, self._method, _list_of(request), request.page_token)
        return None if position is None else TaskListPlace(_instant(int(position[0])), str(position[1]))

    async def token(self, scope: Scope, request: tasks_pb2.ListTasksRequest, place: TaskListPlace) -> str:
        """Give the token that continues after a place."""
        position = (_microseconds(place.create_time), place.id)
        return (await self._keys.of(scope)).encode(scope, self._method, _list_of(request), position)


def _list_of(request: tasks_pb2.ListTasksRequest) -> bytes:
    """Give what a list is told apart by: the request without its page."""
    body = tasks_pb2.ListTasksRequest()
    body.CopyFrom(request)
    body.ClearField("page_size")
    body.ClearField("page_token")
    return body.SerializeToString(deterministic=True)


def task_filter(request: tasks_pb2.ListTasksRequest) -> TaskFilter:
    """Give which tasks are asked for; InvalidField for a state that is none."""
    names = [tasks_pb2.TaskState.Name(state) if state in _STATES else "" for state in request.states]
    if not all(names):
        raise InvalidField.of("states", "must be states of a task")
    return TaskFilter(
        states=tuple(TaskState(name.removeprefix("TASK_STATE_")) for name in names),
        session_id=request.session_id,
        agent=request.agent,
        parent_task_id=request.parent_task_id,
        all_users=request.all_users,
    )


def wish_of(request: tasks_pb2.SubmitTaskRequest) -> Wish:
    """Give what is wished of a new task beside its answer."""
    limits = request.limits
    return Wish(
        priority=request.priority,
        steps=limits.steps,
        tokens=limits.tokens,
        calls=limits.calls,
        seconds=limits.seconds,
    )


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def _instant(microseconds: int) -> datetime:
    return _EPOCH + microseconds * _MICROSECOND
