"""A store of tenants of chosen sizes, every item readable by groups of chosen share, and brute force over it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import grpc
import numpy as np
from memoryos_testing.stack import Stack
from numpy.typing import NDArray

from bench.callers import OWNER, MemoryCaller
from bench.corpus import Corpus, Items
from bench.figures import Figures
from bench.timing import Timing, measure

SHARES: Final = {"half": 0.5, "tenth": 0.1, "hundredth": 0.01, "thousandth": 0.001}
"""Groups, and the part of a tenant's items that each may read."""
BATCH: Final = 200
AT_ONCE: Final = 2


class Tenant:
    """The items of one tenant, as written."""

    def __init__(self, name: str, number: int, size: int) -> None:
        self.name = name
        self.number = number
        self.size = size
        self.ids: dict[int, list[str]] = {}
        """Ids of each batch, by its first row."""

    def groups(self, first: int, count: int) -> list[list[str]]:
        """Give the groups that may read each of `count` rows from `first` on; the same whenever asked."""
        draws = np.random.default_rng((77, self.number, first)).random((count, len(SHARES)))
        return [[g for g, x, s in zip(SHARES, row, SHARES.values(), strict=True) if x < s] for row in draws]


class Population:
    """Writes tenants through the service and knows their nearest items."""

    def __init__(self, stack: Stack, channel: grpc.aio.Channel, figures: Figures) -> None:
        self._stack = stack
        self._channel = channel
        self._figures = figures
        self._corpus = Corpus()

    def caller(self, tenant: str, user: str = OWNER, groups: Sequence[str] = ()) -> MemoryCaller:
        """Give a caller of a tenant."""
        return MemoryCaller(self._stack, self._channel, tenant, user, groups)

    async def write(self, tenants: Sequence[Tenant]) -> Timing:
        """Write all items of the tenants, batches of tenants in turn."""
        jobs = [(tenant, first) for tenant in tenants for first in range(0, tenant.size, BATCH)]
        jobs.sort(key=lambda job: job[1])
        callers = {tenant.name: self.caller(tenant.name) for tenant in tenants}

        async def batch(number: int) -> None:
            tenant, first = jobs[number]
            count = min(BATCH, tenant.size - first)
            items = self.items(tenant, first, count)
            groups = tenant.groups(first, count)
            tenant.ids[first] = await callers[tenant.name].write(items, range(count), groups)

        began = time.perf_counter()
        timing = await measure(batch, count=len(jobs), at_once=AT_ONCE, warm=0)
        total = sum(tenant.size for tenant in tenants)
        self._figures.say(f"{total} items in {len(tenants)} tenants after {time.perf_counter() - began:.0f} s")
        return timing

    def items(self, tenant: Tenant, first: int, count: int) -> Items:
        """Give rows of the tenant's items."""
        return self._corpus.items(10_000 + tenant.number, first, count)

    def queries(self, count: int) -> NDArray[np.float32]:
        """Give query vectors."""
        return self._corpus.queries(count)[1]

    def nearest(self, tenant: Tenant, vectors: NDArray[np.float32], group: str) -> list[dict[str, float]]:
        """Give the ten best scores for each vector by brute force, by id, ties at the end included.

        `group`: only what it may read; empty: everything.
        """
        best: list[dict[str, float]] = [{} for _ in vectors]
        for first, ids in tenant.ids.items():
            items = self.items(tenant, first, len(ids))
            readable = [not group or group in groups for groups in tenant.groups(first, len(ids))]
            kept = np.flatnonzero(readable)
            if not len(kept):
                continue
            rows = items.vectors[kept]
            scores = (vectors @ rows.T) / np.linalg.norm(rows, axis=1)
            for place, own in enumerate(best):
                for column in np.argsort(-scores[place])[:12]:
                    own[ids[int(kept[column])]] = float(scores[place, column])
        return [_ten(scores) for scores in best]


def _ten(scores: dict[str, float]) -> dict[str, float]:
    edge = sorted(scores.values(), reverse=True)[:10][-1] - 1e-4 if scores else 0.0
    return {item_id: score for item_id, score in scores.items() if score >= edge}
