"""One probe per RPC: what it must answer to a person at a place, exactly, by the set model.

Every probe also searches its whole answer, or the whole error, for ids and words
of items that the person may not see.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import grpc
from memoryos.memoryfs.v1 import (
    bindings_pb2,
    filter_pb2,
    item_pb2,
    lifecycle_pb2,
    memoryfs_pb2,
    namespace_pb2,
    snapshots_pb2,
    transfer_pb2,
)

from .conftest import As, request_id
from .isolation_world import COMMON, PEOPLE, Known, Person, World

PAGE = 200


@dataclass
class Probe:
    """A person at a place."""

    world: World
    person: Person
    path: str
    rng: random.Random

    @property
    def caller(self) -> As:
        return self.world.caller(self.person)

    def here(self, test: Callable[[Known], bool]) -> set[str]:
        """Items below the path, if it is the person's tenant's, that pass."""
        return self.world.where(
            lambda known: known.tenant == self.person.tenant and known.below(self.path) and test(known)
        )

    @property
    def allowed(self) -> set[str]:
        return self.here(lambda known: known.visible(self.person))

    @property
    def served(self) -> set[str]:
        return self.here(lambda known: known.served(self.person))

    def any_item(self) -> Known:
        return self.rng.choice(list(self.world.items.values()))

    async def answer(self, method: str, request, *, allowed: set[str], asked: tuple[str, ...] = ()):
        """Give the answer, or None when it was refused; neither says more than it may."""
        self.world.asked += 1
        try:
            answer = await self.caller.call(method, request)
        except grpc.aio.AioRpcError as error:
            trailers = b"".join(v if isinstance(v, bytes) else v.encode() for _, v in error.trailing_metadata() or ())
            self.world.assert_no_leak((error.details() or "").encode() + trailers, set(), asked)
            if error.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNIMPLEMENTED):
                raise  # no refusal, but a fault
            return None
        self.world.assert_no_leak(answer.SerializeToString(), allowed, asked)
        return answer


async def newest(probe: Probe) -> None:
    answer = await probe.answer("Read", memoryfs_pb2.ReadRequest(path=probe.path, top_k=PAGE), allowed=probe.served)
    assert answer is not None
    assert {hit.item.id for hit in answer.hits} == probe.served


async def recall(probe: Probe) -> None:
    """k readable, k given, whatever the rest of the tenant holds."""
    word = probe.rng.choice(probe.any_item().words)
    request = memoryfs_pb2.ReadRequest(path=probe.path, query=f"{COMMON} {word}", top_k=PAGE, include_cold=True)
    answer = await probe.answer("Read", request, allowed=probe.served)
    assert answer is not None
    assert {hit.item.id for hit in answer.hits} == probe.served


async def filtered(probe: Probe) -> None:
    tag = f"tag-{probe.any_item().words[0]}"
    where = filter_pb2.Filter(none_of=[filter_pb2.Filter(tags_all=[tag])])
    request = memoryfs_pb2.ReadRequest(path=probe.path, query=COMMON, top_k=PAGE, filter=where)
    answer = await probe.answer("Read", request, allowed=probe.served)
    assert answer is not None
    assert {hit.item.id for hit in answer.hits} == {
        item_id for item_id in probe.served if f"tag-{probe.world.items[item_id].words[0]}" != tag
    }


async def known_then(probe: Probe) -> None:
    """What was known a moment ago is served by today's readers only."""
    request = memoryfs_pb2.ReadRequest(path=probe.path, query=COMMON, top_k=PAGE)
    request.as_of.GetCurrentTime()
    answer = await probe.answer("Read", request, allowed=probe.served)
    assert answer is None or {hit.item.id for hit in answer.hits} <= probe.served


async def listed(probe: Probe) -> None:
    name = probe.rng.choice(("active", "candidate", "forgotten"))
    own = name != "active"

    def expected(known: Known) -> bool:
        mine = not own or known.owner == probe.person.user
        return known.state == name and known.readable(probe.person) and mine

    state = item_pb2.State.Value(f"STATE_{name.upper()}")
    answer = await probe.answer(
        "List", memoryfs_pb2.ListRequest(path=probe.path, page_size=500, state=state), allowed=probe.here(expected)
    )
    assert answer is not None
    assert {item.id for item in answer.items} == probe.here(expected)


