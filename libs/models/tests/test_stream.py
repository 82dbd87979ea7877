"""Streams: put together whatever the chunks are, and every way in which they break."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memoryos_models.adapters.chat_wire import read_reply
from memoryos_models.build import build_chat_model
from memoryos_models.chat_stream import StreamedReply
from memoryos_models.config import ModelsSection
from memoryos_models.errors import ModelContextExceeded, ModelRejected, ModelReplyInvalid, ModelUnavailable
from memoryos_models.ports import ChatMessage, ChatReply, ChatRequest, Role
from memoryos_models.scripted import ScriptedCall, ScriptedReply, ScriptedServer, render_completion
from memoryos_models.scripted_stream import ScriptedStream, stream_events
from memoryos_models.sse import SseReader

ASK = ChatRequest(messages=(ChatMessage(role=Role.USER, content="A 线的节拍？"),), model="m", deadline_s=20)
REPLY = ScriptedReply(
    content="节拍是 42 秒。 ✓🙂",
    tool_calls=[
        ScriptedCall(name="mes.takt", arguments={"line": "甲", "n": [1, {"x": "y"}]}),
        ScriptedCall(name="mes.takt", arguments={"line": "B"}),
        ScriptedCall(name="note", arguments='{"broken": '),
    ],
)


async def ask(reply: ScriptedReply, request: ChatRequest = ASK, **fields: object) -> ChatReply:
    with ScriptedServer(lambda _: reply) as server:
        model = build_chat_model(ModelsSection.model_validate({"chat_url": server.base_url, **fields}))
        assert model is not None
        try:
            return await model.complete(request)
        finally:
            await model.close()


def read(pieces: list[bytes]) -> ChatReply:
    stream = StreamedReply()
    for piece in pieces:
        stream.feed(piece)
    stream.feed(b"", last=True)
    return read_reply(stream.body(), "m")


def cut_up(raw: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(raw), *(place % (len(raw) + 1) for place in places)})
    return [raw[start:end] for start, end in pairwise(edges)]


COMPLETION = render_completion({"model": "m", "messages": []}, REPLY)
WHOLE = read_reply(COMPLETION, "m")


@settings(deadline=None)
@given(
    places=st.lists(st.integers(0, 10_000), max_size=60),
    piece_chars=st.integers(1, 40),
    line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    noise=st.sampled_from([b"", b": keep-alive\n\n", b"event: message\nid: 7\nretry: 3\n"]),
)
def test_any_chunking_gives_the_reply_of_one_piece(places, piece_chars, line_end, noise) -> None:
    events = stream_events(COMPLETION, ScriptedStream(piece_chars=piece_chars))
    raw = b"\xef\xbb\xbf" + b"".join(noise + event for event in events)
    assert read(cut_up(raw.replace(b"\n", line_end), places)) == WHOLE


@settings(deadline=None)
@given(end=st.integers(0, 10_000), places=st.lists(st.integers(0, 10_000), max_size=10))
def test_a_cut_stream_is_the_whole_reply_or_an_error(end, places) -> None:
    raw = b"".join(stream_events(COMPLETION, ScriptedStream()))
    try:
        reply = read(cut_up(raw[: end % (len(raw) + 1)], places))
    except ModelReplyInvalid:
        return
    assert (reply.content, reply.tool_calls) == (WHOLE.content, WHOLE.tool_calls)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_bytes_give_events_or_a_typed_error(pieces) -> None:
    try:
        read([b"data: ", *pieces])
    except (ModelReplyInvalid, ModelUnavailable):
        return


def test_an_event_of_several_lines_is_one() -> None:
    reader = SseReader()
    assert reader.feed(b'data: {"a":\ndata: 1}\n\ndata\n\n') == ['{"a":\n1}', ""]


def chunk(delta: dict, finish: str | None = None) -> bytes:
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def call(name: str, arguments: str | None, **more: object) -> dict:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}, **more}]}


@pytest.mark.parametrize(
    "deltas",
    [
        [call("a", '{"x":1}', id="1"), call("b", '{"y":2}', id="2")],
        [call("a", '{"x":1}', id="1", index=0), call("b", '{"y":2}', id="2", index=0)],
        [call("a", '{"x"', id="1", index=0), call("b", '{"y":', id="2", index=1),
         call("a", ":1}", index=0), call("b", "2}", index=1)],
        [call("a", '{"x"', id="1"), call("", ":1}"), call("b", '{"y"', id="2"), call("", ":2}")],
    ],
    ids=["no index", "one index for all", "interleaved, the name repeated", "no index, in pieces"],
)  # fmt: skip
def test_calls_are_told_apart_as_servers_send_them(deltas) -> None:
    reply = read([*(chunk(delta) for delta in deltas), chunk({}, "tool_calls")])
    assert [(c.name, c.arguments_json) for c in reply.tool_calls] == [("a", '{"x":1}'), ("b", '{"y":2}')]


@pytest.mark.parametrize(
    "raw",
    [
        chunk(call("a", "{}", id="1", index=-1), "tool_calls"),
        chunk(call("a", "{}", id="1", index=10**9), "tool_calls"),
        chunk(call("a", "{}", id="1", index=True), "tool_calls"),
        chunk(call("a", "{}", id="1", index="0"), "tool_calls"),
        chunk({"tool_calls": {}}, "stop"),
        chunk({"tool_calls": [{"id": "1"}]}, "stop"),
        chunk({"content": [{"text": "x"}]}, "stop"),
        b"data: [1]\n\n",
        b'data: {"choices": {}}\n\n',
        b'data: {"choices": [{"index": 0, "delta": 1}]}\n\n',
        b"data: [DONE]\n\n",
        b"data: \xff\xfe\n\n",
        b"",
    ],
)
def test_nonsense_is_an_error(raw: bytes) -> None:
    with pytest.raises(ModelReplyInvalid):
        read([raw])


def test_more_calls_than_allowed_are_an_error() -> None:
    with pytest.raises(ModelReplyInvalid):
        read([chunk(call("a", "{}", id=str(n), index=n)) for n in range(65)])


@pytest.mark.parametrize("write_bytes", [1, 3, 7])
async def test_bytes_that_split_characters_and_keep_alives_change_nothing(write_bytes: int) -> None:
    reply = await ask(
        ScriptedReply(content="节拍 ✓🙂", stream=ScriptedStream(write_bytes=write_bytes, keep_alives=True))
    )
    assert reply.content == "节拍 ✓🙂"
    assert not reply.usage.estimated


async def test_without_done_and_usage_the_reply_is_whole_and_its_tokens_are_estimated() -> None:
    reply = await ask(ScriptedReply(content="节拍" * 10, stream=ScriptedStream(done=False, usage=False)))
    assert reply.content == "节拍" * 10
    assert reply.usage.estimated
    assert reply.usage.output_tokens == 20
    assert reply.usage.input_tokens > 0


async def test_a_connection_that_is_lost_after_the_reply_is_whole_loses_nothing() -> None:
    # Events: role, content, finish_reason; then the usage is lost.
    reply = await ask(ScriptedReply(content="short", stream=ScriptedStream(fault="hang_up", fault_after=3)))
    assert (reply.content, reply.usage.estimated) == ("short", True)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (ScriptedStream(fault="cut", fault_after=2), ModelReplyInvalid),
        (ScriptedStream(fault="cut"), ModelReplyInvalid),
        (ScriptedStream(fault="hang_up", fault_after=2), ModelUnavailable),
        (ScriptedStream(fault="garbage", fault_after=2), ModelReplyInvalid),
        (ScriptedStream(fault="error", fault_after=2), ModelUnavailable),
        (ScriptedStream(fault="error", fault_after=2, error={"message": "x"}), ModelUnavailable),
        (ScriptedStream(fault="error", error={"message": "x", "code": 400}), ModelRejected),
        (ScriptedStream(fault="error", error={"code": "context_length_exceeded"}), ModelContextExceeded),
    ],
)
async def test_a_broken_stream_is_a_typed_error(how: ScriptedStream, error: type[Exception]) -> None:
    with pytest.raises(error) as failed:
        await ask(ScriptedReply(content="a long enough answer", stream=how))
    assert type(failed.value) is error


async def test_silence_in_a_stream_ends_it_long_before_the_deadline() -> None:
    reply = ScriptedReply(content="a long enough answer", stream=ScriptedStream(fault="stall", fault_after=2))
    with pytest.raises(ModelUnavailable):
        await ask(reply, chat_idle_s=0.2)


async def test_a_stream_without_end_is_cut_off_by_its_size() -> None:
    with pytest.raises(ModelReplyInvalid, match="larger"):
        await ask(ScriptedReply(content="x" * 50_000), reply_bytes_max=10_000)


async def test_an_endpoint_that_answers_in_one_piece_all_the_same_is_understood() -> None:
    reply = await ask(ScriptedReply(body=json.dumps(COMPLETION).encode()))
    assert reply.tool_calls == WHOLE.tool_calls


async def test_who_gives_up_closes_the_connection() -> None:
    endless = ScriptedReply(content="x" * 3_000_000, stream=ScriptedStream(piece_chars=1))
    with ScriptedServer(lambda _: endless) as server:
        model = build_chat_model(ModelsSection(chat_url=server.base_url))
        assert model is not None
        asking = asyncio.create_task(model.complete(ASK))
        async with asyncio.timeout(20):
            while not server.requests:  # noqa: ASYNC110 (a thread of the server fills it)
                await asyncio.sleep(0.01)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert await asyncio.to_thread(server.hung_up.wait, 20)
        await model.close()
