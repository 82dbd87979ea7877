"""From domain to the messages of the API."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp
from memoryos.harness.v1 import sessions_pb2, tasks_pb2
from memoryos.type.v1 import common_pb2
from memoryos_core.canonical import JsonValue, canonical_json
from memoryos_telemetry import trace_id_of

from memoryos_harness.domain.agents import Limits
from memoryos_harness.domain.sessions import Message, MessageHit, MessageRole, Session
from memoryos_harness.domain.states import StepKind, StepState, TaskState
from memoryos_harness.domain.tasks import Step, Task
from memoryos_harness.operations.watch_task import SeenEvent

ROLES: Final = {sessions_pb2.MessageRole.Value(f"MESSAGE_ROLE_{role}"): role for role in MessageRole}
_ROLE_VALUES: Final = {role: value for value, role in ROLES.items()}
_TASK_STATES: Final = {state: tasks_pb2.TaskState.Value(f"TASK_STATE_{state}") for state in TaskState}
_STEP_STATES: Final = {state: tasks_pb2.StepState.Value(f"STEP_STATE_{state}") for state in StepState}
_STEP_KINDS: Final = {kind: tasks_pb2.StepKind.Value(f"STEP_KIND_{kind}") for kind in StepKind}


def session_message(session: Session) -> sessions_pb2.Session:
    """Give the message of a session."""
    return sessions_pb2.Session(
        id=session.id,
        user=session.user,
        create_time=_time(session.create_time),
        last_active_time=_time(session.last_active_time),
        turn_count=session.turn_count,
    )


def message_message(message: Message) -> sessions_pb2.Message:
    """Give the message of a message."""
    return sessions_pb2.Message(
        id=message.id,
        role=_ROLE_VALUES[message.role],
        content=message.content,
        tool_call_id=message.tool_call_id,
        tool_name=message.tool_name,
        token_count=message.token_count,
        sequence=message.sequence,
        create_time=_time(message.create_time),
    )


def hit_message(hit: MessageHit) -> sessions_pb2.MessageHit:
    """Give the message of a hit."""
    return sessions_pb2.MessageHit(session_id=hit.session_id, message=message_message(hit.message), score=hit.score)


def task_message(task: Task) -> tasks_pb2.Task:
    """Give the message of a task."""
    return tasks_pb2.Task(
        id=task.id,
        agent=task.agent,
        agent_version=task.agent_version,
        session_id=task.session_id,
        state=_TASK_STATES[task.state],
        input=task.input,
        output=task.output,
        error_code=task.error_code,
        error_message=task.error_message,
        actor=common_pb2.Actor(user=task.user, agent_chain=(*task.chain, task.agent)),
        attempt=task.attempt,
        lease_epoch=task.lease_epoch,
        step_count=task.step_count,
        trace_id=trace_id_of(task.traceparent),
        create_time=_time(task.create_time),
        update_time=_time(task.update_time),
        end_time=_time(task.end_time) if task.end_time else None,
        parent_task_id=task.parent_task_id,
        depth=task.depth,
        priority=task.priority,
        token_count=task.token_count,
        call_count=task.call_count,
        limits=_limits(task.limits) if task.limits else None,
        deadline_time=_time(task.deadline_time) if task.deadline_time else None,
        agent_label=task.agent_label,
    )


def _limits(limits: Limits) -> tasks_pb2.TaskLimits:
    return tasks_pb2.TaskLimits(steps=limits.steps, tokens=limits.tokens, calls=limits.calls, seconds=limits.seconds)


def step_message(step: Step) -> tasks_pb2.Step:
    """Give the message of a step."""
    return tasks_pb2.Step(
        id=step.id,
        sequence=step.sequence,
        kind=_STEP_KINDS[step.kind],
        state=_STEP_STATES[step.state],
        target=step.target,
        input_json=_json(step.input),
        output_json=_json(step.output),
        call_id=step.ids.call_id,
        decision_id=step.ids.decision_id,
        review_id=step.ids.review_id,
        item_ids=step.item_ids,
        lease_epoch=step.lease_epoch,
        child_task_id=step.child_task_id,
        create_time=_time(step.create_time),
        end_time=_time(step.end_time) if step.end_time else None,
    )


def event_message(seen: SeenEvent) -> tasks_pb2.WatchTaskResponse:
    """Give the message of an event."""
    return tasks_pb2.WatchTaskResponse(
        sequence=seen.event.sequence,
        state=_TASK_STATES[seen.event.state],
        step=step_message(seen.step) if seen.step else None,
        create_time=_time(seen.event.create_time),
    )


def _json(value: JsonValue) -> bytes:
    return b"" if value is None else canonical_json(value)


def _time(instant: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(instant)
    return message
