"""RPCs of the contract that are not built yet: each leaves this file when it is."""

from __future__ import annotations

from typing import NoReturn

import grpc

from memoryos_memoryfs.servicers.calls import WithParts


class UnbuiltServicer(WithParts):
    """Answers UNIMPLEMENTED."""


async def _unbuilt(context: grpc.aio.ServicerContext) -> NoReturn:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not built yet")
    raise AssertionError
