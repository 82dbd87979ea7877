"""Stat: how much there is below a path, as far as the caller may read it."""

from __future__ import annotations

from typing import Final

from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.namespace import Tally

_RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Stat"
CHILDREN_MAX: Final = 500


async def stat_path(parts: Parts, scope: Scope, path: MemoryPath, *, with_children: bool) -> Tally:
    """Give counts and bytes of a subtree, and of the places directly below `path`, largest first.

    Nothing that the caller cannot read is counted, nor named: two callers get
    different answers. A place that holds nothing for the caller is not there.
    """
    access.check_read(scope, path)
    async with parts.storage.transaction(scope) as work:
        tally = await work.places.tally(path, children_max=CHILDREN_MAX if with_children else 0)
    await parts.trail.record(_RPC, scope, path, [])
    return tally
