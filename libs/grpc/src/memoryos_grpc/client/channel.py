"""A channel whose calls are prepared by `Outgoing` and otherwise gRPC's own.

gRPC's client interceptors run each call in a further task and delay the call
object; preparing the arguments instead costs less and leaves cancellation as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from memoryos_grpc.client.outgoing import Metadata, Outgoing, end_with_call


class _MultiCallable:
    """Makes calls of one method."""

    def __init__(self, inner: Callable[..., Any], method: str, outgoing: Outgoing, *, streams: bool) -> None:
        self._inner = inner
        self._method = method
        self._outgoing = outgoing
        self._streams = streams

    def __call__(
        self, request: Any, *, timeout: float | None = None, metadata: Metadata | None = None, **options: Any
    ) -> Any:
        """Start a call and give gRPC's call object."""
        timeout_s = self._outgoing.timeout_s(timeout, streams=self._streams)
        span = self._outgoing.start_span(self._method)
        try:
            call = self._inner(request, timeout=timeout_s, metadata=self._outgoing.metadata(span, metadata), **options)
        except BaseException:
            span.end()
            raise
        end_with_call(span, call)
        return call


class ServiceChannel(grpc.aio.Channel):  # type: ignore[misc]  # grpc has no types
    """A channel to one service."""

    def __init__(self, inner: grpc.aio.Channel, outgoing: Outgoing) -> None:
        self._inner = inner
        self._outgoing = outgoing

    async def __aenter__(self) -> ServiceChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close(None)

    async def close(self, grace: float | None = None) -> None:
        """Close the channel; running calls get `grace` seconds."""
        await self._inner.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Give the state of the connection."""
        return self._inner.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Wait until the state is another."""
        await self._inner.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Wait until it is connected."""
        await self._inner.channel_ready()

    def unary_unary(self, method: str, *args: Any, **options: Any) -> Any:
        """Give the callable of a unary method."""
        inner = self._inner.unary_unary(method, *args, **options)
        return _MultiCallable(inner, method, self._outgoing, streams=False)

    def unary_stream(self, method: str, *args: Any, **options: Any) -> Any:
        """Give the callable of a method that streams its answer."""
        inner = self._inner.unary_stream(method, *args, **options)
        return _MultiCallable(inner, method, self._outgoing, streams=True)

    def stream_unary(self, method: str, *args: Any, **options: Any) -> Any:
        """Refuse: no service of ours takes a stream."""
        raise TypeError(f"{method} would stream to the server; no service of ours takes that")

    def stream_stream(self, method: str, *args: Any, **options: Any) -> Any:
        """Refuse: no service of ours takes a stream."""
        raise TypeError(f"{method} would stream to the server; no service of ours takes that")
