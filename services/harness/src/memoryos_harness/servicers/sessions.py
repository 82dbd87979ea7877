"""memoryos.harness.v1.Sessions."""

from __future__ import annotations

from typing import Final

import grpc
from memoryos.harness.v1 import sessions_pb2, sessions_pb2_grpc
from memoryos_grpc import scope

from memoryos_harness.domain.sessions import MessageDraft
from memoryos_harness.operations.append_messages import append_messages
from memoryos_harness.operations.create_session import create_session
from memoryos_harness.operations.get_session import get_session
from memoryos_harness.operations.list_messages import list_messages
from memoryos_harness.operations.list_sessions import list_sessions
from memoryos_harness.operations.search_messages import search_messages
from memoryos_harness.ports import MessageSearch, PageKeys, SessionStore
from memoryos_harness.servicers.messages import ROLES, hit_message, message_message, session_message
from memoryos_harness.servicers.requests import SequencePages, SessionPages, request_key

_SERVICE: Final = "memoryos.harness.v1.Sessions"


class SessionsServicer(sessions_pb2_grpc.SessionsServicer):
    """Parses, runs one operation, renders."""

    def __init__(self, store: SessionStore, search: MessageSearch, keys: PageKeys) -> None:
        self._store = store
        self._search = search
        self._pages = SequencePages(keys, f"{_SERVICE}/ListMessages")
        self._session_pages = SessionPages(keys, f"{_SERVICE}/ListSessions")

    async def CreateSession(
        self, request: sessions_pb2.CreateSessionRequest, context: grpc.aio.ServicerContext
    ) -> sessions_pb2.CreateSessionResponse:
        """Start a session."""
        session = await create_session(self._store, scope(), request_key(f"{_SERVICE}/CreateSession", request))
        return sessions_pb2.CreateSessionResponse(session=session_message(session))

    async def GetSession(
        self, request: sessions_pb2.GetSessionRequest, context: grpc.aio.ServicerContext
    ) -> sessions_pb2.GetSessionResponse:
        """Give a session."""
        session = await get_session(self._store, scope(), request.id)
        return sessions_pb2.GetSessionResponse(session=session_message(session))

    async def AppendMessages(
        self, request: sessions_pb2.AppendMessagesRequest, context: grpc.aio.ServicerContext
    ) -> sessions_pb2.AppendMessagesResponse:
        """Add messages."""
        drafts = [
            MessageDraft(
                role=ROLES[message.role],
                content=message.content,
                tool_call_id=message.tool_call_id,
                tool_name=message.tool_name,
                token_count=message.token_count,
            )
            for message in request.messages
        ]
        key = request_key(f"{_SERVICE}/AppendMessages", request)
        kept = await append_messages(self._store, scope(), request.session_id, drafts, key)
        return sessions_pb2.AppendMessagesResponse(messages=[message_message(message) for message in kept])

    async def ListMessages(
        self, request: sessions_pb2.ListMessagesRequest, context: grpc.aio.ServicerContext
    ) -> sessions_pb2.ListMessagesResponse:
        """List messages."""
        who = scope()
        after = await self._pages.start(who, request.session_id, request.page_token)
        found, more = await list_messages(
            self._store, who, request.session_id, after_sequence=after, page_size=request.page_size
        )
        token = await self._pages.token(who, request.session_id, found[-1].sequence) if more else ""
        return sessions_pb2.ListMessagesResponse(
            messages=[message_message(message) for message in found], next_page_token=token
        )

    async def ListSessions(
        self, request: sessions_pb2.ListSessionsRequest, context: grpc.aio.ServicerContext
    ) -> sessions_pb2.ListSessionsResponse:
        """List sessions."""
        who = scope()
        after = await self._session_pages.start(who, request.all_users, request.page_token)
        page = await list_sessions(
            self._store, who, all_users=request.all_users, after=after, page_size=request.page_size
        )
        token = await self._session_pages.token(who, request.all_users, page.next) if page.next else ""
        return sessions_pb2.ListSessionsResponse(
            sessions=[session_message(session) for session in page.sessions], next_page_token=token
        )

    async def SearchMessages(
        self, request: sessions_pb2.SearchMessagesRequest, context: grpc.aio.ServicerContext
    ) -> sessions_pb2.SearchMessagesResponse:
        """Search messages."""
        found = await search_messages(
            self._search, scope(), query=request.query, top_k=request.top_k, role=ROLES.get(request.role)
        )
        return sessions_pb2.SearchMessagesResponse(hits=[hit_message(hit) for hit in found])
