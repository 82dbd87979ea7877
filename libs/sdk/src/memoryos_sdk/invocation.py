"""How every call is made: one token, one total deadline, retries of UNAVAILABLE only.

A request carries its request_id before the first attempt, so every retry is
the same request and a service answers it as the first.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Final

import grpc

from memoryos_sdk.errors import CallError, DeadlineExceeded, Unavailable, from_rpc

TokenSource = str | Callable[[], str | Awaitable[str]]
"""A bearer token, or a function (also async) that gives a fresh one for each call."""

TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often UNAVAILABLE is tried again: by default for about 4 s, longer than a supervised restart."""

    attempts_max: int = 6
    first_pause_s: float = 0.1
    pause_s_max: float = 2.0

    def pause_s(self, attempt: int) -> float:
        """Give the pause after attempt `attempt` (from 1): doubling, capped, half of it random."""
        full = min(self.pause_s_max, self.first_pause_s * 2.0 ** (attempt - 1))
        return full / 2 + random.random() * full / 2  # noqa: S311 - jitter


RETRY: Final = Retry()

CHANNEL_OPTIONS: Final = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.enable_retries", 0),  # retries are ours: one place decides
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)


def new_request_id() -> str:
    """Give a fresh request_id."""
    return f"req-{secrets.token_hex(16)}"


class Channels:
    """One channel per address, opened when first needed and shared by all callers."""

    def __init__(self, credentials: grpc.ChannelCredentials | None = None) -> None:
        self._credentials = credentials
        self._open: dict[str, grpc.aio.Channel] = {}

    def get(self, address: str) -> grpc.aio.Channel:
        """Give the channel to `address`. An empty address is a ValueError."""
        if not address:
            raise ValueError("the address of this service was not given")
        if address not in self._open:
            if self._credentials is None:
                self._open[address] = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
            else:
                self._open[address] = grpc.aio.secure_channel(address, self._credentials, options=CHANNEL_OPTIONS)
        return self._open[address]

    async def close(self) -> None:
        """Close all; calls under way fail."""
        channels, self._open = self._open, {}
        for channel in channels.values():
            await channel.close()


class Invocation:
    """Makes calls for one caller."""

    def __init__(self, token: TokenSource, *, zone: tzinfo | None, timeout_s: float, retry: Retry) -> None:
        self._token = token
        self._timeout_s = timeout_s
        self.retry = retry
        self.zone = zone
        """Zone of bare dates; None is the machine's own."""

    def as_caller(self, token: TokenSource) -> Invocation:
        """Give the same with another token."""
        return Invocation(token, zone=self.zone, timeout_s=self._timeout_s, retry=self.retry)

    async def unary(self, method: Any, request: Any, *, timeout_s: float | None = None) -> Any:
        """Give the answer of a unary method within one total deadline.

        Only UNAVAILABLE is tried again. Raises CallError's subclasses.
        """
        deadline = time.monotonic() + (timeout_s or self._timeout_s)
        for attempt in range(1, self.retry.attempts_max + 1):
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise DeadlineExceeded("the deadline has passed before an answer came")
            try:
                return await method(request, timeout=remaining_s, metadata=await self.metadata())
            except grpc.aio.AioRpcError as failure:
                error = from_rpc(failure)
            pause_s = max(self.retry.pause_s(attempt), error.retry_after_s or 0.0)
            out_of_time = time.monotonic() + pause_s >= deadline
            if not isinstance(error, Unavailable) or attempt == self.retry.attempts_max or out_of_time:
                raise error
            await asyncio.sleep(pause_s)
        raise AssertionError("unreachable")

    async def stream(self, method: Any, request: Any, *, timeout_s: float | None = None) -> AsyncGenerator[Any, None]:
        """Give the answers of one stream, once: whoever can resume it retries. Raises as `unary`."""
        call = method(request, timeout=timeout_s, metadata=await self.metadata())
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError as failure:
            raise from_rpc(failure) from None
        finally:
            call.cancel()

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        """Give the metadata of a call: the bearer token, once."""
        token = self._token() if callable(self._token) else self._token
        if inspect.isawaitable(token):
            token = await token
        if not token:
            raise CallError("no token was given")
        return (("authorization", f"Bearer {token}"),)
