"""Many callers change the same few items at once by every method: typed answers only, and no half state after it.

The kinds of fault meant here: work on one place that waits in a ring, an error of the database that is
swallowed or told as a fault of ours, updates that overwrite each other unseen, and index rows that stay behind.
"""

from __future__ import annotations

import asyncio
import random

import grpc
import pytest
from memoryos.memoryfs.v1 import admin_pb2, item_pb2, lifecycle_pb2, memoryfs_pb2, namespace_pb2, snapshots_pb2
from memoryos_grpc.status import remote_error
from memoryos_testing.memory_invariants import broken_invariants

from .conftest import request_id

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
EXPECTED = {"NOT_FOUND", "ABORTED", "FAILED_PRECONDITION", "PERMISSION_DENIED", "UNAVAILABLE", "INVALID_ARGUMENT"}
TEXTS = ["Bob likes green tea", "the pump runs at 40 bar", "客户确认了交付计划", "likes green tea, Bob", "会议改到周五"]
STEPS = 25
WORKERS = 5


class Storm:
    """One worker: random methods on items that everybody works on."""

    def __init__(self, caller, seed: int, pool: list[str], snapshots: list[str]) -> None:
        self.caller, self.pool, self.snapshots = caller, pool, snapshots
        self.rng = random.Random(seed)
        self.codes: dict[str, int] = {}

    async def run(self) -> None:
        for _ in range(STEPS):
            often = (self.write, self.event, self.update, self.merge)
            other = (self.forget, self.restore, self.move, self.judge, self.revert, self.roll_back, self.read)
            act = self.rng.choice((*often, *often, *other, self.purge))
            try:
                await act()
                code = "OK"
            except grpc.aio.AioRpcError as error:
                found = remote_error(error)
                code = found.code
                assert code in EXPECTED, (act.__name__, code, found.reason, found.metadata)
                assert found.reason, (act.__name__, code)
            self.codes[code] = self.codes.get(code, 0) + 1

    def some(self, most: int) -> list[str]:
        """Give some items in any order: opposite orders are what makes rings."""
        found = self.rng.sample(self.pool, min(len(self.pool), self.rng.randint(1, most)))
        self.rng.shuffle(found)
        return found

    def path(self) -> str:
        return self.caller.path + self.rng.choice(["", "", "/a", "/a/b", "/c"])

    async def write(self) -> None:
        entries = [
            memoryfs_pb2.WriteEntry(
                content=self.rng.choice(TEXTS),
                confidence=self.rng.choice([0.5, 0.9]),
                readers=self.rng.choice([[], ["user:alice", "user:bob"]]),
                source=item_pb2.Source(session_id="s", message_ids=[str(self.rng.random())]),
            )
            for _ in range(self.rng.randint(1, 3))
        ]
        await self.keep(entries)

    async def event(self) -> None:
        keys = [item_pb2.EventKey(subject=s, scope="x") for s in ("bob", "pump", "客户")]
        entries = [
            memoryfs_pb2.WriteEntry(
                content=self.rng.choice(TEXTS),
                event_key=key,
                confidence=self.rng.choice([0.5, 0.9]),
                source=item_pb2.Source(session_id="s", message_ids=[str(self.rng.random())]),
            )
            for key in self.rng.sample(keys, 2)
        ]
        await self.keep(entries)

    async def keep(self, entries) -> None:
        results = await self.caller.write_entries(entries, path=self.path())
        self.pool += [result.id for result in results]
        while len(self.pool) > 30:
            self.pool.pop(0)

    async def update(self) -> None:
        entries = [
            memoryfs_pb2.WriteEntry(id=item_id, content=f"{self.rng.choice(TEXTS)} {self.rng.random()}")
            for item_id in self.some(4)
        ]
        await self.caller.write_entries(entries)

    async def forget(self) -> None:
        await self.caller.forget(*self.some(4))

    async def restore(self) -> None:
        await self.caller.restore(*self.some(2))

    async def move(self) -> None:
        there, back = self.rng.sample(["", "/a", "/a/b", "/c"], 2)
        request = namespace_pb2.MoveRequest(
            from_path=self.caller.path + there, to_path=self.caller.path + back, request_id=request_id()
        )
        if self.rng.random() < 0.7:
            request.ids.extend(self.some(3))
        await self.caller.call("Move", request)

    async def merge(self) -> None:
        request = lifecycle_pb2.MergeRequest(
            path=self.caller.path, ids=self.some(4), content="made of several", request_id=request_id()
        )
        self.pool.append((await self.caller.call("Merge", request)).item.id)

    async def judge(self) -> None:
        (item_id,) = self.some(1)
        if self.rng.random() < 0.5:
            request = lifecycle_pb2.PromoteRequest(path=self.caller.path, id=item_id, request_id=request_id())
            await self.caller.call("Promote", request)
        else:
            request = lifecycle_pb2.DisputeRequest(
                path=self.caller.path, id=item_id, request_id=request_id(), reason="no"
            )
            await self.caller.call("Dispute", request)

    async def revert(self) -> None:
        (item_id,) = self.some(1)
        request = lifecycle_pb2.RevertRequest(
            path=self.caller.path, id=item_id, revision=self.rng.randint(1, 3), request_id=request_id()
        )
        await self.caller.call("Revert", request)

    async def roll_back(self) -> None:
        if not self.snapshots or self.rng.random() < 0.5:
            request = snapshots_pb2.CreateSnapshotRequest(path=self.caller.path, request_id=request_id())
            self.snapshots.append((await self.caller.call("CreateSnapshot", request)).snapshot.id)
            del self.snapshots[:-3]
            return
        request = snapshots_pb2.RollbackRequest(
            path=self.caller.path, snapshot_id=self.rng.choice(self.snapshots), request_id=request_id()
        )
        await self.caller.call("Rollback", request)

    async def purge(self) -> None:
        if self.rng.random() < 0.6:
            return
        request = admin_pb2.PurgeRequest(path=self.caller.path, ids=self.some(2), request_id=request_id())
        await self.caller.call("Purge", request)

    async def read(self) -> None:
        for hit in (await self.caller.read(self.rng.choice(TEXTS), top_k=50)).hits:
            assert f"/tenants/{self.caller.path.split('/')[2]}/" in hit.item.path


