"""The namespace on the wire: Stat, Move and settings of paths."""

from __future__ import annotations

import grpc
from memoryos.memoryfs.v1 import namespace_pb2 as pb
from memoryos_core.errors import InvalidField
from memoryos_core.paths import MemoryPath
from memoryos_grpc.caller import scope

from memoryos_memoryfs.namespace_messages import (
    parts_of,
    settings_message,
    settings_of,
    stated_message,
    usage_message,
)
from memoryos_memoryfs.operations.move_items import MoveCommand, move_items
from memoryos_memoryfs.operations.set_path_settings import (
    SettingsCommand,
    SettingsQuery,
    get_path_settings,
    list_path_settings,
    set_path_settings,
)
from memoryos_memoryfs.operations.stat_path import stat_path
from memoryos_memoryfs.servicers.calls import WithParts, body_of


class NamespaceServicer(WithParts):
    """Places."""

    async def Stat(self, request: pb.StatRequest, context: grpc.aio.ServicerContext) -> pb.StatResponse:
        """See the proto."""
        path = MemoryPath.parse(request.path)
        tally = await stat_path(self._parts, scope(), path, with_children=request.with_children)
        return pb.StatResponse(
            usage=usage_message(tally.usage),
            children=[
                pb.ChildUsage(path=str(child.path), usage=usage_message(child.usage)) for child in tally.children
            ],
            children_truncated=tally.truncated,
        )

    async def Move(self, request: pb.MoveRequest, context: grpc.aio.ServicerContext) -> pb.MoveResponse:
        """See the proto."""
        if not all(request.ids):
            raise InvalidField.of("ids", "an id is empty")
        command = MoveCommand(
            source=MemoryPath.parse(request.from_path, field="from_path"),
            target=MemoryPath.parse(request.to_path, field="to_path"),
            ids=tuple(request.ids),
            request_id=request.request_id,
            body=body_of(request),
        )
        return pb.MoveResponse(moved_count=await move_items(self._parts, scope(), command))

    async def SetPathSettings(
        self, request: pb.SetPathSettingsRequest, context: grpc.aio.ServicerContext
    ) -> pb.SetPathSettingsResponse:
        """See the proto."""
        command = SettingsCommand(
            path=MemoryPath.parse(request.settings.path, field="settings.path"),
            given=settings_of(request.settings),
            parts=parts_of(request),
            if_match=request.if_match,
            request_id=request.request_id,
            body=body_of(request),
        )
        return pb.SetPathSettingsResponse(
            settings=stated_message(await set_path_settings(self._parts, scope(), command))
        )

    async def GetPathSettings(
        self, request: pb.GetPathSettingsRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetPathSettingsResponse:
        """See the proto."""
        path = MemoryPath.parse(request.path)
        own, holding = await get_path_settings(self._parts, scope(), path)
        return pb.GetPathSettingsResponse(
            own=stated_message(own) if own else pb.PathSettings(path=request.path),
            effective=settings_message(path, holding),
        )

    async def ListPathSettings(
        self, request: pb.ListPathSettingsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListPathSettingsResponse:
        """See the proto."""
        binding = pb.ListPathSettingsRequest(path=request.path)
        query = SettingsQuery(
            path=MemoryPath.parse(request.path),
            page_size=request.page_size,
            page_token=request.page_token,
            binding=binding.SerializeToString(deterministic=True),
        )
        page, token = await list_path_settings(self._parts, scope(), query)
        return pb.ListPathSettingsResponse(settings=[stated_message(stated) for stated in page], next_page_token=token)
