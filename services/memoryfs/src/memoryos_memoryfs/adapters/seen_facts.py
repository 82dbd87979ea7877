"""What sessions have seen of memory, written to core.session_facts before it is handed out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from memoryos_core.clock import Clock
from memoryos_core.scope import Scope
from memoryos_postgres import Database
from memoryos_postgres.session_facts import Fact, holder_of, note, saw_untrusted
from memoryos_postgres.transaction import Tx

from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain.items import Item
from memoryos_memoryfs.domain.session_trust import facts_of

_SOURCE: Final = "service:memoryfs"
KNOWN_S: Final = 3600.0
"""How long a process relies on having written a fact; outside of sessions facts last longer than that."""
KNOWN_MAX: Final = 50_000
"""Facts that a process knows to be written, some 10 MB; one that is not among them is written again."""


class PgSeen:
    """See `Seen`."""

    def __init__(self, session: Session) -> None:
        self._tx = session.tx
        self._scope = session.scope

    def gives(self, items: Iterable[Item]) -> None:
        """See `Seen.gives`."""
        _noted(self._tx, self._scope, facts_of(self._scope, items))

    async def tainted(self) -> bool:
        """See `Seen.tainted`; one round trip, none where a person calls by itself."""
        return not self._scope.alone and await saw_untrusted(self._tx, self._scope)


class SeenFacts:
    """Writes each fact of a session once an hour: a usual Read costs nothing more.

    After an erasure a process may for so long not write again what the erased
    person's own sessions had seen.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    async def keep(self, scope: Scope, facts: Iterable[str]) -> None:
        """Return once the facts are committed for the session of `scope`."""
        now = self._clock.monotonic()
        holder = holder_of(scope)
        fresh = [fact for fact in facts if self._known.get((scope.tenant, holder, fact), now) <= now]
        if not fresh:
            return
        async with self._database.scoped(scope) as tx:
            _noted(tx, scope, fresh)
        for fact in fresh:
            self._known[(scope.tenant, holder, fact)] = now + KNOWN_S
            self._known.move_to_end((scope.tenant, holder, fact))
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)


def _noted(tx: Tx, scope: Scope, facts: Iterable[str]) -> None:
    """Add the facts to the end of a transaction."""
    note(tx, scope, map(Fact, facts), source=_SOURCE)
