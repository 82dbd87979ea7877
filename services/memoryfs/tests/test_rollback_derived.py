"""What was made from others is as the point saw it after a rollback, and never outlives or outreaches its sources."""

from __future__ import annotations

import grpc
import pytest
from memoryos.memoryfs.v1 import item_pb2

from .test_merge import team_path
from .test_rollback import code_of, cooled, counts, merged, plain, rollback, snapshot, written

NOT_FOUND = grpc.StatusCode.NOT_FOUND


@pytest.fixture
def alice(service):
    return service.caller("alice", roles=frozenset({"user"}), clearance=5)


@pytest.fixture
def agent(service):
    return service.caller("alice", chain=("scribe",))


async def test_what_was_forgotten_then_with_its_source_has_its_text_of_then(service, alice):
    ids = await written(alice)
    low = await merged(alice, ids[0], ids[1], content="alpha and beta")
    high = await merged(alice, low, ids[2], content="alpha, beta and delta")
    vectors = await service.rows("SELECT item_id, vec::text FROM memoryfs.item_vectors ORDER BY 1")
    await alice.forget(ids[0])
    point = await snapshot(alice)
    for item_id in (ids[0], low, high):
        await alice.restore(item_id)
    await alice.update(low, content="said since of alpha and beta")
    await alice.update(high, content="said since of all three")
    undo = await rollback(alice, point)
    assert counts(undo) == (2, 3, 0, 0)
    assert {ids[0], low, high} == set(await alice.list_ids(state=item_pb2.STATE_FORGOTTEN))
    service.embedder.down = True
    for item_id in (ids[0], low, high):
        await alice.restore(item_id)
    assert (await alice.get(low)).content == "alpha and beta"
    assert (await alice.get(low)).state == item_pb2.STATE_SUPERSEDED
    assert (await alice.get(high)).content == "alpha, beta and delta"
    assert await service.rows("SELECT item_id, vec::text FROM memoryfs.item_vectors ORDER BY 1") == vectors
    assert counts(await rollback(alice, undo.undo_snapshot_id)) == (5, 0, 0, 0)
    assert (await alice.get(high)).content == "said since of all three"


async def test_what_went_with_its_source_comes_back_with_it_however_long_the_chain(alice):
    ids = await written(alice)
    low = await merged(alice, ids[0], ids[1], content="alpha and beta")
    high = await merged(alice, low, ids[2], content="alpha, beta and delta")
    point = await snapshot(alice)
    await alice.update(high, content="said since of all three")
    await alice.forget(ids[0])
    assert counts(await rollback(alice, point)) == (2, 0, 3, 0)
    assert (await alice.get(high)).content == "alpha, beta and delta"
    assert (await alice.get(low)).state == item_pb2.STATE_SUPERSEDED


async def made_by_the_agent(agent) -> tuple[str, str]:
    """Give an item of the agent's and what it made from that and another one."""
    source = await agent.write("alpha by the agent")
    return source, await merged(agent, source, await agent.write("beta by the agent"), content="by the agent")


async def test_what_loses_its_source_by_the_rollback_goes_with_it_and_has_its_text_of_then(alice, agent):
    point = await snapshot(alice)
    source, made = await made_by_the_agent(agent)
    await alice.update(made, content="corrected by alice")
    await agent.update(made, content="spoiled by the agent")
    assert counts(await rollback(alice, point, actor="agent:alice/scribe")) == (0, 3, 0, 0)
    assert await code_of(alice.get(made)) is NOT_FOUND
    for item_id in await alice.list_ids(state=item_pb2.STATE_FORGOTTEN):
        if item_id != made:
            await alice.restore(item_id)
    await alice.restore(made)
    assert (await alice.get(made)).content == "corrected by alice"
    assert (await alice.get(source)).state == item_pb2.STATE_SUPERSEDED


async def test_one_made_from_another_that_goes_in_the_same_rollback_goes_with_it(alice, agent):
    kept = await alice.write("gamma by alice")
    point = await snapshot(alice)
    _, made = await made_by_the_agent(agent)
    high = await merged(agent, made, kept, content="of three, by the agent")
    await alice.update(high, content="corrected by alice")
    await agent.update(high, content="spoiled by the agent")
    await rollback(alice, point, actor="agent:alice/scribe")
    assert await alice.list_ids() == [kept]
    assert await code_of(alice.get(high)) is NOT_FOUND


