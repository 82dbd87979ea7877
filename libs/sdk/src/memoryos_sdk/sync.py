"""The same client without async: every call waits for its answer.

    with sync.connect(token=token, memoryfs="127.0.0.1:8401") as client:
        hits = client.memory.read("/tenants/acme/memory/episodic", query="…")

One event loop runs in a thread of its own; what the async client gives is
wrapped as it is asked for: a coroutine is awaited, an async iterator iterates.
So there is one client and no second copy of its methods to keep alike.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from typing import Any, Final, Self

from memoryos_sdk.client import connect as connect_async

_NO_MORE: Final = object()


class _Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="memoryos-sdk", daemon=True)
        self._thread.start()

    def wait(self, awaitable: Any) -> Any:
        """Give the result of an awaitable; an interrupt of the waiting thread cancels it."""

        async def run() -> Any:
            return await awaitable

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Waiting:
    """An object of the async client whose methods wait; attributes that are plain values come as they are."""

    def __init__(self, inner: Any, loop: _Loop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        async def found() -> Any:  # a channel belongs to the loop in which it is first asked for
            return getattr(self._inner, name)

        return _wrapped(self._loop.wait(found()), self._loop)

    def __dir__(self) -> list[str]:
        return dir(self._inner)

    def __iter__(self) -> Iterator[Any]:
        """Iterate an async iterator."""
        elements = self._inner.__aiter__()
        try:
            while (element := self._loop.wait(anext(elements, _NO_MORE))) is not _NO_MORE:
                yield element
        finally:
            if inspect.isasyncgen(elements):
                self._loop.wait(elements.aclose())


class Client(Waiting):
    """Memory OS as one caller sees it; a context manager."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._loop.wait(self._inner.close())
        self._loop.close()


def connect(**options: Any) -> Client:
    """Give a client that waits; options are those of `memoryos_sdk.connect`."""
    loop = _Loop()

    async def made() -> Any:
        return connect_async(**options)

    return Client(loop.wait(made()), loop)


def _wrapped(value: Any, loop: _Loop) -> Any:
    if inspect.iscoroutinefunction(value):
        return lambda *args, **kwargs: loop.wait(value(*args, **kwargs))
    if callable(value) and inspect.ismethod(value):
        return lambda *args, **kwargs: _wrapped(value(*args, **kwargs), loop)
    if hasattr(value, "__aiter__") or (type(value).__module__.startswith("memoryos_sdk.") and hasattr(value, "_stub")):
        return Waiting(value, loop)
    return value
