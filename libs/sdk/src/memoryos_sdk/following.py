"""Streams without an end that are taken up where they broke."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from memoryos_sdk.errors import Unavailable
from memoryos_sdk.invocation import Invocation


async def resumed(
    invocation: Invocation, open_at: Callable[[str], AsyncGenerator[Any, None]], position: str
) -> AsyncGenerator[Any, None]:
    """Give the messages of a stream from a position on; each says the position behind it.

    A lost connection is opened again at the last position that was given. Raises
    Unavailable when that fails as often in a row as a call is tried.
    """
    attempt = 0
    while True:
        try:
            async with aclosing(open_at(position)) as messages:
                async for message in messages:
                    attempt, position = 0, message.position
                    yield message
        except Unavailable:
            attempt += 1
            if attempt >= invocation.retry.attempts_max:
                raise
            await asyncio.sleep(invocation.retry.pause_s(attempt))
