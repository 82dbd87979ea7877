"""Servicers of which a test needs a few methods: a server starts only when every RPC has one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from google.protobuf import descriptor_pool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

S = TypeVar("S", bound=type)
Answer = Callable[[Any, Any, Any, Message], Awaitable[Any]]
"""Called with servicer, request, context and an empty reply; gives the reply."""


def completed(service: str, answer: Answer) -> Callable[[S], S]:
    """Give a class decorator that adds every method of `service` which the class does not have, made of `answer`."""

    def complete(servicer: S) -> S:
        for method in descriptor_pool.Default().FindServiceByName(service).methods:
            if method.name not in vars(servicer):
                setattr(servicer, method.name, _method(GetMessageClass(method.output_type), method, answer))
        servicer.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
        return servicer

    return complete


def _method(reply: type[Message], method: Any, answer: Answer) -> Callable[..., Any]:
    async def call(self: Any, request: Any, context: Any) -> Any:
        return await answer(self, request, context, reply())

    async def stream(self: Any, request: Any, context: Any) -> AsyncIterator[Any]:
        yield await answer(self, request, context, reply())

    return stream if method.server_streaming else call
