"""The loop that copies changes to Qdrant, for as long as the process runs."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final, Protocol

from memoryos_vectors.adapters.guarded import GuardedIndex
from memoryos_vectors.errors import IndexAbsent, IndexUnavailable
from memoryos_vectors.models import IndexedModels
from memoryos_vectors.qdrant_config import QdrantSection

from memoryos_memoryfs.operations.copy_changes import copy_changes, keep_copy
from memoryos_memoryfs.ports.index import BackendState, IndexOutbox

HEALTH_PART: Final = "memoryos.memoryfs.vector_index"
"""Name under which gRPC health tells whether the copy answers; the service serves without it."""
_PAUSE_MAX_S: Final = 5.0


class TellHealth(Protocol):
    """Says whether the copy answers."""

    async def __call__(self, *, serving: bool) -> None:
        """See `Server.set_part_health`."""


_log = logging.getLogger(__name__)


async def copy_forever(
    outbox: IndexOutbox,
    state: BackendState,
    index: GuardedIndex,
    models: IndexedModels,
    section: QdrantSection,
    tell_health: TellHealth,
) -> None:
    """Copy what waits, batch after batch; sleep when nothing was done, longer while the index does not answer."""
    pause_s, looked, answered = section.copy_poll_s, 0.0, True
    while True:
        done = 0
        try:
            if time.monotonic() - looked > section.copy_check_s:
                await keep_copy(outbox, state, index)
                looked = time.monotonic()
            done = await copy_changes(outbox, index, models, section.copy_batch)
            pause_s = section.copy_poll_s
        except IndexAbsent:
            looked = 0.0
        except IndexUnavailable:
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        except Exception:
            _log.exception("changes cannot be copied to the vector index")
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        if index.breaker.closed is not answered:
            answered = index.breaker.closed
            _log.warning("the vector index answers again" if answered else "the vector index does not answer")
            await tell_health(serving=answered)
        if not done:
            await asyncio.sleep(pause_s)
