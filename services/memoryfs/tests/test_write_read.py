"""What was written is read back: by words, by meaning, by name, at once."""

from __future__ import annotations

from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2


async def test_a_rare_word_is_found_right_after_the_write(alice):
    wanted = await alice.write("The gearbox WR-1024 hums at 40 Hz")
    for n in range(20):
        await alice.write(f"note number {n} about something else")
    response = await alice.read("WR-1024", top_k=3)
    assert response.hits[0].item.id == wanted
    assert response.hits[0].item.content == "The gearbox WR-1024 hums at 40 Hz"
    assert response.exactness == memoryfs_pb2.EXACTNESS_EXACT
    assert not response.degradations
    item = await alice.get(wanted)
    assert item.path == "/tenants/acme/memory/episodic"
    assert item.owner == "user:alice"
    assert item.state == item_pb2.STATE_ACTIVE