async def test_one_made_from_what_follows_a_source_that_goes_follows_it_too(alice, agent):
    kept = await alice.write("gamma by alice")
    point = await snapshot(alice)
    _, made = await made_by_the_agent(agent)
    high = await merged(agent, made, kept, content="of three, by the agent")
    await alice.forget(made)
    await alice.restore(made)
    await alice.restore(high)  # alice's are the last changes of `made`, the agent's that of `high`
    await agent.update(high, content="spoiled by the agent")
    await rollback(alice, point, actor="agent:alice/scribe")
    assert await alice.list_ids() == [kept]
    assert await code_of(alice.get(high)) is NOT_FOUND


async def test_readers_that_a_source_loses_are_lost_by_what_comes_back_beside_it(service, alice, bob, agent):
    source = await alice.write("alpha of alice alone")
    point = await snapshot(alice)
    await agent.update(source, readers=["user:bob"])
    other = await agent.write("beta by the agent", readers=["user:bob"])
    made = await merged(agent, source, other, content="by the agent")
    await alice.update(made, content="corrected by alice")
    await agent.update(made, content="spoiled by the agent")
    await alice.forget(other)
    await alice.restore(other)
    await alice.restore(made)
    await agent.update(made, content="spoiled again by the agent")
    assert (await bob.get(made)).content == "spoiled again by the agent"
    await rollback(alice, point, actor="agent:alice/scribe")
    item = await alice.get(made)
    assert (item.content, list(item.readers), list(item.flags)) == ("spoiled by the agent", [], [])
    assert await code_of(bob.get(source)) is NOT_FOUND
    assert await code_of(bob.get(made)) is NOT_FOUND


async def test_what_nobody_changed_since_stays_when_its_source_goes_back(service):
    """Who reads a source through one group loses what was made of it when any group loses the source; not here."""
    path = await team_path(service)
    alice, bob = (service.caller(name, groups=("team",), roles=frozenset({"user"})) for name in ("alice", "bob"))
    ids = [await alice.write(f"fact {n}", path=path, readers=["group:team"]) for n in range(2)]
    made = await merged(bob, *ids, content="both facts", path=path)
    before = plain(await bob.get(made))
    point = await snapshot(alice, path=path)
    await alice.update(ids[0], path=path, readers=["group:team", "group:night"])
    assert counts(await rollback(alice, point, path=path)) == (1, 0, 0, 0)
    assert list((await alice.get(ids[0])).readers) == ["group:team"]
    assert plain(await bob.get(made)) == before


async def test_when_what_one_session_merged_is_undone_its_sources_stand_for_themselves_again(service, alice):
    ids = [await alice.write(f"fact {n}") for n in range(2)]
    point = await snapshot(alice)
    there = service.caller("alice", roles=frozenset({"user"}), session_id="ses_1")
    made = await merged(there, *ids, content="both facts")
    assert counts(await rollback(alice, point, source_session_id="ses_1")) == (0, 1, 0, 0)
    assert await code_of(alice.get(made)) is NOT_FOUND
    assert set(await alice.list_ids()) == set(ids)


async def test_an_item_that_changed_its_tier_while_it_was_forgotten_comes_back(service, alice):
    item_id = await alice.write("alpha")
    await alice.forget(item_id)
    hot = await snapshot(alice)
    await alice.restore(item_id)
    await cooled(service, item_id)
    await alice.forget(item_id)
    cold = await snapshot(alice)
    await rollback(alice, hot)  # it stays forgotten, and is hot again
    await alice.restore(item_id)
    await alice.update(item_id, content="alpha, changed")
    await rollback(alice, cold)
    assert await alice.list_ids(state=item_pb2.STATE_FORGOTTEN) == [item_id]
    await alice.restore(item_id)
    item = await alice.get(item_id)
    assert (item.content, item.state) == ("alpha", item_pb2.STATE_ACTIVE)
    assert await service.rows("SELECT count(*) FROM memoryfs.cold_tokens") == [(1,)]