async def counted(probe: Probe) -> None:
    answer = await probe.answer("Stat", namespace_pb2.StatRequest(path=probe.path, with_children=True), allowed=set())
    assert answer is not None
    mine = probe.person.user
    readable = probe.here(lambda known: known.readable(probe.person))
    states = {name: {i for i in readable if probe.world.items[i].state == name} for name in ("candidate", "forgotten")}
    assert answer.usage.active_count == len(probe.served)
    for name, ids in states.items():
        own = {item_id for item_id in ids if probe.world.items[item_id].owner == mine}
        assert getattr(answer.usage, f"{name}_count") == len(own), name
    assert sum(child.usage.active_count for child in answer.children) <= len(probe.served)


async def named(probe: Probe) -> None:
    known = probe.any_item()
    request = memoryfs_pb2.GetRequest(id=known.id, with_access=True)
    answer = await probe.answer(
        "Get", request, allowed={known.id} if known.visible(probe.person) else set(), asked=(known.id,)
    )
    assert (answer is not None) == known.visible(probe.person)


async def told(probe: Probe) -> None:
    """History and lineage of any item: of those that the person sees, or else nothing."""
    known = probe.any_item()
    seen = {known.id} if known.visible(probe.person) else set()
    own = {known.id} if known.readable(probe.person) and known.owner == probe.person.user else seen
    history = await probe.answer("History", lifecycle_pb2.HistoryRequest(id=known.id), allowed=own, asked=(known.id,))
    lineage = await probe.answer("Lineage", lifecycle_pb2.LineageRequest(id=known.id), allowed=own, asked=(known.id,))
    if not own:
        assert (history, lineage) == (None, None)
    if seen:
        assert history is not None
        assert lineage is not None


async def exported(probe: Probe) -> None:
    found = b""
    probe.world.asked += 1
    async for part in probe.caller.stream("Export", transfer_pb2.ExportRequest(path=probe.path, with_history=True)):
        found += part.data
    lines = [json.loads(line) for line in found.split(b"\n")[:-1]]
    assert {line["id"] for line in lines} == probe.allowed
    probe.world.assert_no_leak(found, probe.allowed)


async def followed(probe: Probe) -> None:
    """The feed from its start: everything that may be seen now comes with its words, and nothing else does."""
    probe.world.asked += 1
    stream = probe.caller.stream("Watch", transfer_pb2.WatchRequest(path=probe.path, from_start=True))
    given: set[str] = set()
    try:
        while not given >= probe.allowed:
            message = await asyncio.wait_for(stream.read(), 20)
            if message.change.HasField("item"):
                given.add(message.id)
                probe.world.assert_no_leak(message.SerializeToString(), probe.allowed)
    finally:
        stream.cancel()
    assert given == probe.allowed


async def differing(probe: Probe) -> None:
    request = snapshots_pb2.CreateSnapshotRequest(path=probe.path, channel="probe", request_id=request_id())
    made = await probe.answer("CreateSnapshot", request, allowed=set())
    assert made is not None
    diff = snapshots_pb2.DiffRequest(path=probe.path, from_snapshot_id=made.snapshot.id)
    answer = await probe.answer("Diff", diff, allowed=probe.allowed)
    assert answer is not None
    stranger = probe.rng.choice([p for p in PEOPLE if p.user != probe.person.user])
    other = Probe(probe.world, stranger, probe.path, probe.rng)
    if "tenant-admin" not in stranger.roles or stranger.tenant != probe.person.tenant:
        assert await other.answer("Diff", diff, allowed=set()) is None


async def previewed(probe: Probe) -> None:
    """A preview counts what the person may change, and nothing more."""
    request = lifecycle_pb2.ForgetRequest(
        path=probe.path, filter=filter_pb2.Filter(), preview=True, request_id=request_id()
    )
    answer = await probe.answer("Forget", request, allowed=set())
    if answer is not None:
        own = probe.here(lambda k: k.visible(probe.person) and k.owner == probe.person.user)
        active = {item_id for item_id in own if probe.world.items[item_id].state == "active"}
        assert answer.matched_count in (len(active), len(own))


