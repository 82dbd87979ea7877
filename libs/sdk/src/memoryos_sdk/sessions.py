"""Sessions: conversations between a user and agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memoryos.harness.v1 import sessions_pb2

from memoryos_sdk.errors import InvalidArgument
from memoryos_sdk.invocation import Invocation, new_request_id
from memoryos_sdk.names import number, word
from memoryos_sdk.paging import Pager
from memoryos_sdk.times import moment

_MESSAGE_KEYS = frozenset({"role", "content", "tool_call_id", "tool_name", "token_count"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation."""

    id: str
    user: str
    create_time: datetime | None
    last_active_time: datetime | None
    turn_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a session; `role` is user, assistant, tool or system."""

    id: str
    role: str
    content: str
    tool_call_id: str
    tool_name: str
    token_count: int
    sequence: int
    create_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHit:
    """A message that was found; `score` is the share of the query's words that it holds, by weight, 0..1."""

    session_id: str
    message: Message
    score: float


class Sessions:
    """Sessions of the caller."""

    def __init__(self, stub: Any, invocation: Invocation) -> None:
        self._stub = stub
        self._invocation = invocation

    async def create(self, *, request_id: str | None = None, timeout_s: float | None = None) -> Session:
        """Start a session."""
        request = sessions_pb2.CreateSessionRequest(request_id=request_id or new_request_id())
        answer = await self._invocation.unary(self._stub.CreateSession, request, timeout_s=timeout_s)
        return session(answer.session)

    async def get(self, id: str, *, timeout_s: float | None = None) -> Session:
        """Give one session."""
        request = sessions_pb2.GetSessionRequest(id=id)
        return session((await self._invocation.unary(self._stub.GetSession, request, timeout_s=timeout_s)).session)

    async def append(
        self,
        id: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Sequence[Message]:
        """Add messages at the end; each has role and content, and may have
        tool_call_id, tool_name and token_count."""
        request = sessions_pb2.AppendMessagesRequest(session_id=id, request_id=request_id or new_request_id())
        for index, given in enumerate(messages):
            for key in given.keys() - _MESSAGE_KEYS:
                raise InvalidArgument.of(f"messages[{index}].{key}", f"known are {', '.join(sorted(_MESSAGE_KEYS))}")
            role = number(sessions_pb2.MessageRole, given.get("role"), f"messages[{index}].role")
            request.messages.append(sessions_pb2.Message(**{**given, "role": role}))
        answer = await self._invocation.unary(self._stub.AppendMessages, request, timeout_s=timeout_s)
        return [message(kept) for kept in answer.messages]

    def messages(self, id: str, *, page_size: int = 50) -> Pager[Message]:
        """Give the messages of a session, oldest first."""
        request = sessions_pb2.ListMessagesRequest(session_id=id, page_size=page_size)

        async def fetch(token: str) -> tuple[Sequence[Message], str]:
            request.page_token = token
            answer = await self._invocation.unary(self._stub.ListMessages, request)
            return [message(found) for found in answer.messages], answer.next_page_token

        return Pager(fetch)

    def list(self, *, all_users: bool = False, page_size: int = 50) -> Pager[Session]:
        """Give sessions of the caller, last active first.

        One that becomes active meanwhile is given at the end, also where it was
        given before: none is lost. `all_users`: those of the whole tenant, for
        operators and auditors.
        """
        request = sessions_pb2.ListSessionsRequest(all_users=all_users, page_size=page_size)

        async def fetch(token: str) -> tuple[Sequence[Session], str]:
            request.page_token = token
            answer = await self._invocation.unary(self._stub.ListSessions, request)
            return [session(found) for found in answer.sessions], answer.next_page_token

        return Pager(fetch)

    async def search(
        self, query: str, *, top_k: int = 10, role: str | None = None, timeout_s: float | None = None
    ) -> Sequence[MessageHit]:
        """Find what was said in the caller's own sessions, by words, best first.

        `role`: user, assistant, tool or system; None: user and assistant.
        """
        request = sessions_pb2.SearchMessagesRequest(query=query, top_k=top_k)
        if role is not None:
            request.role = number(sessions_pb2.MessageRole, role, "role")
        answer = await self._invocation.unary(self._stub.SearchMessages, request, timeout_s=timeout_s)
        return [
            MessageHit(session_id=hit.session_id, message=message(hit.message), score=hit.score) for hit in answer.hits
        ]


def session(found: sessions_pb2.Session) -> Session:
    """Give the value of a Session message."""
    return Session(
        id=found.id,
        user=found.user,
        create_time=moment(found, "create_time"),
        last_active_time=moment(found, "last_active_time"),
        turn_count=found.turn_count,
    )


def message(found: sessions_pb2.Message) -> Message:
    """Give the value of a Message message."""
    return Message(
        id=found.id,
        role=word(sessions_pb2.MessageRole, found.role),
        content=found.content,
        tool_call_id=found.tool_call_id,
        tool_name=found.tool_name,
        token_count=found.token_count,
        sequence=found.sequence,
        create_time=moment(found, "create_time"),
    )
