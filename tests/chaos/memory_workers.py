"""Callers of MemoryFS that know what must be there: each works in a place of its own, one call after the other.

A call that was not answered is sent again, with its request_id, until it is; its effect is then in the
worker's model once. So what the service lists has to equal the model exactly, whatever was killed.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
import numpy as np
from memoryos.memoryfs.v1 import (
    admin_pb2,
    item_pb2,
    lifecycle_pb2,
    memoryfs_pb2,
    namespace_pb2,
    snapshots_pb2,
    transfer_pb2,
)
from memoryos_grpc.status import remote_error

from .memory_deployment import Deployment

ACTIVE, SUPERSEDED, FORGOTTEN = item_pb2.STATE_ACTIVE, item_pb2.STATE_SUPERSEDED, item_pb2.STATE_FORGOTTEN
STATES = (ACTIVE, item_pb2.STATE_CANDIDATE, SUPERSEDED, FORGOTTEN)
_LOST = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN"}
"""What a caller sees of a killed process; UNKNOWN only without a word of ours."""
_ITEMS_MAX = 60
_CALL_S = 20
_PAUSE_S = 0.1


@dataclass(frozen=True)
class Known:
    """What must be true of an item."""

    content: str
    state: int
    path: str
    source: bool = False
    """Something was made from it, or it was made: not purged here, since that takes more with it."""


def vector(content: str) -> memoryfs_pb2.Embedding:
    """Give a direction of its own for every text, so that its item is found by it alone."""
    seed = int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "big")
    row = np.random.default_rng(seed).standard_normal(512)
    return memoryfs_pb2.Embedding(model="usem3-512", values=[float(x) for x in row / np.linalg.norm(row)])


@dataclass
class Worker:
    """One caller and its model."""

    deployment: Deployment
    name: str
    running: asyncio.Event
    rng: random.Random
    model: dict[str, Known] = field(default_factory=dict)
    copied: dict[str, tuple[str, int]] = field(default_factory=dict)
    """What must be in the tenant to which it hands over."""
    snapshots: dict[str, dict[str, Known]] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    purged: set[str] = field(default_factory=set)
    ever_purged: set[str] = field(default_factory=set)
    steps: list[str] = field(default_factory=list)
    lost: int = 0
    last: tuple[str, Any, Any] | None = None
    """The last acknowledged change: method, request, answer."""
    _number: int = 0
    _between: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.path = f"/tenants/acme/memory/episodic/{self.name}"
        self.there = f"/tenants/copy/memory/episodic/{self.name}"
        self._me = self.deployment.caller(self.name, "acme")
        self._there = self.deployment.caller(self.name, "copy")

    async def run(self) -> None:
        """Work until cancelled, between two calls only while `running` is set."""
        steps: list[Callable[[], Awaitable[None]]] = [self.write, self.write, self.update, self.update, self.forget]
        steps += [self.restore, self.merge, self.move, self.purge, self.snapshot, self.roll_back, self.hand_over]
        while True:
            self._between.set()
            await self.running.wait()
            self._between.clear()
            step = self.rng.choice(steps) if len(self.model) < _ITEMS_MAX else self.purge
            await step()
            self.steps.append(step.__name__)
            self.calls[step.__name__] = self.calls.get(step.__name__, 0) + 1

    async def call(self, method: str, request: Any, metadata: Any = None) -> Any:
        """Give the answer, however often the call has to be sent."""
        while True:
            try:
                call = getattr(self.deployment.stub, method)
                answer = await call(request, metadata=metadata or self._me, timeout=_CALL_S)
            except grpc.aio.AioRpcError as error:
                told = remote_error(error)
                # Whoever dies says nothing; whoever lives says what is missing, and never that it is at fault.
                assert told.code in _LOST, (method, told.code, told.reason, told.message, told.metadata)
                assert told.code != "UNKNOWN" or not told.reason, (method, told.reason)
                self.lost += 1
                await asyncio.sleep(_PAUSE_S)
            else:
                if metadata is None and hasattr(request, "request_id"):
                    self.last = (method, request, answer)
                return answer

    async def idle(self) -> None:
        """Return when no call is under way; `running` is not set."""
        async with asyncio.timeout(60):
            await self._between.wait()

    async def check(self) -> None:
        """Compare the service with the model: exactly the same items, states, places and words, and found."""
        listed = {}
        for state in STATES:
            for item in await self._all(self.path, state, self._me):
                listed[item.id] = Known(item.content, item.state, item.path)
        expected = {item_id: replace(known, source=False) for item_id, known in self.model.items()}
        # A purge has forgotten them at once; the job that removes them may still be on its way.
        for item_id in self.purged:
            listed.pop(item_id, None)
        differ = {i: (listed.get(i), expected.get(i)) for i in {*listed, *expected} if listed.get(i) != expected.get(i)}
        assert not differ, (self.name, self.steps[-12:], differ)
        copied = {}
        for state in (ACTIVE, SUPERSEDED):
            for item in await self._all(self.there, state, self._there):
                copied[item.id] = (item.content, item.state)
        # What is under purge may have been brought back by a rollback for the moment, and handed over with the rest.
        differ_there = {
            i: (copied.get(i), self.copied.get(i))
            for i in {*copied, *self.copied} - self.ever_purged
            if copied.get(i) != self.copied.get(i)
        }
        assert not differ_there, (self.name, self.steps[-12:], differ_there)
        for item_id in self.rng.sample(self._of(ACTIVE), min(3, len(self._of(ACTIVE)))):
            content = self.model[item_id].content
            request = memoryfs_pb2.ReadRequest(path=self.path, query=content, embedding=vector(content), top_k=3)
            answer = await self.call("Read", request)
            assert item_id in [hit.item.id for hit in answer.hits], (self.name, content)

    async def again(self) -> None:
        """Send the last acknowledged change once more: the same answer, and nothing happens."""
        if self.last is None or self.last[0] == "Purge":
            return
        method, request, answer = self.last
        repeated = await self.call(method, request)
        if method == "Merge":  # the item as it is by now; it may have got its vector meanwhile
            assert repeated.item.id == answer.item.id
            return
        for one in (repeated, answer):
            one.ClearField("snapshot") if method == "CreateSnapshot" else None
        assert repeated == answer, (method, repeated, answer)

    async def _all(self, path: str, state: int, metadata: Any) -> list[item_pb2.Item]:
        found: list[item_pb2.Item] = []
        token = ""
        while True:
            request = memoryfs_pb2.ListRequest(path=path, state=state, page_size=200, page_token=token)
            page = await self.call("List", request, metadata)
            found += page.items
            token = page.next_page_token
            if not token:
                return found

    def _of(self, *states: int) -> list[str]:
        return [item_id for item_id, known in self.model.items() if known.state in states]

    def _some(self, most: int, *states: int) -> list[str]:
        there = self._of(*states)
        return self.rng.sample(there, min(len(there), self.rng.randint(1, most)))

    def _next(self) -> str:
        self._number += 1
        return f"{self.name}-{self._number}"

    def _entry(self, **fields: Any) -> memoryfs_pb2.WriteEntry:
        content = f"记录 note {self._next()} of {self.name}"
        return memoryfs_pb2.WriteEntry(content=content, embedding=vector(content), **fields)

    async def write(self) -> None:
        entries = [self._entry() for _ in range(self.rng.choice([1, 1, 3, 12]))]
        request = memoryfs_pb2.WriteRequest(
            path=self.path, entries=entries, request_id=self._next(), on_conflict=memoryfs_pb2.ON_CONFLICT_ADD
        )
        for entry, result in zip(entries, (await self.call("Write", request)).results, strict=True):
            self.model[result.id] = Known(entry.content, ACTIVE, self.path)

    async def update(self) -> None:
        if not (ids := self._some(4, ACTIVE)):
            return
        entries = [self._entry(id=item_id) for item_id in ids]
        request = memoryfs_pb2.WriteRequest(path=self.path, entries=entries, request_id=self._next())
        await self.call("Write", request)
        for entry in entries:
            self.model[entry.id] = replace(self.model[entry.id], content=entry.content)

    async def forget(self) -> None:
        if ids := [i for i in self._some(3, ACTIVE) if not self.model[i].source]:
            await self.call("Forget", lifecycle_pb2.ForgetRequest(path=self.path, ids=ids, request_id=self._next()))
            self._set(ids, FORGOTTEN)

    async def restore(self) -> None:
        if ids := [i for i in self._some(3, FORGOTTEN) if not self.model[i].source]:
            await self.call("Restore", lifecycle_pb2.RestoreRequest(path=self.path, ids=ids, request_id=self._next()))
            self._set(ids, ACTIVE)

    def _set(self, ids: list[str], state: int) -> None:
        for item_id in ids:
            self.model[item_id] = replace(self.model[item_id], state=state)

    async def merge(self) -> None:
        ids = [i for i in self._some(4, ACTIVE) if not self.model[i].source]
        if len(ids) < 2:
            return
        content = f"made of several {self._next()}"
        request = lifecycle_pb2.MergeRequest(path=self.path, ids=ids, content=content, request_id=self._next())
        item = (await self.call("Merge", request)).item
        self.model[item.id] = Known(content, ACTIVE, self.path, source=True)
        for item_id in ids:
            self.model[item_id] = replace(self.model[item_id], state=SUPERSEDED, source=True)

    async def move(self) -> None:
        if not (ids := self._some(4, ACTIVE, SUPERSEDED)):
            return
        there = self.rng.choice(["a", "b"])
        request = namespace_pb2.MoveRequest(
            from_path=self.path, to_path=f"{self.path}/{there}", ids=ids, request_id=self._next()
        )
        ids = [i for i in ids if self.model[i].path == self.path]
        if not ids:
            return
        del request.ids[:]
        request.ids.extend(ids)
        await self.call("Move", request)
        for item_id in ids:
            self.model[item_id] = replace(self.model[item_id], path=f"{self.path}/{there}")

    async def purge(self) -> None:
        ids = [i for i in self._some(8, ACTIVE, FORGOTTEN) if not self.model[i].source]
        if not ids or (len(self.model) < _ITEMS_MAX and self.rng.random() < 0.5):
            self._start_over() if len(self.model) >= _ITEMS_MAX and not ids else None
            return
        await self.call("Purge", admin_pb2.PurgeRequest(path=self.path, ids=ids, request_id=self._next()))
        self.purged.update(ids)
        self.ever_purged.update(ids)
        for then in (self.model, *self.snapshots.values()):
            for item_id in ids:
                then.pop(item_id, None)

    def _start_over(self) -> None:
        """Go on at another place, where the model is small again; what is here is compared to the end."""
        self._number += 1
        self.model, self.snapshots = {}, {}
        self.path = f"/tenants/acme/memory/episodic/{self.name}-{self._number}"

    async def snapshot(self) -> None:
        request = snapshots_pb2.CreateSnapshotRequest(path=self.path, request_id=self._next())
        answer = await self.call("CreateSnapshot", request)
        self.snapshots[answer.snapshot.id] = copy.copy(self.model)
        for dropped in answer.dropped_ids:
            self.snapshots.pop(dropped, None)

    async def roll_back(self) -> None:
        if not self.snapshots:
            return
        name = self.rng.choice(list(self.snapshots))
        request = snapshots_pb2.RollbackRequest(path=self.path, snapshot_id=name, request_id=self._next())
        await self.call("Rollback", request)
        then = self.snapshots[name]
        for item_id, known in list(self.model.items()):
            was = then.get(item_id, replace(known, state=FORGOTTEN))
            # What an item once was a source of or made from is kept in its lineage, whatever becomes of it.
            self.model[item_id] = replace(was, source=known.source or was.source)

    async def hand_over(self) -> None:
        """Export what is here and import it into another tenant."""
        if len(self.model) > _ITEMS_MAX // 2 or not self._of(ACTIVE):
            return
        request = transfer_pb2.ExportRequest(path=self.path, with_vectors=True, with_history=True)
        while True:
            try:
                lines, manifest = b"", None
                stream = self.deployment.stub.Export(request, metadata=self._me, timeout=_CALL_S)
                async for part in stream:
                    lines += part.data
                    manifest = part.manifest if part.HasField("manifest") else manifest
                break
            except grpc.aio.AioRpcError as error:
                told = remote_error(error)
                assert told.code in _LOST, ("Export", told.code, told.reason)
                await asyncio.sleep(_PAUSE_S)
        assert manifest is not None
        await self.call(
            "Import",
            transfer_pb2.ImportRequest(
                path=self.there,
                manifest=manifest,
                conflict=transfer_pb2.IMPORT_CONFLICT_REPLACE,
                request_id=self._next(),
                part=1,
                lines=lines,
                sha256=hashlib.sha256(lines).hexdigest(),
            ),
            self._there,
        )
        for item_id in self._of(ACTIVE, SUPERSEDED):
            self.copied[item_id] = (self.model[item_id].content, self.model[item_id].state)
