"""Bindings on the wire: Bind, Unbind, ListBindings."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import grpc
from memoryos.memoryfs.v1 import bindings_pb2 as pb
from memoryos_core.errors import InvalidField
from memoryos_core.paths import MemoryPath
from memoryos_grpc.caller import caller, scope

from memoryos_memoryfs.domain.bindings import TTL_DEFAULT, Binding, Target, TargetKind
from memoryos_memoryfs.messages import stamp_of
from memoryos_memoryfs.namespace_messages import span_of
from memoryos_memoryfs.operations.bind_paths import (
    BindCommand,
    BindingsQuery,
    UnbindCommand,
    bind_paths,
    list_bindings,
    targets_named,
    unbind_paths,
)
from memoryos_memoryfs.ports.bindings import NewBinding
from memoryos_memoryfs.servicers.calls import WithParts, body_of

_HARNESS: Final = "harness"
"""The service that binds on behalf of the user whose task it runs."""


class BindingsServicer(WithParts):
    """Ceilings of sessions, tasks and agents."""

    async def Bind(self, request: pb.BindRequest, context: grpc.aio.ServicerContext) -> pb.BindResponse:
        """See the proto."""
        target = _target(request.binding)
        command = BindCommand(
            new=NewBinding(
                target=target,
                read_paths=_paths(request.binding.read_paths, "binding.read_paths"),
                write_paths=_paths(request.binding.write_paths, "binding.write_paths"),
                owns_working_memory=request.binding.owns_working_memory or target.kind is TargetKind.TASK,
                ttl=_ttl(request),
            ),
            on_behalf=caller().service == _HARNESS,
            request_id=request.request_id,
            body=body_of(request),
        )
        return pb.BindResponse(binding=_message(await bind_paths(self._parts, scope(), command)))

    async def Unbind(self, request: pb.UnbindRequest, context: grpc.aio.ServicerContext) -> pb.UnbindResponse:
        """See the proto."""
        command = UnbindCommand(
            id=request.id,
            on_behalf=caller().service == _HARNESS,
            request_id=request.request_id,
            body=body_of(request),
        )
        return pb.UnbindResponse(forgotten_count=await unbind_paths(self._parts, scope(), command))

    async def ListBindings(
        self, request: pb.ListBindingsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListBindingsResponse:
        """See the proto."""
        binding = pb.ListBindingsRequest()
        binding.CopyFrom(request)
        binding.ClearField("page_token")
        binding.ClearField("page_size")
        query = BindingsQuery(
            targets=tuple(targets_named(session=request.session_id, task=request.task_id, agent=request.agent)),
            page_size=request.page_size,
            page_token=request.page_token,
            binding=binding.SerializeToString(deterministic=True),
        )
        page, token = await list_bindings(self._parts, scope(), query)
        return pb.ListBindingsResponse(bindings=[_message(one) for one in page], next_page_token=token)


def _target(binding: pb.Binding) -> Target:
    match binding.WhichOneof("target"):
        case "session_id":
            target = Target(TargetKind.SESSION, binding.session_id)
        case "task_id":
            target = Target(TargetKind.TASK, binding.task_id)
        case "agent":
            target = Target(TargetKind.AGENT, binding.agent)
        case _:
            raise InvalidField.of("binding.target", "is required")
    if not target.name:
        raise InvalidField.of("binding.target", "is required")
    return target


def _paths(texts: Iterable[str], field: str) -> tuple[MemoryPath, ...]:
    return tuple(dict.fromkeys(MemoryPath.parse(text, field=field) for text in texts))


def _ttl(request: pb.BindRequest) -> timedelta:
    return (span_of(request.ttl, "ttl") if request.HasField("ttl") else timedelta()) or TTL_DEFAULT


def _message(binding: Binding) -> pb.Binding:
    message = pb.Binding(
        id=binding.id,
        read_paths=[str(path) for path in binding.read_paths],
        write_paths=[str(path) for path in binding.write_paths],
        expire_time=stamp_of(binding.expire_time),
        create_time=stamp_of(binding.create_time),
        owns_working_memory=binding.owns_working_memory,
    )
    match binding.target.kind:
        case TargetKind.SESSION:
            message.session_id = binding.target.name
        case TargetKind.TASK:
            message.task_id = binding.target.name
        case TargetKind.AGENT:
            message.agent = binding.target.name
    return message
