"""Recall in sessions: the turns beside an item help it, and only those that its reader may see."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2
from memoryos_memoryfs.domain.query_words import last_message, query_words

FAR = memoryfs_pb2.Embedding(model="hash-64", values=[0.0, 1.0] + [0.0] * 62)
QUERY = "xylophone lessons"


def turn(text: str, session: str = "talk-1", **fields) -> memoryfs_pb2.WriteEntry:
    return memoryfs_pb2.WriteEntry(
        content=text, embedding=FAR, source=item_pb2.Source(session_id=session) if session else None, **fields
    )


async def write(caller, *entries: memoryfs_pb2.WriteEntry) -> list[str]:
    return [result.id for result in await caller.write_entries(entries)]


async def scores(caller, query: str = QUERY, **fields) -> dict[str, float]:
    return {hit.item.id: hit.score for hit in (await caller.read(query, embedding=FAR, top_k=50, **fields)).hits}


async def test_a_turn_counts_some_of_the_words_of_the_turn_beside_it(alice):
    said, answered, later = await write(
        alice, turn("when are the xylophone lessons"), turn("on tuesday at nine"), turn("thank you")
    )
    (elsewhere,) = await write(alice, turn("on friday at six", session="talk-2"))
    hits = {hit.item.id: hit for hit in (await alice.read(QUERY, embedding=FAR, top_k=10)).hits}
    assert hits[said].score > hits[answered].score > hits[later].score
    assert hits[later].score == hits[elsewhere].score
    assert hits[answered].details.lexical == 0
    assert hits[answered].details.neighbours == pytest.approx(hits[answered].score - hits[later].score)
    assert not hits[said].details.HasField("neighbours")


async def test_turns_of_one_call_and_of_several_stand_in_the_order_in_which_they_were_written(alice):
    (first,) = await write(alice, turn("one"))
    middle, last = await write(alice, turn("xylophone lessons"), turn("three"))
    (after,) = await write(alice, turn("four"))
    found = await scores(alice)
    assert found[first] == found[last] > found[after]
    assert found[middle] > found[first]


async def test_no_session_and_another_place_have_no_neighbours(alice):
    plain, _ = await write(alice, turn("plain", session=""), turn("xylophone lessons", session=""))
    (here,) = await write(alice, turn("here"))
    await alice.write_entries([turn("xylophone lessons")], path=f"{alice.path}/there")
    found = await scores(alice)
    assert found[here] == found[plain]


async def test_turns_of_another_owner_never_move_a_score(alice, bob):
    """Neither by their words nor by standing between: not even when they are of a session with the same name."""
    (first,) = await write(alice, turn("on tuesday", readers=["user:bob"]))
    before = await scores(alice)
    shared = await scores(bob)
    await write(bob, turn("xylophone lessons, all about xylophone lessons"))
    await write(alice, turn("the end"))
    after = await scores(alice)
    assert after[first] == before[first]
    assert (await scores(bob))[first] == shared[first]


async def test_a_turn_that_the_reader_may_not_see_is_as_if_it_were_not_there(alice, bob):
    open_, secret, after = await write(
        alice,
        turn("xylophone lessons", readers=["user:bob"]),
        turn("xylophone lessons and something secret"),
        turn("the answer", readers=["user:bob"]),
    )
    found = await scores(bob)
    assert secret not in found
    assert found[after] > 0.5  # the open one is beside it, for bob
    assert found[open_] > found[after]
    await alice.forget(secret)
    assert await scores(bob) == found


async def test_a_turn_above_the_clearance_or_expired_gives_nothing(alice, service):
    soon = Timestamp()
    soon.FromDatetime(datetime.now(UTC) + timedelta(days=1))
    _, kept = await write(alice, turn("xylophone lessons", expire_time=soon), turn("the answer"))
    helped = (await scores(alice))[kept]
    await service.rows(
        "UPDATE memoryfs.items SET expire_time = now() - interval '1 hour' WHERE expire_time IS NOT NULL"
    )
    assert (await scores(alice))[kept] < helped
    await service.rows("UPDATE memoryfs.items SET expire_time = NULL, sensitivity = 5 WHERE expire_time IS NOT NULL")
    assert (await scores(alice))[kept] < helped


async def test_a_forgotten_turn_gives_nothing_and_a_restored_one_again(alice):
    said, kept = await write(alice, turn("xylophone lessons"), turn("the answer"))
    helped = await scores(alice)
    await alice.forget(said)
    assert (await scores(alice))[kept] < helped[kept]
    await alice.restore(said)
    assert await scores(alice) == helped


async def test_the_same_question_gets_the_same_scores(alice):
    await write(alice, *[turn(f"note {n} about xylophone", session=f"talk-{n % 3}") for n in range(30)])
    assert await scores(alice) == await scores(alice)


@pytest.mark.parametrize(
    "text", ["xylophone lessons on tuesday", "周二的木琴课几点开始", "第一行说木琴\nsecond line: xylophone"]
)
async def test_an_identical_text_is_near_one_and_min_score_holds_back_the_rest(alice, text):
    (wanted,) = [r.id for r in await alice.write_entries([memoryfs_pb2.WriteEntry(content=text)])]
    await alice.write_entries([memoryfs_pb2.WriteEntry(content=f"something else {n}") for n in range(5)])
    response = await alice.read(text, min_score=0.9)
    assert [hit.item.id for hit in response.hits] == [wanted]
    assert response.hits[0].score == pytest.approx(1.0, abs=0.05)


async def test_a_conversation_asks_for_its_last_message_itself_too(alice):
    pump, valve = [
        r.id
        for r in await alice.write_entries(
            [memoryfs_pb2.WriteEntry(content="the pump leaks"), memoryfs_pb2.WriteEntry(content="the valve leaks")]
        )
    ]
    for last, first in ((valve, "pump"), (pump, "valve")):
        other = "valve" if first == "pump" else "pump"
        assert (await alice.read_ids(f"what about the {first}?\nand the {other}?"))[0] == last


def test_the_last_message_is_the_last_line_with_a_word():
    assert last_message("one line") == ""
    assert last_message("one\n\ntwo\n ... \n") == "two"
    assert last_message("\n\n只有一行\n") == ""
    assert last_message("门票多少\r\n那电话呢？") == "那电话呢？"
    words = query_words("pump\nvalve valve")
    assert (dict(words.whole), dict(words.last)) == ({"pump": 1, "valv": 2}, {"valv": 2})
    assert not query_words("…\n!")


async def test_queries_of_stop_words_only_find_items_and_raise_nothing(alice):
    await write(alice, turn("xylophone lessons"), turn("what is it"))
    for query in ("what is it", "what is it\nwho was that", "的", "?!\n…"):
        assert (await alice.read(query, top_k=5)).hits
