"""What an item is. The numbers of the enums are those of memoryos.memoryfs.v1."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, IntFlag
from typing import Final

from memoryos_core.paths import MemoryPath

ITEM_ID_PREFIX: Final = "mem"


class State(IntEnum):
    """Where an item stands in its life."""

    CANDIDATE = 1
    ACTIVE = 2
    SUPERSEDED = 3
    FORGOTTEN = 4


class Trust(IntEnum):
    """Whether the content may be believed."""

    TRUSTED = 1
    UNTRUSTED = 2


class Origin(IntEnum):
    """How the content came to be known."""

    STATED = 1
    OBSERVED = 2
    INFERRED = 3
    IMPORTED = 4
    MERGED = 5


class Tier(IntEnum):
    """Where the index entries are kept."""

    HOT = 1
    COLD = 2


class EmbedState(IntEnum):
    """Whether the item can be found by meaning."""

    DONE = 1
    PENDING = 2


class Cause(IntEnum):
    """What made a revision or a change of state."""

    WRITE = 1
    UPDATE = 2
    FORGET = 3
    RESTORE = 4
    MOVE = 5
    PROMOTE = 6
    DISPUTE = 7
    CORROBORATE = 8
    SUPERSEDE = 9
    MERGE = 10
    REVERT = 11
    ROLLBACK = 12
    IMPORT = 13
    TIER = 14
    EXPIRE = 15
    EVICT = 16
    SOURCE = 17
    UNBIND = 18
    RELEASE = 19


class Flag(IntFlag):
    """What a reader should know; bit n-1 is number n of the proto's ItemFlag."""

    INSTRUCTION_LIKE = 1
    SOURCE_CHANGED = 2
    DISPUTED = 4


NO_FLAGS: Final = Flag(0)


@dataclass(frozen=True, slots=True)
class EventKey:
    """What an event is about; items with equal keys speak of the same thing."""

    subject: str
    scope: str
    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an item came from."""

    session_id: str = ""
    message_ids: tuple[str, ...] = ()
    task_id: str = ""
    call_id: str = ""
    document: str = ""
    page: int = 0
    agent_chain: tuple[str, ...] = ()


NO_SOURCE: Final = Source()
"""Nothing is known of where it came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The part of an item that is sealed at rest: everything that names or quotes a person."""

    path: MemoryPath
    content: str
    attributes: bytes = b""
    """One JSON object in canonical form, or nothing."""
    event_key: EventKey | None = None
    source: Source = NO_SOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing remembered, as its current revision."""

    id: str
    payload: Payload
    tags: tuple[str, ...]
    owner: str
    user: str
    readers: tuple[str, ...]
    sensitivity: int
    trust: Trust
    origin: Origin
    confidence: float
    importance: float
    state: State
    valid_from: datetime
    valid_to: datetime | None
    create_time: datetime
    update_time: datetime
    expire_time: datetime | None
    tier: Tier
    revision: int
    etag: str
    derived_from: tuple[str, ...]
    superseded_by: str
    embedding_model: str
    embed_state: EmbedState
    pinned: bool = False
    flags: Flag = NO_FLAGS
    corroboration_count: int = 0
    """Independent sources that said the same, beside the first."""

    @property
    def path(self) -> MemoryPath:
        """Place of the item."""
        return self.payload.path

    @property
    def data_subject(self) -> str:
        """Whose key seals the payload: the user whom it concerns, else the one who owns it."""
        return self.user or self.owner.removeprefix("user:")

    def expired(self, now: datetime) -> bool:
        """Tell whether it is no longer served at `now`."""
        return self.expire_time is not None and self.expire_time <= now
