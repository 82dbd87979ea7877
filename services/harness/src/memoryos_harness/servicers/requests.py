"""What makes a retry of a request safe, and where its pages go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from memoryos_core.scope import Scope

from memoryos_harness.domain.sessions import SessionPlace
from memoryos_harness.ports import PageKeys, Request

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


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


class SessionPages:
    """Pages of sessions, last active first; a token belongs to one caller, method and choice of users."""

    def __init__(self, keys: PageKeys, method: str) -> None:
        self._keys = keys
        self._method: Final = method

    async def start(self, scope: Scope, all_users: bool, token: str) -> SessionPlace | None:
        """Give the place after which the page starts, None for the first; InvalidPageToken for one of another list."""
        position = (await self._keys.of(scope)).decode(scope, self._method, bytes([all_users]), token)
        if position is None:
            return None
        as_of, last_active, session_id = position
        moved = last_active == ""
        return SessionPlace(
            as_of=_instant(int(as_of)),
            last_active_time=None if moved else _instant(int(last_active)),
            id=str(session_id),
        )

    async def token(self, scope: Scope, all_users: bool, place: SessionPlace) -> str:
        """Give the token that continues after a place."""
        last_active = "" if place.last_active_time is None else _microseconds(place.last_active_time)
        position = (_microseconds(place.as_of), last_active, place.id)
        return (await self._keys.of(scope)).encode(scope, self._method, bytes([all_users]), position)


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def _instant(microseconds: int) -> datetime:
    return _EPOCH + microseconds * _MICROSECOND
