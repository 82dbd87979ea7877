"""Sessions and their messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final


class MessageRole(StrEnum):
    """Who speaks; names as in memoryos.harness.v1.MessageRole."""

    USER = "USER"
    ASSISTANT = "ASSISTANT"
    TOOL = "TOOL"
    SYSTEM = "SYSTEM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation of one user."""

    id: str
    user: str
    create_time: datetime
    last_active_time: datetime
    turn_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDraft:
    """A message that has no place in a session yet."""

    role: MessageRole
    content: str
    tool_call_id: str = ""
    tool_name: str = ""
    token_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a session; `sequence` counts from 1."""

    id: str
    sequence: int
    role: MessageRole
    content: str
    tool_call_id: str
    tool_name: str
    token_count: int
    create_time: datetime


OVERSEERS: Final = frozenset({"operator", "auditor"})
"""Roles that see of every session and task of the tenant that it is there, and how it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlace:
    """Where a page of sessions ended.

    Those that rest come first, last active first; then those that have moved
    since `as_of`, when the list was begun, in the order of their names.
    """

    as_of: datetime
    last_active_time: datetime | None
    """Of the last session of the page; None once those that have moved are given."""
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """A page of sessions, and where it ended; None after the last."""

    sessions: tuple[Session, ...]
    next: SessionPlace | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is looked for in a user's conversations."""

    query: str
    top_k: int
    roles: frozenset[MessageRole] = frozenset({MessageRole.USER, MessageRole.ASSISTANT})
    min_score: float = 0.0
    replies: bool = False
    """Also give what the agent said right after a message of the user."""
    shown_session: str = ""
    shown_from: int = 0
    """Messages of this session from this place on are left out: whoever asks has them before its eyes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHit:
    """A message that was found. `score` is the share of the query's words that it holds, by weight, 0..1."""

    session_id: str
    message: Message
    score: float
    reply_id: str = ""
    reply: str = ""
