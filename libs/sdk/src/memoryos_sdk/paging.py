"""Lists that turn their own pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Pager(Generic[T]):
    """All elements of a list, page by page as they are asked for: `async for item in pager`."""

    def __init__(self, fetch: Callable[[str], Awaitable[tuple[Sequence[T], str]]]) -> None:
        self._fetch = fetch

    async def __aiter__(self) -> AsyncIterator[T]:
        """Give every element; the next page is asked for when this one is used up."""
        token = ""
        while True:
            elements, token = await self._fetch(token)
            for element in elements:
                yield element
            if not token:
                return

    async def take(self, count: int) -> list[T]:
        """Give at most the first `count` elements."""
        found: list[T] = []
        if count <= 0:
            return found
        async for element in self:
            found.append(element)
            if len(found) == count:
                break
        return found

    async def all(self) -> list[T]:
        """Give all elements."""
        return [element async for element in self]
