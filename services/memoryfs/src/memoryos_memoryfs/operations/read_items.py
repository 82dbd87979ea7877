"""Read: recall by meaning and by words, or the newest items without a query."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.answers import fitting
from memoryos_memoryfs.domain.hits import Exactness, Recalled
from memoryos_memoryfs.operations.recall_steps.by_meaning import recall_by_meaning
from memoryos_memoryfs.operations.recall_steps.known_then import recall_known_then
from memoryos_memoryfs.operations.recall_steps.newest import recall_newest
from memoryos_memoryfs.operations.recall_steps.query import ReadQuery, Trace
from memoryos_memoryfs.parts import Parts

_RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Read"


async def read_items(parts: Parts, scope: Scope, query: ReadQuery) -> Recalled:
    """Give the items that answer the query best; its audit row is committed before anything is given.

    Both arms look only at what the caller may read, and every hit is read
    again from the truth. Asking for k where k are readable gives k, unless
    `min_score` forbids or they are too large for one answer (TRUNCATED). A
    query of white space asks for the newest items. One path out of reach
    refuses the call (`PathNotAllowed`).
    """
    recalled = await recall(parts, scope, query)
    items = [hit.item for hit in recalled.hits]
    await parts.trail.gave(_RPC, scope, query.paths[0], items)
    parts.hits.note(scope.tenant, [item.id for item in items])
    return recalled


async def recall(parts: Parts, scope: Scope, query: ReadQuery, trace: Trace | None = None) -> Recalled:
    """Give the answer of a Read in `scope`, neither audited nor counted; `trace` is told what else was there."""
    for path in query.paths:
        access.check_read(scope, path)
    if query.as_of is not None:
        recalled = await recall_known_then(parts, scope, query, query.as_of, trace)
    elif query.asks:
        recalled = await recall_by_meaning(parts, scope, query, trace)
    else:
        recalled = await recall_newest(parts, scope, query)
    fits = fitting([hit.item for hit in recalled.hits])
    if fits < len(recalled.hits):
        recalled = replace(recalled, hits=recalled.hits[:fits], exactness=Exactness.TRUNCATED)
    return recalled
