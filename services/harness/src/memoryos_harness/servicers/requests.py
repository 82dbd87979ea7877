"""What makes a retry of a request safe, and where its pages go on."""

from __future__ import annotations

from typing import Any, Final

from memoryos_core.scope import Scope

from memoryos_harness.ports import PageKeys, Request


def request_key(rpc: str, message: Any) -> Request:
    """Give the idempotency key of a mutating request: its id, and the rest of it as the body."""
    body = type(message)()
    body.CopyFrom(message)
    body.ClearField("request_id")
    return Request(rpc=rpc, request_id=message.request_id, body=body.SerializeToString(deterministic=True))


class SequencePages:
    """Pages of a list in order of sequence; a token belongs to one caller, method and list."""

    def __init__(self, keys: PageKeys, method: str) -> None:
        self._keys = keys
        self._method: Final = method

    async def start(self, scope: Scope, list_id: str, token: str) -> int:
        """Give the sequence after which the page starts; InvalidPageToken for a token of another list."""
        position = (await self._keys.of(scope)).decode(scope, self._method, list_id.encode(), token)
        return int(position[0]) if position else 0

    async def token(self, scope: Scope, list_id: str, last_sequence: int) -> str:
        """Give the token that continues after a sequence."""
        return (await self._keys.of(scope)).encode(scope, self._method, list_id.encode(), (last_sequence,))
