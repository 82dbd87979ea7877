"""Explain says of every item what Read does for that principal, and why; it tells nothing to others."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from google.protobuf.json_format import MessageToJson
from memoryos.memoryfs.v1 import filter_pb2, item_pb2
from memoryos.memoryfs.v1 import memoryfs_pb2 as pb

from .filter_world import stamp
from .test_read_full import Shifted, make_cold

V = pb.Verdict
NOW = datetime(2026, 3, 1, tzinfo=UTC)
ROOT = "/tenants/acme/memory"
PATHS = [f"{ROOT}/episodic/a", f"{ROOT}/episodic/b", f"{ROOT}/semantic"]
WORDS = ["tea", "milk", "river", "stone", "茶", "WR-1024"]
REMOVED = "REMOVED"


def principal(user="bob", groups=(), clearance=0):
    return pb.ExplainedPrincipal(user=user, groups=groups, roles=["agent"], clearance=clearance)


async def explain(auditor, read, who, ids):
    return await auditor.call("Explain", pb.ExplainRequest(read=read, principal=who, expected_ids=ids))


async def verdicts(auditor, read, who, ids) -> dict:
    return {one.id: one for one in (await explain(auditor, read, who, ids)).explanations}


@pytest.fixture
def auditor(service):
    return service.caller("ann", roles=frozenset({"auditor"}))


async def test_each_reason_is_told_and_the_first_one_wins(service, auditor, alice):
    owner = service.caller("alice", clearance=9)
    read = pb.ReadRequest(path=alice.path, query="green tea", top_k=2, filter=filter_pb2.Filter(tags_all=["t"]))

    async def made(content: str, **fields) -> str:
        fields = {"readers": ["user:bob"], "tags": ["t"], **fields}
        return (await owner.write_entries([pb.WriteEntry(content=content, **fields)], path=fields.pop("path", "")))[
            0
        ].id

    wanted = {
        await made("green tea one"): V.VERDICT_IN_ANSWER,
        await made("green tea two two"): V.VERDICT_IN_ANSWER,
        await owner.write("green tea", path=f"{ROOT}/semantic", readers=["user:bob"]): V.VERDICT_OTHER_PATH,
        await made("green tea three", readers=["group:x"]): V.VERDICT_ACL,
        await made("green tea four", sensitivity=3): V.VERDICT_CLEARANCE,
        await made("green tea five", confidence=0.1): V.VERDICT_GATED,
        await made("green tea six", tags=["u"]): V.VERDICT_FILTERED,
        await made("a green stone in the river bed"): V.VERDICT_BELOW_TOP_K,
        "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV": V.VERDICT_ABSENT,
    }
    gone, cold = await made("green tea seven"), await made("green tea eight")
    await owner.forget(gone)
    await make_cold(service, cold)
    key = item_pb2.EventKey(subject="s")
    replaced = await made("green tea nine", event_key=key)
    await made("black coffee", event_key=key)
    wanted |= {gone: V.VERDICT_FORGOTTEN, cold: V.VERDICT_COLD, replaced: V.VERDICT_SUPERSEDED}
    found = await verdicts(auditor, read, principal(), list(wanted))
    assert {item_id: one.verdict for item_id, one in found.items()} == wanted
    bob = service.caller("bob")
    hits = (await bob.call("Read", read)).hits
    for rank, hit in enumerate(hits, 1):
        assert (found[hit.item.id].rank, found[hit.item.id].score) == (rank, hit.score)
        assert found[hit.item.id].details == hit.details
    below = next(one for one in found.values() if one.verdict == V.VERDICT_BELOW_TOP_K)
    assert below.rank > 2
    assert 0 < below.score < hits[-1].score
    read.min_score = 0.9
    found = await verdicts(auditor, read, principal(), [below.id])
    assert found[below.id].verdict == V.VERDICT_BELOW_MIN_SCORE
    # Of several reasons the first: another's, too sensitive and forgotten.
    worst = await made("green tea ten", readers=[], sensitivity=5, confidence=0.1)
    assert (await verdicts(auditor, read, principal(), [worst]))[worst].verdict == V.VERDICT_ACL


async def test_items_without_a_vector_and_without_the_words_are_not_embedded(service, auditor, alice):
    service.embedder.down = True
    item_id = await alice.write("a stone")
    service.embedder.poison = "a stone"
    service.embedder.down = False
    read = pb.ReadRequest(path=alice.path, query="tea")
    found = await verdicts(auditor, read, principal("alice"), [item_id])
    assert found[item_id].verdict == V.VERDICT_NOT_EMBEDDED
    read.query = "stone tea"
    found = await verdicts(auditor, read, principal("alice"), [item_id])
    assert (found[item_id].verdict, found[item_id].rank) == (V.VERDICT_IN_ANSWER, 1)


async def test_nothing_leaks_and_only_auditors_may_ask(service, auditor, alice):
    item_id = await alice.write("the secret xylophone", tags=["hidden"], attributes_json=b'{"k":"xylophone"}')
    read = pb.ReadRequest(path=alice.path, query="xylophone")
    for who in (alice, service.caller("root", roles=frozenset({"tenant-admin"}))):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await explain(who, read, principal("alice"), [item_id])
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    answer = MessageToJson(await explain(auditor, read, principal("alice"), [item_id]))
    assert "xylophone" not in answer
    assert "hidden" not in answer
    assert "IN_ANSWER" in answer
    other = service.caller("eve", tenant="evil", roles=frozenset({"auditor"}))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await explain(other, read, principal("alice"), [item_id])
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    theirs = pb.ReadRequest(path=other.path, query="xylophone")
    found = await verdicts(other, theirs, principal("alice"), [item_id])
    assert found[item_id] == pb.Explanation(id=item_id, verdict=V.VERDICT_ABSENT)
    bound = service.caller("ann", roles=frozenset({"auditor"}), chain=("a",), read_paths=(f"{ROOT}/semantic",))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await explain(bound, read, principal("alice"), [item_id])
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert not await service.rows("SELECT 1 FROM memoryfs.item_access")
    events = await service.rows("SELECT count(*) FROM core.audit WHERE method LIKE '%Explain'")
    assert events[0][0] >= 2


async def test_what_was_known_then_is_explained_too(service, auditor, alice):
    clock = Shifted()
    item_id = await alice.write("the plan is blue")
    then = clock.now()
    later = await alice.write("a blue plan made later")
    await alice.update(item_id, content="the plan is green")
    read = pb.ReadRequest(path=alice.path, query="blue", as_of=stamp(then))
    found = await verdicts(auditor, read, principal("alice"), [item_id, later])
    assert found[item_id].verdict == V.VERDICT_IN_ANSWER
    assert found[later].verdict == V.VERDICT_ABSENT
    assert (await verdicts(auditor, read, principal("bob"), [item_id]))[item_id].verdict == V.VERDICT_ACL
    await alice.forget(item_id)
    assert (await verdicts(auditor, read, principal("alice"), [item_id]))[item_id].verdict == V.VERDICT_FORGOTTEN


async def world(service, clock, rng: random.Random) -> dict[str, pb.WriteEntry]:
    """Give items of every fate by id."""
    made: dict[str, pb.WriteEntry] = {}
    owners = {name: service.caller(name, clearance=9) for name in ("alice", "bob")}
    for n in range(48):
        entry = pb.WriteEntry(
            content=" ".join(rng.choices(WORDS, k=4)) + f" n{n}",
            readers=rng.sample(["user:alice", "user:bob", "group:g"], rng.randrange(3)),
            sensitivity=rng.choice([0, 0, 0, 3]),
            tags=rng.sample(["t", "u"], rng.randrange(3)),
            confidence=rng.choice([1.0, 1.0, 0.5]),
            importance=rng.choice([0.0, 1.0]),
            valid_from=stamp(NOW + timedelta(days=rng.randrange(-3, 3))),
        )
        if n % 6 == 0:
            entry.ttl.FromSeconds(60)
        request = pb.WriteRequest(
            path=rng.choice(PATHS), entries=[entry], request_id=f"w{n}", on_conflict=pb.ON_CONFLICT_ADD
        )
        owner = owners[rng.choice(["alice", "bob"])]
        item_id = (await owner.call("Write", request)).results[0].id
        made[item_id] = entry
        if n % 7 == 3:
            await owner.forget(item_id, path=request.path)
        elif n % 8 == 5 and entry.confidence == 1.0:
            await make_cold(service, item_id)
    clock.shift = timedelta(seconds=61)
    return made


def random_read(rng: random.Random) -> pb.ReadRequest:
    paths = rng.sample(PATHS, rng.randrange(1, 3))
    read = pb.ReadRequest(
        path=paths[0],
        paths=paths[1:],
        query=rng.choice(["", "tea milk", "river", "茶", "wr-1024 stone", "nothing here"]),
        top_k=rng.choice([1, 3, 10, 200]),
        include_cold=rng.random() < 0.5,
        diversity=rng.choice([0.0, 0.0, 0.7]),
    )
    if rng.random() < 0.4:
        read.filter.CopyFrom(filter_pb2.Filter(tags_any=["t"]))
    if rng.random() < 0.4:
        read.min_score = rng.choice([0.2, 0.5, 0.9])
    if rng.random() < 0.4:
        read.boosts.CopyFrom(pb.Boosts(importance=rng.random(), recency=rng.random()))
    if rng.random() < 0.3:
        read.valid_at.CopyFrom(stamp(NOW))
    return read


def without_cause(verdict: int, read: pb.ReadRequest, who: pb.ExplainedPrincipal):
    """Give the call in which this reason no longer holds, None where the item itself would have to change."""
    changed, reader = pb.ReadRequest(), pb.ExplainedPrincipal()
    changed.CopyFrom(read)
    reader.CopyFrom(who)
    match verdict:
        case V.VERDICT_OTHER_PATH:
            changed.ClearField("paths")
            changed.path = PATHS[0]
            changed.paths.extend(PATHS[1:])
        case V.VERDICT_CLEARANCE:
            reader.clearance = 9
        case V.VERDICT_NOT_VALID_THEN:
            changed.ClearField("valid_at")
        case V.VERDICT_COLD:
            changed.include_cold = True
        case V.VERDICT_FILTERED:
            changed.ClearField("filter")
        case V.VERDICT_BELOW_MIN_SCORE:
            changed.ClearField("min_score")
        case V.VERDICT_BELOW_TOP_K:
            changed.top_k = 200
        case _:
            return None
    return changed, reader


@pytest.mark.parametrize("seed", range(2))
async def test_it_equals_what_read_does_and_every_cause_counts(start_service, seed):
    """Some 40 random reads of a random world, each of 48 items explained; then without what kept them out."""
    clock, rng = Shifted(), random.Random(seed)
    service = await start_service(clock=clock)
    made = await world(service, clock, rng)
    auditor = service.caller("ann", roles=frozenset({"auditor"}))
    readers: dict = {}
    seen: Counter[int] = Counter()
    for _ in range(40):
        read = random_read(rng)
        groups = rng.choice([(), ("g",)])
        user, clearance = rng.choice(["alice", "bob", "carol"]), rng.choice([0, 5])
        if (user, groups, clearance) not in readers:
            readers[user, groups, clearance] = service.caller(user, groups=frozenset(groups), clearance=clearance)
        who = principal(user, groups, clearance)
        response = await readers[user, groups, clearance].call("Read", read)
        hits = [(hit.item.id, hit.score) for hit in response.hits]
        answer = await explain(auditor, read, who, list(made))
        found = {one.id: one for one in answer.explanations}
        assert answer.hit_count == len(hits)
        explained = [one for one in answer.explanations if one.verdict == V.VERDICT_IN_ANSWER]
        explained.sort(key=lambda one: one.rank)
        assert [one.id for one in explained] == [item_id for item_id, _ in hits]
        assert [one.score for one in explained] == pytest.approx([score for _, score in hits], abs=1e-9)
        kept_out: dict[int, list[str]] = {}
        given = dict(hits)
        for item_id in (one for one in made if one not in given):
            kept_out.setdefault(found[item_id].verdict, []).append(item_id)
        causes = [verdict for verdict in kept_out if without_cause(verdict, read, who)]
        for verdict in sorted(causes, key=lambda verdict: (seen[verdict], verdict))[:2]:  # the least looked at
            changed, reader = without_cause(verdict, read, who)
            again = await verdicts(auditor, changed, reader, kept_out[verdict])
            assert verdict not in {one.verdict for one in again.values()}, (V.Name(verdict), read)
            seen[verdict] += 1
        for verdict in kept_out.keys() - set(causes):
            seen[verdict] += 1
    assert len(seen) >= 8, [V.Name(verdict) for verdict in seen]
