"""What the groups of calls share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from memoryos_sdk.errors import InvalidArgument
from memoryos_sdk.invocation import Invocation
from memoryos_sdk.paging import Pager

T = TypeVar("T")


class Calls:
    """A group of calls of one service as one caller makes them."""

    def __init__(self, stub: Any, invocation: Invocation) -> None:
        self._stub = stub
        self._invocation = invocation

    def _pager(self, method: Any, request: Any, elements: Callable[[Any], list[T]]) -> Pager[T]:
        async def fetch(token: str) -> tuple[list[T], str]:
            request.page_token = token
            answer = await self._invocation.unary(method, request)
            return elements(answer), answer.next_page_token

        return Pager(fetch)


def one_or_many(one: str | None, many: Sequence[str] | None) -> list[str]:
    """Give the ids of `id` or `ids`, of which exactly one is to be given."""
    if isinstance(many, str):
        raise InvalidArgument.of("ids", "must be a list; for one item use id")
    if (one is None) == (many is None):
        raise InvalidArgument.of("ids", "give either id or ids")
    return [one] if one is not None else list(many or ())
