"""Read in full: several paths, validity, what was known then, cold items, boosts, diversity, limits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from memoryos.memoryfs.v1 import filter_pb2, item_pb2, memoryfs_pb2
from memoryos_core.clock import SystemClock

from .filter_world import stamp

DENIED = grpc.StatusCode.PERMISSION_DENIED
INVALID = grpc.StatusCode.INVALID_ARGUMENT
EXACT = memoryfs_pb2.EXACTNESS_EXACT
ROOT = "/tenants/acme/memory"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Shifted(SystemClock):
    """A clock that a test puts forward."""

    shift = timedelta()

    def now(self):
        return super().now() + self.shift


async def refused(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value.code(), error.value.details()


async def make_cold(service, item_id: str) -> None:
    """Move an item to the cold tier, as upkeep does."""
    await service.rows(
        "DO $$ BEGIN PERFORM set_config('memoryos.tenant', 'acme', true);"
        f" UPDATE memoryfs.items SET tier = 2 WHERE id = '{item_id}';"
        f" UPDATE memoryfs.item_vectors SET tier = 2 WHERE item_id = '{item_id}';"
        f" INSERT INTO memoryfs.cold_tokens SELECT * FROM memoryfs.item_tokens WHERE item_id = '{item_id}';"
        f" DELETE FROM memoryfs.item_tokens WHERE item_id = '{item_id}'; END $$"
    )


async def test_several_paths_are_one_answer(alice):
    north = await alice.write("green tea of the north", path=f"{ROOT}/episodic/north")
    south = await alice.write("green tea of the south", path=f"{ROOT}/semantic/south")
    await alice.write("green tea of the east", path=f"{ROOT}/episodic/east")
    paths = [f"{ROOT}/semantic/south", f"{ROOT}/episodic/north", f"{ROOT}/semantic"]
    for query in ("green tea", ""):
        found = await alice.read_ids(query, path=f"{ROOT}/episodic/north", paths=paths)
        assert sorted(found) == sorted([north, south])
    assert await alice.read_ids("green tea", path=f"{ROOT}/working", paths=[f"{ROOT}/semantic"]) == [south]


async def test_one_path_out_of_reach_refuses_the_call(service, alice):
    below = f"{ROOT}/episodic/a"
    bound = service.caller("alice", chain=("helper",), read_paths=(below,), write_paths=())
    mine = await alice.write("the word", path=below)
    assert await bound.read_ids("word", path=below, paths=[f"{below}/deeper"]) == [mine]
    for other in (f"{ROOT}/episodic", f"{ROOT}/episodic/ab", "/tenants/evil/memory/episodic"):
        assert (await refused(bound.read("word", path=below, paths=[other])))[0] is DENIED
        assert (await refused(bound.read("", path=below, paths=[other])))[0] is DENIED
    assert (await refused(bound.read("word", path=below, paths=["/nowhere"])))[0] is INVALID
    assert (await refused(alice.read("word", paths=[below] * 16)))[0] is INVALID


async def test_valid_at_is_half_open_and_serves_what_was_superseded_later(alice):
    key = item_pb2.EventKey(subject="office")
    rome = await alice.write("the office is in Rome", event_key=key, valid_from=stamp(NOON - timedelta(days=10)))
    oslo = await alice.write("the office is in Oslo", event_key=key, valid_from=stamp(NOON))
    other = await alice.write("tea at ten", valid_from=stamp(NOON - timedelta(days=5)), valid_to=stamp(NOON))
    second = timedelta(microseconds=1)
    for at, office in ((NOON - second, rome), (NOON, oslo)):
        for query in ("the office", ""):
            found = await alice.read_ids(query, valid_at=stamp(at))
            assert {rome, oslo} & set(found) == {office}
            assert (other in found) == (at < NOON)
    assert await alice.read_ids("the office", valid_at=stamp(NOON - timedelta(days=11))) == []
    hit = (await alice.read("office in Rome", valid_at=stamp(NOON - second), top_k=1)).hits[0]
    assert (hit.item.id, hit.item.state) == (rome, item_pb2.STATE_SUPERSEDED)
    assert hit.score > 0.5
    assert hit.details.dense > 0.5
    narrowed = filter_pb2.Filter(states=[item_pb2.STATE_SUPERSEDED])
    assert await alice.read_ids("office", valid_at=stamp(NOON - second), filter=narrowed) == [rome]
    assert await alice.read_ids("office", filter=narrowed) == []
    assert rome not in await alice.read_ids("office in Rome")


async def test_what_was_known_then_is_found_in_the_words_of_then(alice, service):
    clock = SystemClock()
    item_id = await alice.write("the plan is blue", tags=["draft"])
    stay = await alice.write("another plan stays")
    blue = clock.now()
    await alice.update(item_id, content="the plan is green", tags=["final"])
    later = await alice.write("a plan made afterwards")
    then = {"as_of": stamp(blue)}
    hits = (await alice.read("blue plan", **then)).hits
    assert [hit.item.id for hit in hits] == [item_id, stay]
    assert (hits[0].item.content, hits[0].item.revision) == ("the plan is blue", 1)
    assert hits[0].score > hits[1].score > 0
    assert not hits[0].details.HasField("dense")
    assert await alice.read_ids("green", **then) == []
    assert set(await alice.read_ids("", **then)) == {item_id, stay}
    assert await alice.read_ids("plan", filter=filter_pb2.Filter(tags_all=["draft"]), **then) == [item_id]
    assert await alice.read_ids("plan", filter=filter_pb2.Filter(tags_all=["final"]), **then) == []
    now = {"as_of": stamp(clock.now() + timedelta(days=1))}
    assert set(await alice.read_ids("plan", **now)) == {item_id, stay, later}
    assert await alice.read_ids("green", **now) == [item_id]
    assert await alice.read_ids("plan", as_of=stamp(blue - timedelta(days=1))) == []
    code, _ = await refused(alice.read("plan", as_of=stamp(blue - timedelta(days=20_000))))
    assert code is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_look_back_applies_the_readers_sensitivity_and_forgetting_of_today(service):
    clock = SystemClock()
    alice, bob = service.caller("alice", clearance=5), service.caller("bob")
    shared = await alice.write("old words of the shared note", readers=["user:bob"])
    private = await alice.write("old words of the private note")
    raised = await alice.write("old words of the raised note", readers=["user:bob"])
    gone = await alice.write("old words of the note that goes", readers=["user:bob"])
    back = await alice.write("old words of the note that comes back", readers=["user:bob"])
    await alice.forget(back)
    away = clock.now()
    await alice.restore(back)
    then = clock.now()
    await alice.update(shared, content="new text", update_mask={"paths": ["content", "readers"]})
    await alice.update(private, content="new text too", readers=["user:bob"])
    await alice.update(raised, content="new text as well", sensitivity=3)
    await alice.forget(gone)
    assert set(await bob.read_ids("old words", as_of=stamp(then))) == {private, back}
    assert set(await alice.read_ids("old words", as_of=stamp(then))) == {shared, private, raised, back}
    assert set(await alice.read_ids("old words", as_of=stamp(away))) == {shared, private, raised}
    assert set(await bob.read_ids("", as_of=stamp(then))) == {private, back}
    hit = (await bob.read("private", as_of=stamp(then))).hits[0]
    assert (hit.item.content, list(hit.item.readers)) == ("old words of the private note", ["user:bob"])
    mallory = service.caller("mallory", tenant="evil")
    assert await mallory.read_ids("old words", as_of=stamp(then)) == []


async def test_a_look_back_ends_with_what_was_expired_then_or_is_now(start_service):
    clock = Shifted()
    service = await start_service(clock=clock)
    alice = service.caller("alice")
    await alice.write_entries([memoryfs_pb2.WriteEntry(content="short lived tea", ttl={"seconds": 60})])
    long = await alice.write("long lived tea")
    both = clock.now()
    assert len(await alice.read_ids("tea", as_of=stamp(both))) == 2
    clock.shift = timedelta(seconds=61)
    assert await alice.read_ids("tea", as_of=stamp(both)) == [long]


async def test_cold_items_are_served_on_request(alice, service):
    warm, cold = await alice.write("warm soup"), await alice.write("cold soup")
    await make_cold(service, cold)
    for query in ("soup", ""):
        assert await alice.read_ids(query) == [warm]
        assert set(await alice.read_ids(query, include_cold=True)) == {warm, cold}
        where = filter_pb2.Filter(min_confidence=0.5)
        assert await alice.read_ids(query, filter=where) == [warm]
        assert set(await alice.read_ids(query, filter=where, include_cold=True)) == {warm, cold}
    hit = (await alice.read("cold soup", include_cold=True)).hits[0]
    assert (hit.item.id, hit.details.lexical > 0, hit.details.dense > 0.9) == (cold, True, True)
    assert set(await alice.list_ids()) == {warm, cold}


async def test_boosts_lift_within_the_scale_and_zero_changes_nothing(alice):
    now = datetime.now(UTC)
    old = await alice.write("tea leaf in a tin", valid_from=stamp(now - timedelta(days=300)), importance=1.0)
    new = await alice.write("leaf on the window", valid_from=stamp(now), importance=0.0)
    plain = {hit.item.id: hit for hit in (await alice.read("tea leaf")).hits}
    zero = (await alice.read("tea leaf", boosts=memoryfs_pb2.Boosts(recency=0, importance=0, use=0))).hits
    assert {hit.item.id: hit.score for hit in zero} == {item_id: hit.score for item_id, hit in plain.items()}
    assert not plain[old].details.HasField("recency")

    async def lifted(**weights):
        return {hit.item.id: hit for hit in (await alice.read("leaf", boosts=memoryfs_pb2.Boosts(**weights))).hits}

    base = {hit.item.id: hit.score for hit in (await alice.read("leaf")).hits}
    recent = await lifted(recency=1.0, recency_half_life=Duration(seconds=86_400))
    assert recent[new].details.recency == pytest.approx(1.0, abs=0.01)
    assert recent[old].details.recency < 1e-9
    assert base[new] < recent[new].score <= 1
    assert recent[old].score == pytest.approx(base[old])
    important = await lifted(importance=1.0)
    assert important[old].score > base[old]
    assert important[new].score == pytest.approx(base[new])
    code, text = await refused(
        alice.read("x", boosts=memoryfs_pb2.Boosts(recency=1, recency_half_life=Duration(seconds=-1)))
    )
    assert (code, "recency_half_life" in text) == (INVALID, True)


async def test_what_was_found_before_is_lifted_by_use(start_service):
    service = await start_service(upkeep_s=0.05)
    alice = service.caller("alice")
    often, never = await alice.write("silver spoon"), await alice.write("silver fork")
    for _ in range(3):
        await alice.read("spoon", top_k=1)
    async with asyncio.timeout(20):
        while (await service.rows("SELECT sum(hits) FROM memoryfs.item_access"))[0][0] != 3:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    hits = {hit.item.id: hit for hit in (await alice.read("silver", boosts=memoryfs_pb2.Boosts(use=1))).hits}
    assert hits[often].details.use == pytest.approx(3 / 13)
    assert hits[never].details.use == 0


async def test_min_score_is_asked_of_the_final_score(alice):
    await alice.write("green tea with milk and honey", importance=1.0)
    (plain,) = (await alice.read("tea with lemon")).hits
    above = {"min_score": plain.score + 0.01}
    assert (await alice.read("tea with lemon", **above)).hits == []
    (lifted,) = (await alice.read("tea with lemon", boosts=memoryfs_pb2.Boosts(importance=1), **above)).hits
    assert lifted.score > plain.score


async def test_diversity_takes_the_unlike_one_next(alice):
    entries = [memoryfs_pb2.WriteEntry(content="red apple pie") for _ in range(9)]
    await alice.write_entries([*entries, memoryfs_pb2.WriteEntry(content="apple trees in winter")])
    plain = (await alice.read("red apple pie", top_k=2)).hits
    assert [hit.item.content for hit in plain] == ["red apple pie"] * 2
    hits = (await alice.read("red apple pie", top_k=3, diversity=1.0)).hits
    assert [hit.item.content for hit in hits][:2] == ["red apple pie", "apple trees in winter"]
    assert len(hits) == 3
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == plain[0].score
    again = (await alice.read("red apple pie", top_k=3, diversity=1.0)).hits
    assert [hit.item.id for hit in again] == [hit.item.id for hit in hits]


async def test_two_hundred_is_the_most_and_all_of_it_comes(alice):
    for start in range(0, 250, 125):
        entries = [memoryfs_pb2.WriteEntry(content=f"common word {n}") for n in range(start, start + 125)]
        await alice.write_entries(entries)
    for query in ("common word", ""):
        response = await alice.read(query, top_k=200)
        assert (len(response.hits), response.exactness) == (200, EXACT)
        assert len({hit.item.id for hit in response.hits}) == 200
    assert len((await alice.read("common", top_k=200, diversity=0.5)).hits) == 200
    assert (await refused(alice.read("common", top_k=201)))[0] is INVALID


async def test_a_look_back_is_bounded_and_says_so(alice, monkeypatch):
    from memoryos_memoryfs.operations.recall_steps import candidates, known_then

    await alice.write_entries([memoryfs_pb2.WriteEntry(content=f"note {n} of tea") for n in range(12)])
    newest = (await alice.list(page_size=12)).items
    now = {"as_of": newest[0].create_time}
    whole = await alice.read("tea", top_k=20, **now)
    assert (len(whole.hits), whole.exactness) == (12, EXACT)
    monkeypatch.setattr(known_then, "SCANNED_MAX", 5)
    for query in ("tea", ""):
        some = await alice.read(query, top_k=20, **now)
        assert {hit.item.id for hit in some.hits} == {item.id for item in newest[:5]}
        assert some.exactness == memoryfs_pb2.EXACTNESS_TRUNCATED
    monkeypatch.setattr(known_then, "SCANNED_BYTES_MAX", 30)
    assert len((await alice.read("tea", top_k=20, **now)).hits) == 3
    monkeypatch.setattr(candidates, "SUPERSEDED_MAX", 1)
    for n in range(3):
        key = item_pb2.EventKey(subject="s")
        await alice.write(f"city number {n}", event_key=key, valid_from=stamp(NOON - timedelta(days=9 - n)))
    assert len(await alice.list_ids(state=item_pb2.STATE_SUPERSEDED)) == 2
    at = stamp(NOON - timedelta(days=8, hours=1))
    assert (await alice.read("city", valid_at=at)).exactness == EXACT