async def changes_of_strangers(probe: Probe) -> None:
    """Whoever does not own an item changes nothing of it, and learns of it only what it may read."""
    mine = (probe.person.tenant, probe.person.user)
    known = probe.rng.choice([k for k in probe.world.items.values() if (k.tenant, k.owner) != mine])
    path, ids = f"/tenants/{probe.person.tenant}/memory/{known.place}", [known.id]
    entry = memoryfs_pb2.WriteEntry(id=known.id, content="overwritten")
    calls = {
        "Write": memoryfs_pb2.WriteRequest(path=path, entries=[entry], request_id=request_id()),
        "Forget": lifecycle_pb2.ForgetRequest(path=path, ids=ids, request_id=request_id()),
        "Restore": lifecycle_pb2.RestoreRequest(path=path, ids=ids, request_id=request_id()),
        "Promote": lifecycle_pb2.PromoteRequest(path=path, id=known.id, request_id=request_id()),
        "Dispute": lifecycle_pb2.DisputeRequest(path=path, id=known.id, request_id=request_id()),
        "Revert": lifecycle_pb2.RevertRequest(path=path, id=known.id, revision=1, request_id=request_id()),
        "Merge": lifecycle_pb2.MergeRequest(path=path, ids=ids, content="merged", request_id=request_id()),
        "Move": namespace_pb2.MoveRequest(from_path=path, to_path=f"{path}/x", ids=ids, request_id=request_id()),
    }
    method = probe.rng.choice(sorted(calls))
    assert await probe.answer(method, calls[method], allowed=set(), asked=(known.id,)) is None


async def other_tenants_paths(probe: Probe) -> None:
    other = next(person for person in PEOPLE if person.tenant != probe.person.tenant)
    path = probe.path.replace(f"/tenants/{probe.person.tenant}/", f"/tenants/{other.tenant}/")
    requests = {
        "Read": memoryfs_pb2.ReadRequest(path=path, query=COMMON),
        "List": memoryfs_pb2.ListRequest(path=path),
        "Stat": namespace_pb2.StatRequest(path=path),
        "GetPathSettings": namespace_pb2.GetPathSettingsRequest(path=path),
        "CreateSnapshot": snapshots_pb2.CreateSnapshotRequest(path=path, request_id=request_id()),
        "ListSnapshots": snapshots_pb2.ListSnapshotsRequest(path=path),
    }
    method = probe.rng.choice(sorted(requests))
    assert await probe.answer(method, requests[method], allowed=set()) is None
    both = memoryfs_pb2.ReadRequest(path=probe.path, paths=[path], query=COMMON)
    assert await probe.answer("Read", both, allowed=set()) is None


async def lists_of_things(probe: Probe) -> None:
    await probe.answer("ListBindings", bindings_pb2.ListBindingsRequest(), allowed=set())
    await probe.answer("ListSnapshots", snapshots_pb2.ListSnapshotsRequest(path=probe.path), allowed=set())
    await probe.answer("ListPathSettings", namespace_pb2.ListPathSettingsRequest(path=probe.path), allowed=set())


async def explained(probe: Probe) -> None:
    """An auditor learns why, never what; the verdicts are those of the principal's own Read."""
    auditor = next(p for p in PEOPLE if p.tenant == probe.person.tenant and "auditor" in p.roles)
    asked = [probe.any_item().id for _ in range(3)]
    request = memoryfs_pb2.ExplainRequest(
        read=memoryfs_pb2.ReadRequest(path=probe.path, query=COMMON, top_k=PAGE),
        principal=memoryfs_pb2.ExplainedPrincipal(
            user=probe.person.user,
            groups=sorted(probe.person.groups),
            roles=sorted(probe.person.roles),
            clearance=probe.person.clearance,
        ),
        expected_ids=asked,
    )
    by = Probe(probe.world, auditor, probe.path, probe.rng)
    answer = await by.answer("Explain", request, allowed=set(), asked=tuple(asked))
    assert answer is not None
    for explanation in answer.explanations:
        known = probe.world.items[explanation.id]
        inside = explanation.verdict == memoryfs_pb2.VERDICT_IN_ANSWER
        assert inside == (known.id in probe.served)
        if known.tenant != auditor.tenant:
            assert explanation.verdict == memoryfs_pb2.VERDICT_ABSENT


PROBES: Final[tuple[Callable[[Probe], Awaitable[None]], ...]] = (
    newest, recall, filtered, known_then, listed, counted, named, told, exported, differing, previewed,
    changes_of_strangers, other_tenants_paths, lists_of_things, explained,
)  # fmt: skip
SLOW_PROBES: Final = (followed,)
"""Asked once per person and world: a feed is as long as its history."""
