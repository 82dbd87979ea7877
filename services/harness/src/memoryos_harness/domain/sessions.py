"""Sessions and their messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


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
