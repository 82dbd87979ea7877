"""Isolation proved (I1): random people × places × every RPC × both backends, against a set model.

10,000 cases here, 100,000 in `make test-chaos`. A case is one RPC of one person
at one place whose whole answer, or error, was compared with the model.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from .isolation_probes import PROBES, SLOW_PROBES, Probe
from .isolation_world import PEOPLE, PLACES, World, make_world

WORLD_SIZE = 60
AT_ONCE = 8


async def prove(world: World, rng: random.Random, cases: int) -> int:
    """Run probes until at least `cases` RPCs were compared; give their number."""
    for person in PEOPLE:
        for probe in SLOW_PROBES:
            await probe(Probe(world, person, f"/tenants/{person.tenant}/memory/episodic", rng))
    while world.asked < cases:
        batch = []
        for _ in range(AT_ONCE):
            person, place = rng.choice(PEOPLE), rng.choice(PLACES)
            at = Probe(world, person, f"/tenants/{person.tenant}/memory/{place}", random.Random(rng.random()))
            batch.append(rng.choice(PROBES)(at))
        await asyncio.gather(*batch)
    return world.asked


@pytest.mark.parametrize("backend", ["pgvector", "qdrant"])
async def test_nobody_learns_what_is_not_theirs(start_service, backend):
    qdrant = {"qdrant": {"url": ":memory:"}, "vector_backend": "qdrant"} if backend == "qdrant" else {}
    rng = random.Random(f"isolation {backend}")
    world = await make_world(await start_service(**qdrant), rng, size=WORLD_SIZE)
    assert await prove(world, rng, 5_000) >= 5_000


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["pgvector", "qdrant"])
@pytest.mark.parametrize("seed", range(5))
async def test_nobody_learns_what_is_not_theirs_in_many_worlds(start_service, backend, seed):
    qdrant = {"qdrant": {"url": ":memory:"}, "vector_backend": "qdrant"} if backend == "qdrant" else {}
    rng = random.Random(f"isolation {backend} {seed}")
    world = await make_world(await start_service(**qdrant), rng, size=90 + 40 * seed)
    assert await prove(world, rng, 10_000) >= 10_000
