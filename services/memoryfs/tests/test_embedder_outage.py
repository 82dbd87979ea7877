"""When the embedder is down writes are kept, found by words, and get their vectors later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pytest
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2
from memoryos_models.errors import EmbedderBusy
from memoryos_testing.hash_embedder import HashEmbedder

PENDING = item_pb2.EMBED_STATE_PENDING
DONE = item_pb2.EMBED_STATE_DONE


async def eventually(condition: Callable[[], Awaitable[bool]], timeout_s: float = 15) -> None:
    async with asyncio.timeout(timeout_s):
        while not await condition():  # noqa: ASYNC110 - the service under test changes it
            await asyncio.sleep(0.02)


async def test_an_item_written_in_an_outage_is_found_by_words_at_once_and_by_meaning_later(alice, service):
    service.embedder.down = True
    (result,) = await alice.write_entries([memoryfs_pb2.WriteEntry(content="the rare word xylophone")])
    assert result.embed_state == PENDING
    response = await alice.read("xylophone")
    assert [hit.item.id for hit in response.hits] == [result.id]
    assert set(response.degradations) == {
        memoryfs_pb2.DEGRADATION_NO_DENSE,
        memoryfs_pb2.DEGRADATION_PENDING_VECTORS,
    }
    assert not response.hits[0].details.HasField("dense")
    service.embedder.down = False

    async def embedded() -> bool:
        return (await alice.get(result.id)).embed_state == DONE

    await eventually(embedded)
    item = await alice.get(result.id)
    assert (item.revision, item.etag, item.embedding_model) == (1, result.etag, "hash-64")
    response = await alice.read("xylophone")
    assert not response.degradations
    assert response.hits[0].details.dense > 0.3
    assert await service.rows("SELECT 1 FROM memoryfs.item_embeds") == []


async def test_an_item_without_a_vector_is_found_beside_those_that_have_one(alice, service):
    old = await alice.write("old text about pumps")
    service.embedder.down = True
    new = await alice.write("new text about pumps")
    vector = memoryfs_pb2.Embedding(model="hash-64", values=[1.0] * 64)
    response = await alice.read("pumps", embedding=vector)
    assert {hit.item.id for hit in response.hits} == {old, new}
    assert list(response.degradations) == [memoryfs_pb2.DEGRADATION_PENDING_VECTORS]


async def test_pending_items_of_two_tenants_and_users_are_all_embedded(service):
    callers = [service.caller(user, tenant=tenant) for user in ("a", "b") for tenant in ("acme", "evil")]
    service.embedder.down = True
    ids = {caller: await caller.write("waits for its vector") for caller in callers}
    service.embedder.down = False

    async def all_done() -> bool:
        return all([(await caller.get(item_id)).embed_state == DONE for caller, item_id in ids.items()])

    await eventually(all_done)


async def test_a_change_while_pending_gets_the_vector_of_the_new_text(alice, service):
    service.embedder.down = True
    item_id = await alice.write("first words")
    await alice.update(item_id, content="zebra crossing")
    service.embedder.down = False

    async def embedded() -> bool:
        return (await alice.get(item_id)).embed_state == DONE

    await eventually(embedded)
    assert (await alice.read("zebra crossing")).hits[0].details.dense == pytest.approx(1.0, abs=1e-3)


async def test_an_item_forgotten_while_pending_is_not_brought_back_by_the_worker(alice, service):
    service.embedder.down = True
    item_id = await alice.write("soon forgotten")
    await alice.forget(item_id)
    service.embedder.down = False
    assert await service.rows("SELECT 1 FROM memoryfs.item_embeds") == []
    await alice.restore(item_id)

    async def embedded() -> bool:
        return (await alice.get(item_id)).embed_state == DONE

    await eventually(embedded)
    assert await alice.read_ids("soon forgotten") == [item_id]


async def test_a_poison_item_is_given_up_visibly_and_holds_up_no_other(start_service):
    service = await start_service(embed_attempts_max=3, embed_retry_s=0.01)
    alice = service.caller("alice")
    service.embedder.poison = "poison"
    service.embedder.down = True
    bad = await alice.write("poison text")
    good = [await alice.write(f"good text {n}") for n in range(3)]
    service.embedder.down = False

    async def settled() -> bool:
        done = [(await alice.get(item_id)).embed_state == DONE for item_id in good]
        failed = await service.rows("SELECT item_id, attempts, last_reason FROM memoryfs.item_embeds")
        given_up = await service.rows("SELECT 1 FROM memoryfs.item_embeds WHERE failed_time IS NOT NULL")
        return all(done) and failed[0][0] == bad and len(given_up) == 1

    await eventually(settled)
    (row,) = await service.rows("SELECT attempts, last_reason FROM memoryfs.item_embeds")
    assert row == (3, "DEPENDENCY_UNAVAILABLE")
    assert await alice.read_ids("poison") == [bad]


async def test_a_busy_embedder_refuses_the_call_and_keeps_nothing(service, alice, monkeypatch):
    async def busy(texts, *, deadline_s):
        raise EmbedderBusy(retry_after_s=1.0)

    await alice.write("before")
    monkeypatch.setattr(service.embedder, "embed", busy)
    for call in (alice.write("x"), alice.read("x")):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(await alice.list_ids()) == 1


async def test_the_same_words_written_again_in_an_outage_keep_their_vector(alice, service):
    item_id = await alice.write("zebra crossing")
    service.embedder.down = True
    result = await alice.update(item_id, content="zebra crossing", tags=["t"])
    assert result.embed_state == DONE
    service.embedder.down = False
    assert (await alice.read("zebra crossing")).hits[0].details.dense == pytest.approx(1.0, abs=1e-3)


async def test_an_answer_says_that_items_of_an_earlier_model_have_no_vector(start_service):
    alice = (await start_service(embed_poll_s=60)).caller("alice")
    await alice.write("zebra crossing")
    assert not (await alice.read("zebra crossing")).degradations
    alice = (await start_service(embedder=HashEmbedder(dimensions=32))).caller("alice")
    answer = await alice.read("zebra crossing")
    assert not answer.hits[0].details.HasField("dense")
    assert list(answer.degradations) == [memoryfs_pb2.DEGRADATION_PENDING_VECTORS]


@pytest.mark.parametrize("how", ["update", "restore"])
async def test_an_item_of_an_earlier_model_is_found_by_meaning_after_its_next_change(start_service, how):
    alice = (await start_service(embed_poll_s=60)).caller("alice")  # its worker stays out of the way
    item_id = await alice.write("zebra crossing")
    if how == "restore":
        await alice.forget(item_id)
    alice = (await start_service(embedder=HashEmbedder(dimensions=32))).caller("alice")
    await (alice.restore(item_id) if how == "restore" else alice.update(item_id, tags=["t"]))

    async def by_meaning() -> bool:
        (hit,) = (await alice.read("zebra crossing")).hits
        return hit.details.HasField("dense") and hit.item.embedding_model == "hash-32"

    await eventually(by_meaning)
