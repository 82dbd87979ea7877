"""Tenants of every size and readers of every share of one, many tenants, and the newest items of a large one."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import grpc
import numpy as np
from memoryos_testing.stack import Stack

from bench.cpu import CpuMeter
from bench.figures import Figures, recall_at_10
from bench.population import SHARES, Population, Tenant
from bench.raw import RawPostgres, raw_postgres
from bench.timing import measure

INDEXED_FROM: Final = 20_000
"""Rows from which on a tenant has an index of its own (pgvector.ann_rows_min)."""
BUILD_S_MAX: Final = 3600.0
IDLE_S: Final = 60.0
SETTINGS: Final = ("pgvector.upkeep_s=5", "pgvector.build_memory_mb=1024")
"""Indexes are looked after more often than in life, so that the bench does not wait."""


class ScaleBench:
    """Measures on one deployment; `calls` a figure."""

    def __init__(self, stack: Stack, figures: Figures, calls: int) -> None:
        self._stack = stack
        self._figures = figures
        self._calls = calls
        self._meter = CpuMeter(stack.folder, ["memoryfs", "postgres"])

    async def selectivity(self, total: int, *, p95_ms_max: float, recall_min: float) -> None:
        """Read by vector in tenants of 10 %, 1 % and 0.1 % of `total` items, as owner and as readers of a part."""
        sizes = [(f"share{share}", int(total * share)) for share in (0.1, 0.01, 0.001)]
        measured = [Tenant(name, number, size) for number, (name, size) in enumerate(sizes)]
        each = max(200, total // 1_000)
        rest = [Tenant(f"rest{n}", 100 + n, each) for n in range((total - sum(t.size for t in measured)) // each)]
        async with self._channel() as channel, raw_postgres(self._stack.folder) as raw:
            population = Population(self._stack, channel, self._figures)
            timing = await population.write([*measured, *rest])
            self._figures.rate(f"batch Write of 200 up to {total} items (items)", timing, None, None, per_call=200)
            await self._settled(raw, measured)
            for tenant in measured:
                for group in ("", *SHARES):
                    if not group or tenant.size * SHARES[group] >= 10:
                        await self._recall(population, raw, tenant, group, total, p95_ms_max, recall_min)

    async def many_tenants(self, tenants: int, each: int, big: int) -> None:
        """Many small tenants and one big one in one store."""
        async with self._channel() as channel, raw_postgres(self._stack.folder) as raw:
            population = Population(self._stack, channel, self._figures)
            first = [Tenant(f"small{n}", 1_000 + n, each) for n in range(50)]
            await population.write(first)
            await raw.settle()
            await self._small(population, raw, first, "50 tenants")
            await self._few_first(population)
            giant = Tenant("giant", 999, big)
            rest = [Tenant(f"small{n}", 1_000 + n, each) for n in range(50, tenants)]
            timing = await population.write([giant, *rest])
            self._figures.rate("batch Write of 200 (items)", timing, None, None, per_call=200)
            await self._settled(raw, [giant])
            await self._small(population, raw, first, f"{tenants} tenants and one of {big}")
            for group in ("", *SHARES):
                await self._recall(population, raw, giant, group, big, 25.0, 0.99)
            for user, name in (("owner", f"a user with {big}"), ("few", "a user with 20 among them, the oldest")):
                caller = population.caller("giant", user)
                assert len(await caller.newest(10)) == 10
                ours = await measure(lambda _, c=caller: c.newest(10), count=self._calls, meter=self._meter)  # type: ignore[misc]
                self._figures.latency(f"newest 10 items of {name}", ours, p95_ms_max=15.0)
            await self._idle(tenants * each + big)

    def _channel(self) -> grpc.aio.Channel:
        options = [("grpc.max_receive_message_length", 64 * 1024 * 1024)]
        return grpc.aio.insecure_channel(self._stack.addresses["memoryfs"], options=options)

    async def _few_first(self, population: Population) -> None:
        few = Tenant("giant", 998, 20)
        items = population.caller("giant", "few")
        await items.write(population.items(few, 0, 20), range(20), [[]] * 20)

    async def _settled(self, raw: RawPostgres, tenants: list[Tenant]) -> None:
        """Wait until statistics are made and big tenants have their index."""
        await raw.settle()
        wanted = {tenant.name for tenant in tenants if tenant.size >= INDEXED_FROM}
        began = time.perf_counter()
        async with asyncio.timeout(BUILD_S_MAX):
            while not wanted <= set(await raw.indexed_tenants()):  # noqa: ASYNC110 - another process builds them
                await asyncio.sleep(1.0)
        if wanted:
            rows = sum(tenant.size for tenant in tenants if tenant.name in wanted)
            self._figures.value(f"indexes of {rows} rows are built after", f"{time.perf_counter() - began:.0f} s")
            await asyncio.sleep(11.0)  # services believe the list of indexes for 10 s

    async def _recall(
        self,
        population: Population,
        raw: RawPostgres,
        tenant: Tenant,
        group: str,
        total: int,
        p95_ms_max: float,
        recall_min: float,
    ) -> None:
        vectors = population.queries(min(100, self._calls))
        expected = population.nearest(tenant, vectors, group)
        user, groups = ("reader", (group,)) if group else ("owner", ())
        caller = population.caller(tenant.name, user, groups)
        principals = [f"user:{user}", *(f"group:{one}" for one in groups)]
        numbers = await raw.readers(tenant.name, principals)
        found: dict[int, list[str]] = {}

        async def read(number: int) -> None:
            found[number] = await caller.read(vectors[number % len(vectors)], exact=tenant.size < INDEXED_FROM)

        async def raw_read(number: int) -> None:
            await raw.nearest(tenant.name, numbers, vectors[number % len(vectors)])

        ours = await measure(read, count=self._calls, meter=self._meter)
        base = await measure(raw_read, count=self._calls)
        recall = float(np.mean([recall_at_10(ids, expected[n % len(vectors)]) for n, ids in found.items()]))
        part = f"reader of {SHARES[group]:.1%}" if group else "owner"
        name = f"Read, {total} items, tenant of {tenant.size}, {part} (recall@10 {recall:.3f})"
        self._figures.latency(name, ours, base, p95_ms_max=p95_ms_max, sound=recall >= recall_min)

    async def _small(self, population: Population, raw: RawPostgres, tenants: list[Tenant], name: str) -> None:
        vectors = population.queries(50)
        callers = [population.caller(tenant.name) for tenant in tenants]

        async def read(number: int) -> None:
            await callers[number % len(callers)].read(vectors[number % len(vectors)])

        ours = await measure(read, count=self._calls, warm=2 * len(callers), meter=self._meter)
        self._figures.latency(f"Read in a tenant of {tenants[0].size}, {name}", ours)
        numbers = await raw.readers(tenants[0].name, ["user:owner"])
        planning = await raw.planning_ms(tenants[0].name, numbers, vectors[0])
        self._figures.value(f"planning of its search, {name}", f"{planning:.2f} ms")

    async def _idle(self, items: int) -> None:
        meter = CpuMeter(self._stack.folder, ["memoryfs", "memoryfs-upkeep", "postgres"])
        before = meter.read()
        await asyncio.sleep(IDLE_S)
        used = {name: 1000 * (total - before[name]) / IDLE_S for name, total in meter.read().items()}
        text = ", ".join(f"{name} {ms:.2f} ms" for name, ms in used.items())
        self._figures.value(f"CPU a second of idle maintenance, {items} items", text)
        self._figures.value("the same a million items", f"{1e6 * sum(used.values()) / items:.2f} ms")
