"""Whatever happened since a point, a rollback gives everything of every item as the point saw it."""

from __future__ import annotations

import random
from collections.abc import Callable

import grpc
import pytest
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2, namespace_pb2
from memoryos_memoryfs.adapters.pg_tiers import move_tier
from memoryos_memoryfs.domain.items import Tier
from memoryos_testing.memory_invariants import broken_invariants

from .conftest import request_id
from .test_rollback import merged, plain, reaching_all, rollback, snapshot

STEPS = 60
REFUSED = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
}
STATES = (
    item_pb2.STATE_ACTIVE,
    item_pb2.STATE_CANDIDATE,
    item_pb2.STATE_SUPERSEDED,
    item_pb2.STATE_FORGOTTEN,
)
_OUTLIVING = """
SELECT d.id FROM memoryfs.items d JOIN memoryfs.items s ON s.tenant = d.tenant AND s.id = ANY (d.derived_from)
WHERE d.state <> 4 AND s.state = 4
"""
_VECTORS = """
SELECT item_id, 'index', tier, acl::text, vec::text FROM memoryfs.item_vectors
UNION ALL SELECT item_id, 'parked', 0, '', vec::text FROM memoryfs.parked_vectors
"""
_WORDS = """
SELECT item_id, 'hot', acl::text, words::text FROM memoryfs.item_tokens
UNION ALL SELECT item_id, 'cold', acl::text, words::text FROM memoryfs.cold_tokens
"""


async def whole(service, caller) -> dict[str, list[object]]:
    """Give everything that there is of every item, whatever its state."""
    found: dict[str, list[object]] = {}
    for state in STATES:
        for item in (await caller.list(page_size=200, state=state)).items:
            found[item.id] = [str(plain(item))]
    for query in ("SELECT id, state, forgotten_from, tier FROM memoryfs.items", _VECTORS, _WORDS):
        for item_id, *rest in await service.rows(query):
            found[item_id].append(tuple(rest))
    return found


class Hand:
    """Does one thing after the other."""

    def __init__(self, service, rng: random.Random) -> None:
        self.service, self.rng = service, rng
        self.alice = service.caller("alice", roles=frozenset({"user"}), clearance=5)
        self.agent = service.caller("alice", chain=("scribe",))
        self.ids: list[str] = []
        self.points: dict[str, dict[str, list[object]]] = {}
        self.said = iter(range(1, 1_000_000))
        self.steps: list[str] = []

    @property
    def who(self):
        return self.rng.choice([self.alice, self.agent])

    def some(self, most: int) -> list[str]:
        return self.rng.sample(self.ids, min(len(self.ids), self.rng.randint(1, most)))

    async def write(self) -> None:
        entry = memoryfs_pb2.WriteEntry(
            content=f"said {next(self.said)}",
            readers=self.rng.choice([[], ["user:bob"], ["group:sales"]]),
            confidence=self.rng.choice([0.3, 0.9, 0.9]),
            source={"session_id": self.rng.choice(["s1", "s2"])},
        )
        results = await self.who.write_entries([entry])
        self.ids += [result.id for result in results]

    async def update(self) -> None:
        fields = self.rng.choice(
            [{"content": f"said {next(self.said)}"}, {"readers": ["user:carol"]}, {"confidence": 0.2}, {"tags": ["x"]}]
        )
        for item_id in self.some(2):
            await self.who.update(item_id, **fields)

    async def forget(self) -> None:
        await self.who.forget(*self.some(2))

    async def restore(self) -> None:
        for item_id in self.some(4):
            await self.who.restore(item_id)

    async def merge(self) -> None:
        active = [item.id for item in (await self.alice.list(page_size=200)).items]
        ids = self.rng.sample(active, min(len(active), self.rng.choice([2, 2, 3])))
        self.ids.append(await merged(self.who, *ids, content=f"made {next(self.said)}"))

    async def move(self) -> None:
        request = namespace_pb2.MoveRequest(
            from_path=self.alice.path, to_path=f"{self.alice.path}/a", ids=self.some(2), request_id=request_id()
        )
        await self.who.call("Move", request)

    async def tier(self) -> None:
        async with reaching_all(self.service) as tx:
            await move_tier(tx, "acme", self.some(3), self.rng.choice(list(Tier)))

    async def revert(self) -> None:
        request = lifecycle_pb2.RevertRequest(
            path=self.alice.path, id=self.rng.choice(self.ids), revision=1, request_id=request_id()
        )
        await self.who.call("Revert", request)

    async def dispute(self) -> None:
        request = lifecycle_pb2.DisputeRequest(
            path=self.alice.path, id=self.rng.choice(self.ids), request_id=request_id()
        )
        await self.who.call("Dispute", request)

    async def point(self) -> None:
        self.points[await snapshot(self.alice)] = await whole(self.service, self.alice)
        self.points = dict(list(self.points.items())[-5:])

    async def some_back(self) -> None:
        if self.points:
            only = self.rng.choice(
                [{"actor": "agent:alice/scribe"}, {"actor": "user:alice"}, {"source_session_id": "s1"}]
            )
            await rollback(self.alice, self.rng.choice(list(self.points)), **only)

    async def back(self) -> None:
        if not self.points:
            return
        name = self.rng.choice(list(self.points))
        before = await whole(self.service, self.alice)
        answer = await rollback(self.alice, name)
        await self.same(name, self.points[name])
        if self.rng.random() < 0.3:
            await rollback(self.alice, answer.undo_snapshot_id)
            await self.same("undo", before)

    async def same(self, name: str, then: dict[str, list[object]]) -> None:
        now = await whole(self.service, self.alice)
        differ = {i: (now.get(i), then[i]) for i in then if sorted(map(str, now[i])) != sorted(map(str, then[i]))}
        assert not differ, (self.steps, name, differ)
        assert all(now[i][1][0] == 4 for i in now if i not in then), self.steps

    async def run(self, steps: int) -> None:
        await self.write()
        kinds: list[Callable] = [self.write, self.write, self.update, self.update, self.forget, self.restore]
        kinds += [self.restore, self.merge, self.merge, self.move, self.tier, self.revert, self.dispute]
        kinds += [self.point, self.point, self.some_back, self.back, self.back]
        for _ in range(steps):
            step = self.rng.choice(kinds)
            self.steps.append(step.__name__)
            try:
                await step()
            except grpc.aio.AioRpcError as error:
                if error.code() not in REFUSED:
                    raise
                self.steps[-1] += "!"
            assert await self.service.rows(_OUTLIVING) == [], self.steps
        assert await broken_invariants(self.service.database.admin_dsn) == {}


@pytest.mark.parametrize("seed", [4, 202])
async def test_everything_is_as_the_point_saw_it(service, seed):
    await Hand(service, random.Random(seed)).run(STEPS)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(20))
async def test_everything_is_as_the_point_saw_it_in_many_histories(service, seed):
    await Hand(service, random.Random(f"many {seed}")).run(2 * STEPS)
