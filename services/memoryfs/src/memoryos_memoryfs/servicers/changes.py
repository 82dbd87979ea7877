"""Changes as messages, for History and Watch."""

from __future__ import annotations

from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2
from memoryos.type.v1 import common_pb2

from memoryos_memoryfs.domain.changes import Change, actor_parts
from memoryos_memoryfs.messages import item_message, stamp_of


def change_message(change: Change) -> lifecycle_pb2.Change:
    """Give the message of a change."""
    user, agents = actor_parts(change.actor)
    return lifecycle_pb2.Change(
        change_time=stamp_of(change.at),
        cause=lifecycle_pb2.ChangeCause.ValueType(change.cause),
        actor=common_pb2.Actor(user=user, agent_chain=agents),
        trace_id=change.trace_id,
        from_state=item_pb2.State.ValueType(change.from_state or 0),
        to_state=item_pb2.State.ValueType(change.to_state),
        revision=change.revision,
        item=item_message(change.item) if change.item else None,
    )