async def settled(service) -> dict[str, list[str]]:
    broken: dict[str, list[str]] = {}
    for _ in range(600):
        broken = await broken_invariants(service.database.admin_dsn, settled=True)
        if not broken:
            return {}
        await asyncio.sleep(0.1)
    return broken


async def test_everything_at_once_on_the_same_items_ends_whole(service):
    people = [
        service.caller(user, tenant=tenant, roles=frozenset({"user", "agent"}))
        for tenant in ("acme", "evil")
        for user in ("alice", "bob")
    ]
    workers = []
    for n, caller in enumerate(people):
        pool = [await caller.write(f"{TEXTS[0]} first {n}") for _ in range(3)]
        snapshots: list[str] = []
        workers += [Storm(caller, 10 * n + k, pool, snapshots) for k in range(WORKERS)]
    await asyncio.gather(*(worker.run() for worker in workers))
    codes: dict[str, int] = {}
    for worker in workers:
        for code, count in worker.codes.items():
            codes[code] = codes.get(code, 0) + count
    assert codes["OK"] > len(workers) * STEPS / 3, codes
    assert await settled(service) == {}


async def test_candidates_that_are_said_again_and_their_events_at_once_wait_in_no_ring(service):
    """Saying a doubtful thing again may promote it, and then it takes its place in an event nobody named."""
    alice = service.caller("alice")
    keys = [item_pb2.EventKey(subject=f"subject {n}") for n in range(4)]

    def entry(n: int, text: str, *, keyed: bool, source: str) -> memoryfs_pb2.WriteEntry:
        return memoryfs_pb2.WriteEntry(
            content=text,
            confidence=0.6,
            event_key=keys[n] if keyed else None,
            source=item_pb2.Source(document=source, page=1),
        )

    texts = [
        f"{name} works in the {room} hall" for name, room in zip("ABCD", ("red", "blue", "grey", "green"), strict=True)
    ]
    await alice.write_entries([entry(n, text, keyed=True, source="first") for n, text in enumerate(texts)])

    async def again(number: int) -> None:
        order = random.Random(number).sample(range(4), 4)
        await alice.write_entries([entry(n, texts[n], keyed=False, source=f"d{number}-{n}") for n in order[:2]])
        await alice.write_entries(
            [entry(n, f"{texts[n]} of house {number}", keyed=True, source="x") for n in order[2:]]
        )

    await asyncio.gather(*(again(number) for number in range(12)))
    active = (await alice.list(page_size=200)).items
    assert {item.content for item in active} >= set(texts)
    assert len({item.id for item in active if item.content in texts}) == 4
    assert await broken_invariants(service.database.admin_dsn) == {}
