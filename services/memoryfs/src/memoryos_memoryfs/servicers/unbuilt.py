"""RPCs of the contract that are not built yet: each leaves this file when it is."""

from __future__ import annotations

from typing import Any, NoReturn

import grpc

from memoryos_memoryfs.servicers.calls import WithParts


class UnbuiltServicer(WithParts):
    """Answers UNIMPLEMENTED."""

    async def Bind(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        """See the proto."""
        await _unbuilt(context)

    async def Unbind(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        """See the proto."""
        await _unbuilt(context)

    async def ListBindings(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        """See the proto."""
        await _unbuilt(context)

    async def Purge(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        """See the proto."""
        await _unbuilt(context)

    async def GetReceipt(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        """See the proto."""
        await _unbuilt(context)

    async def Explain(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        """See the proto."""
        await _unbuilt(context)


async def _unbuilt(context: grpc.aio.ServicerContext) -> NoReturn:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not built yet")
    raise AssertionError
