"""The measures, one method each."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import grpc
import numpy as np
from memoryos_testing.stack import Stack
from numpy.typing import NDArray

from bench.callers import GROUP, OWNER, READER, MemoryCaller
from bench.corpus import Corpus, Items
from bench.cpu import CpuMeter
from bench.figures import Figures, recall_at_10
from bench.raw import RawPostgres, raw_postgres
from bench.timing import Call, measure

TENANTS: Final = 100
BATCH: Final = 100
AT_ONCE: Final = 16
BATCHES_AT_ONCE: Final = 2


@dataclass(frozen=True)
class _Reader:
    """Who recalls: the owner of all items of a tenant, or somebody who may see some."""

    user: str
    groups: tuple[str, ...]
    name: str


class Bench:
    """All measures on one deployment; later ones read what earlier ones wrote."""

    def __init__(self, stack: Stack, items: int, scale: float, figures: Figures) -> None:
        self._stack = stack
        self._items = items
        self._scale = scale
        self._corpus = Corpus()
        self._kept: dict[int, list[tuple[Items, list[str]]]] = {}
        self._figures = figures
        self._memory = CpuMeter(stack.folder, ["memoryfs", "postgres"])

    async def run(self) -> None:
        """Measure in the order of the table."""
        options = [("grpc.max_receive_message_length", 64 * 1024 * 1024)]
        async with (
            raw_postgres(self._stack.folder) as raw,
            grpc.aio.insecure_channel(self._stack.addresses["memoryfs"], options=options) as channel,
        ):
            await self._single(channel, raw)
            for total in (self._items // 10, self._items):
                await self._fill(channel, raw, total)
                await self._recall(channel, raw, total)

    def _count(self, full: int) -> int:
        return max(20, int(full * self._scale))

    async def _single(self, channel: grpc.aio.Channel, raw: RawPostgres) -> None:
        """Write and Get of single items."""
        caller = MemoryCaller(self._stack, channel, "single", OWNER)
        items = self._corpus.items(2_000_000, 0, 20_000)
        ids: dict[int, str] = {}

        async def write(number: int) -> None:
            ids[number] = (await caller.write(items, [number]))[0]

        async def raw_write(number: int) -> None:
            await raw.write(number, items.texts[number], items.vectors[number])

        count = self._count(3_000)
        ours = await measure(write, count=count, at_once=AT_ONCE, meter=self._memory)
        base = await measure(raw_write, count=count, at_once=AT_ONCE)
        self._figures.rate("Write, 16 callers, vector given", ours, base, 800)
        alone = self._count(500)
        first = max(ids) + 1
        ours = await measure(lambda n: write(first + n), count=alone, meter=self._memory)
        base = await measure(lambda n: raw_write(first + n), count=alone)
        self._figures.latency("Write, one caller", ours, base)

        async def get(number: int) -> None:
            assert await caller.get(ids[number % count]) == items.texts[number % count]

        gets = self._count(5_000)
        ours = await measure(get, count=gets, at_once=AT_ONCE, meter=self._memory)
        base = await measure(lambda n: raw.get(n % count), count=gets, at_once=AT_ONCE)
        self._figures.rate("Get, 16 callers", ours, base, 1_000)
        await self._get_under_writes(write, get, max(ids) + 1)

    async def _get_under_writes(self, write: Call, get: Call, first: int) -> None:
        """Get of one caller while eight write as fast as they can."""
        done = asyncio.Event()

        async def writer(offset: int) -> None:
            number = first + offset
            while not done.is_set():
                await write(number)
                number += 8

        async with asyncio.TaskGroup() as group:
            for offset in range(8):
                group.create_task(writer(offset))
            ours = await measure(get, count=self._count(1_000))
            done.set()
        self._figures.latency("Get while 8 callers write (p50 / p95 / p99)", ours, p99_ms_max=30.0)

    async def _fill(self, channel: grpc.aio.Channel, raw: RawPostgres, total: int) -> None:
        """Batch writes, tenants in turn, until the store holds `total` items."""
        each = total // TENANTS
        jobs: list[tuple[int, Items]] = []
        for tenant in range(TENANTS):
            have = sum(len(ids) for _, ids in self._kept.get(tenant, []))
            jobs += [
                (tenant, self._corpus.items(tenant, first, min(BATCH, each - first)))
                for first in range(have, each, BATCH)
            ]
        # Tenants write in turn, as they do in life: their rows lie apart in the tables.
        jobs.sort(key=lambda job: len(self._kept.get(job[0], [])))
        callers = {tenant: MemoryCaller(self._stack, channel, f"bench{tenant}", OWNER) for tenant in range(TENANTS)}

        async def write(number: int) -> None:
            tenant, items = jobs[number]
            ids = await callers[tenant].write(items, range(len(items.texts)))
            self._kept.setdefault(tenant, []).append((items, ids))

        began = time.perf_counter()
        ours = await measure(write, count=len(jobs) - 5, at_once=BATCHES_AT_ONCE, warm=5, meter=self._memory)
        self._figures.say(f"{total} items after {time.perf_counter() - began:.1f} s")
        if total < self._items:
            return  # the larger fill is the longer measure

        async def raw_write(number: int) -> None:
            items = jobs[number % len(jobs)][1]
            await raw.write_many(number, items.texts, items.vectors)

        base = await measure(raw_write, count=self._count(200), at_once=BATCHES_AT_ONCE, warm=5)
        self._figures.rate(f"batch Write of {BATCH}, vectors given (items)", ours, base, 9_000, per_call=BATCH)

    async def _recall(self, channel: grpc.aio.Channel, raw: RawPostgres, total: int) -> None:
        """Read of a 1 % tenant, as the owner of all its items and as the reader of a tenth of them."""
        limit_ms = 15.0 if total == self._items else None
        await self._recall_as(_Reader(OWNER, (), "owner"), channel, raw, total, limit_ms)
        await self._recall_as(_Reader(READER, (GROUP,), "reader of a tenth"), channel, raw, total, limit_ms)

    async def _recall_as(
        self, who: _Reader, channel: grpc.aio.Channel, raw: RawPostgres, total: int, limit_ms: float | None
    ) -> None:
        texts, vectors = self._corpus.queries(self._count(300))
        callers = [MemoryCaller(self._stack, channel, f"bench{n}", who.user, who.groups) for n in range(TENANTS)]
        principals = [f"user:{who.user}", *(f"group:{group}" for group in who.groups)]
        numbers = [await raw.readers(caller.tenant, principals) for caller in callers]
        found: dict[int, list[str]] = {}

        async def read(number: int) -> None:
            found[number] = await callers[number % TENANTS].read(vectors[number % len(vectors)])

        async def raw_read(number: int) -> None:
            tenant = number % TENANTS
            await raw.nearest(f"bench{tenant}", numbers[tenant], vectors[number % len(vectors)])

        async def read_both(number: int) -> None:
            await callers[number % TENANTS].read(vectors[number % len(vectors)], texts[number % len(vectors)])

        count = self._count(400)
        ours = await measure(read, count=count, warm=TENANTS, meter=self._memory)
        base = await measure(raw_read, count=count, warm=TENANTS)
        recalls = [
            recall_at_10(ids, self._nearest(n % TENANTS, vectors[n % len(vectors)], everything=who.user == OWNER))
            for n, ids in found.items()
        ]
        recall = float(np.mean(recalls))
        name = f"Read by vector, {total} items, 1 % tenant, {who.name} (recall@10 {recall:.3f})"
        self._figures.latency(name, ours, base, p95_ms_max=limit_ms, sound=recall == 1.0)
        ours = await measure(read_both, count=count, warm=TENANTS, meter=self._memory)
        self._figures.latency(f"Read by vector and words, {total} items, {who.name}", ours, base, p95_ms_max=limit_ms)

    def _nearest(self, tenant: int, vector: NDArray[np.float32], *, everything: bool) -> dict[str, float]:
        """Give the ten best scores by brute force, by id; ties beyond the tenth are in it."""
        scores: dict[str, float] = {}
        for items, ids in self._kept[tenant]:
            norms = np.linalg.norm(items.vectors, axis=1) * np.linalg.norm(vector)
            for item_id, score, shared in zip(ids, (items.vectors @ vector) / norms, items.shared, strict=True):
                if everything or shared:
                    scores[item_id] = float(score)
        edge = sorted(scores.values(), reverse=True)[:10][-1] - 1e-6 if scores else 0.0
        return {item_id: score for item_id, score in scores.items() if score >= edge}
