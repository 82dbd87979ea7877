"""Puts the interceptors around the handlers of a service, once, when it is registered.

Handlers see a parsed, validated request and give messages; parsing and
serialising happen in here, so that a malformed request or answer has a span, a
status of ours and no text of somebody else's.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial

import grpc
from google.protobuf.descriptor_pool import Default

from memoryos_grpc.call import IncomingCall, Method
from memoryos_grpc.methods import MethodRule
from memoryos_grpc.ports import Interceptor, Proceed

Handlers = Mapping[str, grpc.RpcMethodHandler]


class NotServable(Exception):
    """A method cannot be served as it is: without a rule, without an async handler, or of a kind we do not offer."""


class Registry:
    """Collects what the generated add_…Servicer_to_server functions register."""

    def __init__(self) -> None:
        self.services: dict[str, Handlers] = {}

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Ignore them: the same methods come by name."""

    def add_registered_method_handlers(self, service: str, handlers: Handlers) -> None:
        """Keep the handlers of a service."""
        self.services[service] = handlers


def find_methods(registry: Registry, rules: Mapping[str, MethodRule]) -> list[tuple[Method, grpc.RpcMethodHandler]]:
    """Give every registered method with its rule; raises NotServable when one cannot be served."""
    return [
        (_method(service, name, handler, rules), handler)
        for service, handlers in registry.services.items()
        for name, handler in handlers.items()
    ]


def _method(service: str, name: str, handler: grpc.RpcMethodHandler, rules: Mapping[str, MethodRule]) -> Method:
    full_name = f"/{service}/{name}"
    rule = rules.get(full_name)
    if rule is None:
        raise NotServable(f"{full_name} has no entry in memoryos_grpc.methods.METHOD_RULES")
    if handler.request_streaming:
        raise NotServable(f"{full_name}: client streams have no interceptors")
    streams = bool(handler.response_streaming)
    fitting = inspect.isasyncgenfunction if streams else inspect.iscoroutinefunction
    if not fitting(handler.unary_stream if streams else handler.unary_unary):
        raise NotServable(f"{full_name} is not implemented as an async {'generator' if streams else 'method'}")
    return Method(
        full_name=full_name,
        rule=rule,
        request=Default().FindMethodByName(full_name[1:].replace("/", ".")).input_type,
        parse=handler.request_deserializer,
        streams=streams,
    )


def serving_handler(
    method: Method, handler: grpc.RpcMethodHandler, interceptors: Sequence[Interceptor]
) -> grpc.RpcMethodHandler:
    """Give the handler that gRPC calls: bytes in, bytes out, interceptors around the service's own."""
    proceed = _streaming(handler) if method.streams else _unary(handler)
    for interceptor in reversed(interceptors):
        proceed = partial(interceptor.intercept, proceed=proceed)

    async def serve(raw: bytes, context: grpc.aio.ServicerContext) -> bytes | None:
        call = IncomingCall(method, raw, context)
        await proceed(call)
        return call.reply

    # Without serializers gRPC passes bytes through.
    if method.streams:
        return grpc.unary_stream_rpc_method_handler(serve)
    return grpc.unary_unary_rpc_method_handler(serve)


def _unary(handler: grpc.RpcMethodHandler) -> Proceed:
    behaviour, serialise = handler.unary_unary, handler.response_serializer

    async def run(call: IncomingCall) -> None:
        call.reply = serialise(await behaviour(call.request, call.context))

    return run


def _streaming(handler: grpc.RpcMethodHandler) -> Proceed:
    behaviour, serialise = handler.unary_stream, handler.response_serializer

    async def run(call: IncomingCall) -> None:
        # Written from in here rather than yielded, so that time-outs and
        # cancellation always arrive inside the interceptors.
        async with aclosing(behaviour(call.request, call.context)) as answers:
            async for answer in answers:
                await call.context.write(serialise(answer))

    return run
