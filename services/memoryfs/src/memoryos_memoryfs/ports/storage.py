"""What the operations of MemoryFS ask of storage. Adapters live in adapters/.

Every call happens inside a transaction of one `Scope` (I1): there is no way to
begin one without tenant and reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memoryos_core.errors import DependencyUnavailable
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.domain.filters import NO_FILTER, Filter
from memoryos_memoryfs.domain.items import Cause, Item, State
from memoryos_memoryfs.domain.query_words import QueryWords
from memoryos_memoryfs.domain.settings import Holding
from memoryos_memoryfs.ports.bindings import Bindings
from memoryos_memoryfs.ports.history import Derivations, History, Snapshots
from memoryos_memoryfs.ports.index import BackendState
from memoryos_memoryfs.ports.lifecycle import Claims, OwnItems
from memoryos_memoryfs.ports.namespace import Places, Settings
from memoryos_memoryfs.ports.reads import Scans
from memoryos_memoryfs.ports.transfer import PastRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Which items a call is about. All conditions must hold."""

    paths: tuple[MemoryPath, ...]
    """At or below one of these."""
    where: Filter = NO_FILTER
    states: tuple[State, ...] = (State.ACTIVE,)
    valid_at: datetime | None = None
    """Holds in the world at this instant; None: whatever its validity."""
    include_cold: bool = False

    @property
    def plain(self) -> bool:
        """Tell whether the index alone knows which items are meant: active and hot ones of the places."""
        return (
            self.where == NO_FILTER
            and self.states == (State.ACTIVE,)
            and self.valid_at is None
            and not self.include_cold
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An item with what its index rows are made of. Only active items are indexed."""

    item: Item
    words: Mapping[str, int]
    """Search tokens of the text and how often each occurs."""
    vector: Vector | None
    """None while it is PENDING."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revised:
    """The next revision of an item, and the row it replaces."""

    before: Item
    after: Written
    keep_vector: bool
    """The words are the same: the vector of the row before serves the new revision too."""
    forgotten_from: State | None = None
    """Of a revision that is made forgotten: what it would come back to; None: as the row before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Where an arm may look: the caller's principals and the places, or an explicit set of items among them."""

    scope: Scope
    reader_ids: frozenset[int]
    path_ids: frozenset[int]
    ids: frozenset[str] | None
    """None: every item of the places; else only these."""
    pending: bool
    """An item there has no vector yet."""
    include_cold: bool = False
    """Cold items, too."""
    truncated: bool = False
    """More items pass the filter than one call looks at; these are the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseAnswer:
    """The nearest items, best first, equal scores by id. `scores` is cosine similarity by item."""

    scores: Mapping[str, float]
    asked: Mapping[str, float]
    """Scores of the items that were named beside the best."""
    compared_count: int
    """Items in scope that have a vector."""
    exact: bool
    fallback: bool = False
    """The configured index did not answer, or too much waits for it: the truth's own vectors were compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalAnswer:
    """The items that hold one of the words."""

    best: Sequence[str]
    """Those that hold most, best first, equal ones by id."""
    shares: Mapping[str, float]
    """Own share of the words (domain/fusion.py) of every item that matched, 0..1."""
    truncated: bool
    """A bound ended the search: more items hold the words."""


class IdTaken(Exception):
    """An item that was to be added has the id of one that is there, maybe out of the caller's sight."""


class RequestAnswered(Exception):
    """The request_id that this transaction claimed has its answer already; `replay` gives it."""


class SettingsChanged(DependencyUnavailable):
    """The settings of the tenant changed in this instant; nothing was kept."""


class Journal(Protocol):
    """Idempotency and audit, in the transaction of what they record."""

    async def replay(self, rpc: str, request_id: str, body: bytes) -> bytes | None:
        """Give the answer that this request_id got before, None when it is new.

        Waits for a concurrent call with the same id. Raises RequestIdReused when
        it came with another body.
        """

    async def claim(self, rpc: str, request_id: str, body: bytes, answer: bytes) -> None:
        """Keep an answer that is known beforehand; spares `replay` its round trip.

        When the request was answered before, the transaction ends with
        `RequestAnswered` and keeps nothing.
        """

    async def keep(self, rpc: str, request_id: str, answer: bytes, *, subject: str | None = None) -> None:
        """Keep the answer for 7 days, sealed for the caller's user or for `subject`."""

    async def audit(self, rpc: str, path: MemoryPath, ids: Sequence[str]) -> None:
        """Record the call, one row for all its ids; it commits with the transaction or refuses it."""

    async def audit_admin(self, rpc: str, target: str) -> None:
        """Record an act on the installation; `target` names what was done, never content."""


class Seen(Protocol):
    """What the session of the caller has seen."""

    def gives(self, items: Iterable[Item]) -> None:
        """Keep what it sees by an answer of these items; it commits with the transaction."""

    async def tainted(self) -> bool:
        """Tell whether an agent calls, in a session that has seen untrusted content."""


class ReadTrail(Protocol):
    """Audit of reads: rows of concurrent calls share a commit, which each call awaits."""

    async def gave(
        self,
        rpc: str,
        scope: Scope,
        path: MemoryPath | None,
        items: Sequence[Item],
        *,
        ids: Sequence[str] | None = None,
    ) -> None:
        """Record one call whose answer has the content of `items`, and what the caller's session has seen by it.

        Under the names `ids`, or those of the items. Returns once both are
        committed; raises AuditUnavailable or DatabaseUnavailable when they cannot be.
        """

    async def record(
        self, rpc: str, scope: Scope, path: MemoryPath | None, ids: Sequence[str], *, found: bool = True
    ) -> None:
        """Record one call that named `ids` and gave out no content, or (`found` false) asked for them in vain.

        Returns once it is committed; raises AuditUnavailable when it cannot be.
        """

    async def refused(self, rpc: str, scope: Scope, path: MemoryPath | None, ids: Sequence[str], reason: str) -> None:
        """Record one change of `ids` that was refused for `reason`; its own transaction was rolled back."""


class ItemStore(Protocol):
    """The truth, under row-level security: what the caller may not read is not there.

    What `add` and `revise` keep of a tainted session (`Seen.tainted`) is untrusted, whatever the items say.
    """

    async def add(self, items: Sequence[Written], cause: Cause = Cause.WRITE) -> None:
        """Insert new items with their index rows."""

    async def revise(self, items: Sequence[Revised], cause: Cause = Cause.UPDATE) -> None:
        """Replace locked rows; each row before becomes history, its vector with it. Index rows follow the new state."""

    async def find(self, ids: Sequence[str], *, last: bool = False) -> dict[str, Item]:
        """Give those of `ids` that the caller may read, in any state.

        `last`: the transaction ends with it, in one; what is asked afterwards is a transaction of its own.
        """

    async def lock(self, ids: Sequence[str]) -> dict[str, Item]:
        """Give those of `ids` that the caller may change, locked in order of id until the transaction ends.

        Its own, and those at places whose settings name it as a writer; all of them readable.
        """

    async def set_state(self, items: Sequence[Item], state: State, cause: Cause) -> None:
        """Move locked items into FORGOTTEN, or (any other `state`) back to where they came from.

        Index rows leave or come back in the same transaction; the revision stays.
        """

    async def newest(self, look: Look, *, before: tuple[datetime, str] | None, limit: int) -> list[Item]:
        """Give the newest items that `look` means after the position `before`, unexpired, newest first.

        Only readable ones; their clearance is left to the caller of this port.
        """


class RecallIndex(Protocol):
    """Both arms of recall. Their answers are candidates: only the truth says what is readable."""

    async def within(self, look: Look) -> Within:
        """Give where to look; unless the index alone knows, the set of items that `look` means, by the truth."""

    async def readable(self, look: Look) -> Within:
        """Give exactly the items that may be served now, by the truth; costs as many rows as there are."""

    async def dense(self, within: Within, query: Vector, limit: int, *, named: Sequence[str] = ()) -> DenseAnswer:
        """Give the nearest items among `within`, and the scores of those `named`."""

    async def lexical(self, within: Within, words: QueryWords, limit: int) -> LexicalAnswer:
        """Score the items among `within` that hold any of `words`, rare ones counting more; name the `limit` best."""

    async def neighbours(self, within: Within, ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Give the items before and after each of `ids` in its session, at the same place and of the same owner.

        Only items that may be served to the caller, by the truth; one that may
        not is as if it were not there, or (expired, above the clearance) gives none.
        An item of no session has no neighbours and is absent.
        """


class JobStarter(Protocol):
    """Long operations that begin with the commit."""

    async def start(self, kind: str, asked: bytes, *, subject: str | None = None) -> str:
        """Give the name of a new job of the caller; it runs under the caller's scope (job_handlers.py).

        What was `asked` is kept sealed until the job ends, under the key of the
        caller's user or of another `subject`.
        """


class Freezer(Protocol):
    """Takes a person, or items, out of every path with the commit."""

    async def freeze(self, job_id: str, user: str) -> None:
        """Hide everything of and about `user` until the purge job has ended."""

    async def freeze_items(self, ids: Sequence[str]) -> None:
        """Hide the items for good: until the purge job has removed them, nothing brings them back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One transaction of one caller: the ports that it has."""

    items: ItemStore
    """The truth."""
    index: RecallIndex
    """The index tables."""
    journal: Journal
    """Idempotency and audit."""
    seen: Seen
    """What the caller's session has seen."""
    claims: Claims
    """What says the same, and by which sources."""
    own: OwnItems
    """What the caller owns."""
    settings: Settings
    """What holds below paths."""
    bindings: Bindings
    """What bounds sessions, tasks and agents of the caller's user."""
    places: Places
    """What lies below paths."""
    jobs: JobStarter
    """Long operations."""
    erasing: Freezer
    """People who are being erased."""
    backends: BackendState
    """Which index answers."""
    history: History
    """What became of items."""
    snapshots: Snapshots
    """Named points."""
    derivations: Derivations
    """What was made from items."""
    past: PastRows
    """Earlier revisions that come from elsewhere."""
    scans: Scans
    """What Read looks at beside both arms."""


class Storage(Protocol):
    """Begins transactions."""

    async def prepare(self, scope: Scope, path: MemoryPath, readers: Sequence[str], subjects: Sequence[str]) -> None:
        """Make sure that path and principals have their numbers, and caller and subjects their data keys.

        All in one order and in a transaction of its own: a Write never waits for another one that names
        the same new path, and two that make keys for each other's subjects do not lock each other out.
        """

    async def page_secret(self, scope: Scope) -> bytes:
        """Give the tenant's key for page tokens."""

    async def find_one(self, scope: Scope, item_id: str) -> Item | None:
        """Give an item that the caller may read, in any state, in a transaction of its own."""

    async def holding(self, scope: Scope, path: MemoryPath) -> Holding:
        """Give what the settings of `path` and of the paths above it say now, in a transaction of its own."""

    async def known_holding(self, scope: Scope, path: MemoryPath) -> Holding:
        """Give what this process last knew of that, without a round trip; to be checked by `Settings.expect`.

        A refusal that rests on it is to be checked, too: by `holding`, whose version tells.
        """

    def transaction(self, scope: Scope, *, whole: bool = False) -> AbstractAsyncContextManager[Work]:
        """Begin; commit at the end of the block, roll back on any exception.

        `whole` reaches every item of the caller's tenant, whoever may read it: for changes by a
        tenant-admin, none of whose content goes into an answer.
        Raises `RequestAnswered` at the end when the claim came second.
        """


@dataclass(frozen=True, slots=True)
class Use:
    """How an item was used."""

    hits: int
    last_time: datetime | None
    """When an answer of Read held it last; None: never, or not counted yet."""


class HitCounter(Protocol):
    """How often answers held an item."""

    async def used(self, tenant: str, item_id: str) -> Use:
        """Give the use of an item, of which the caller must know that it may be seen."""

    def note(self, tenant: str, ids: Iterable[str]) -> None:
        """Count one hit of each; never fails and never waits."""

    def noted(self, tenant: str, ids: Iterable[str]) -> bool:
        """Tell whether an answer held one of them whose hits are not written down yet."""


@dataclass(frozen=True, slots=True)
class DueEmbed:
    """An item that waits for its vector, and the principal as which the worker reads it."""

    tenant: str
    item_id: str
    owner: str
    attempts: int


class EmbedQueue(Protocol):
    """The content-free due queue of items without a vector."""

    async def due(self, limit: int) -> list[DueEmbed]:
        """Give rows that are due, oldest first, across tenants; names only."""

    async def load(self, rows: Sequence[DueEmbed]) -> dict[str, Item]:
        """Give the items of rows of one owner, read as that owner; rows of items that need no vector are removed."""

    async def keep(self, items: Sequence[Item], vectors: Sequence[Vector]) -> int:
        """Index the vectors of those items that are still at that revision; give their number."""

    async def put_off(self, rows: Sequence[DueEmbed], reason: str) -> int:
        """Try again later, each time after twice as long; give the number of rows given up."""
