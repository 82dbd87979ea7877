"""Transfer on the wire: Watch, Export, Import."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import grpc
from memoryos.memoryfs.v1 import transfer_pb2
from memoryos_core.paths import MemoryPath
from memoryos_grpc.caller import scope

from memoryos_memoryfs.messages import stamp_of
from memoryos_memoryfs.operations.export_items import (
    Data,
    ExportQuery,
    FileBegins,
    Layout,
    Manifest,
    Part,
    export_items,
)
from memoryos_memoryfs.operations.import_items import Conflict, ImportCommand, import_items
from memoryos_memoryfs.operations.watch_changes import WatchQuery, watch_changes
from memoryos_memoryfs.servicers.calls import WithParts, body_of
from memoryos_memoryfs.servicers.changes import change_message
from memoryos_memoryfs.servicers.import_lines import import_lines


class TransferServicer(WithParts):
    """Memory on its way in and out."""

    async def Watch(
        self, request: transfer_pb2.WatchRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[transfer_pb2.WatchResponse]:
        """See the proto."""
        query = WatchQuery(MemoryPath.parse(request.path), request.position, request.from_start)
        async with aclosing(watch_changes(self._parts, scope(), query)) as events:
            async for seen in events:
                change = seen.change
                yield transfer_pb2.WatchResponse(
                    change=change_message(change) if change else None,
                    id=change.item_id if change else "",
                    position=seen.position,
                    heartbeat=change is None,
                )

    async def Export(
        self, request: transfer_pb2.ExportRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[transfer_pb2.ExportResponse]:
        """See the proto."""
        query = ExportQuery(
            path=MemoryPath.parse(request.path),
            layout=Layout(request.layout or Layout.ITEMS),
            with_vectors=request.with_vectors,
            with_history=request.with_history,
        )
        async with aclosing(export_items(self._parts, scope(), query)) as parts:
            async for part in parts:
                yield _part_message(part)

    async def Import(
        self, request: transfer_pb2.ImportRequest, context: grpc.aio.ServicerContext
    ) -> transfer_pb2.ImportResponse:
        """See the proto."""
        command = ImportCommand(
            path=MemoryPath.parse(request.path),
            from_path=MemoryPath.parse(request.manifest.path),
            conflict=Conflict(request.conflict or Conflict.SKIP_EQUAL),
            embedding_model=request.manifest.embedding_model,
            request_id=f"{request.request_id}/{request.part}",
            body=body_of(request),
            lines=await import_lines(request),
        )
        counts = await import_items(self._parts, scope(), command)
        return transfer_pb2.ImportResponse(
            created_count=counts.created,
            replaced_count=counts.replaced,
            skipped_count=counts.skipped,
            pending_count=counts.pending,
        )


def _part_message(part: Part) -> transfer_pb2.ExportResponse:
    if isinstance(part, FileBegins):
        return transfer_pb2.ExportResponse(file=part.path)
    if isinstance(part, Data):
        return transfer_pb2.ExportResponse(data=part.data)
    return transfer_pb2.ExportResponse(manifest=_manifest_message(part))


def _manifest_message(manifest: Manifest) -> transfer_pb2.ExportManifest:
    return transfer_pb2.ExportManifest(
        format=manifest.format,
        path=str(manifest.path),
        export_time=stamp_of(manifest.export_time),
        item_count=manifest.item_count,
        files=[
            transfer_pb2.ExportFile(
                path=file.path, size_bytes=file.size_bytes, sha256=file.sha256, line_count=file.line_count
            )
            for file in manifest.files
        ],
        embedding_model=manifest.embedding_model,
    )
