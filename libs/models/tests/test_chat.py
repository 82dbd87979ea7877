"""The chat model against a scripted server over real HTTP, streamed and in one piece."""

from __future__ import annotations

import json
import os

import pytest
from memoryos_models.adapters.chat_wire import read_reply
from memoryos_models.build import build_chat_model
from memoryos_models.config import ModelsSection
from memoryos_models.errors import ModelRejected, ModelReplyInvalid, ModelUnavailable
from memoryos_models.ports import ChatMessage, ChatReply, ChatRequest, FinishReason, Role, ToolCall, ToolSpec
from memoryos_models.router import RoutedChat
from memoryos_models.scripted import Script, ScriptedCall, ScriptedReply, ScriptedServer

ASK = ChatRequest(messages=(ChatMessage(role=Role.USER, content="A 线的节拍是多少？"),), model="m", deadline_s=10)
SPEC = ToolSpec(name="mes.takt", description="takt time of a line", parameters={"type": "object"})


@pytest.fixture(params=[True, False], ids=["stream", "whole"], autouse=True)
def stream(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_STREAM", str(int(request.param)))


def chat(**fields: object) -> RoutedChat:
    section = ModelsSection.model_validate({"chat_stream": os.environ["CHAT_STREAM"] == "1", **fields})
    model = build_chat_model(section)
    assert isinstance(model, RoutedChat)
    return model


async def ask(script: Script, request: ChatRequest = ASK) -> tuple[ChatReply, ScriptedServer]:
    with ScriptedServer(script) as server:
        model = chat(chat_url=server.base_url)
        try:
            return await model.complete(request), server
        finally:
            await model.close()


async def test_a_text_reply() -> None:
    reply, server = await ask(lambda request: "节拍 " + request["messages"][-1]["content"][0])
    assert (reply.content, reply.finish_reason) == ("节拍 A", FinishReason.STOP)
    assert reply.usage.input_tokens > 0
    assert server.requests[0]["messages"] == [{"role": "user", "content": "A 线的节拍是多少？"}]
    assert "tools" not in server.requests[0]


async def test_tool_calls_and_their_results_go_round() -> None:
    def script(request: dict) -> ScriptedReply | str:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return f"it is {json.loads(last['content'])['takt_s']} s"
        assert request["tools"][0]["function"]["name"] == "mes.takt"
        return ScriptedReply(tool_calls=[ScriptedCall(name="mes.takt", arguments={"line": "A", "n": 2**53 + 1})])

    first, _ = await ask(script, ChatRequest(messages=ASK.messages, tools=(SPEC,), model="m"))
    assert first.finish_reason is FinishReason.TOOL_CALLS
    (call,) = first.tool_calls
    assert call.arguments_error is None
    assert json.loads(call.arguments_json) == {"line": "A", "n": 9007199254740993}
    answer = ChatMessage(role=Role.TOOL, content='{"takt_s": 42}', tool_call_id=call.id)
    second, server = await ask(script, ChatRequest(messages=(*ASK.messages, first.message, answer), model="m"))
    assert second.content == "it is 42 s"
    assert server.requests[0]["messages"][1]["tool_calls"][0]["id"] == call.id
    assert server.requests[0]["messages"][2]["tool_call_id"] == call.id


@pytest.mark.parametrize(
    "text", ['{"a": ', "[1]", "null", "1", '{"a": 1, "a": 2}', '{"a": NaN}', '{"a":' * 200 + "1" + "}" * 200, "nope"]
)
async def test_malformed_arguments_are_a_field_not_an_exception(text: str) -> None:
    reply, _ = await ask(lambda _: ScriptedReply(tool_calls=[ScriptedCall(name="t", arguments=text)]))
    assert reply.tool_calls[0].arguments_json == text
    assert reply.tool_calls[0].arguments_error


async def test_empty_arguments_are_an_empty_object() -> None:
    reply, _ = await ask(lambda _: ScriptedReply(tool_calls=[ScriptedCall(name="t", arguments="")]))
    assert reply.tool_calls[0] == ToolCall(id=reply.tool_calls[0].id, name="t", arguments_json="{}")


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_endpoint_is_worth_a_retry_after_its_time(status: int) -> None:
    with pytest.raises(ModelUnavailable) as busy:
        await ask(lambda _: ScriptedReply(status=status, retry_after_s=7))
    assert busy.value.retry_after_s == 7
    assert busy.value.metadata["http_status"] == str(status)


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 422])
async def test_a_refusal_is_not_worth_a_retry(status: int) -> None:
    with pytest.raises(ModelRejected) as refused:
        await ask(lambda _: ScriptedReply(status=status))
    assert "scripted answer" not in str(refused.value)


async def test_a_late_reply_and_a_lost_connection_are_unavailable() -> None:
    late = ChatRequest(messages=ASK.messages, model="m", deadline_s=0.05)
    with pytest.raises(ModelUnavailable):
        await ask(lambda _: ScriptedReply(content="late", delay_s=30), late)
    with pytest.raises(ModelUnavailable):
        await ask(lambda _: ScriptedReply(hang_up=True))


async def test_a_truncated_reply_says_so() -> None:
    reply, _ = await ask(lambda _: ScriptedReply(content="half a sen", finish_reason="length"))
    assert reply.finish_reason is FinishReason.LENGTH


async def test_a_reply_without_finish_reason_is_an_error() -> None:
    with pytest.raises(ModelReplyInvalid):
        await ask(lambda _: ScriptedReply(content="cut off", finish_reason=None))


@pytest.mark.parametrize("body", [b"", b"<html>ok</html>", b"[]", b"null", b'{"choices": []}', b'{"choices": [1]}'])
async def test_nonsense_is_an_error(body: bytes) -> None:
    with pytest.raises(ModelReplyInvalid):
        await ask(lambda _: ScriptedReply(body=body))


async def test_a_huge_reply_is_cut_off() -> None:
    with ScriptedServer(lambda _: "x" * 5_000) as server:
        model = chat(chat_url=server.base_url, reply_bytes_max=2_000)
        with pytest.raises(ModelReplyInvalid):
            await model.complete(ASK)
        await model.close()


def choice(message: object, finish: object = "tool_calls") -> dict:
    return {"choices": [{"message": message, "finish_reason": finish}]}


@pytest.mark.parametrize(
    "body",
    [
        choice({"content": 1}, "stop"),
        choice({"tool_calls": []}),
        choice({"tool_calls": {}}),
        choice({"tool_calls": [1]}),
        choice({"tool_calls": [{"id": "", "function": {"name": "t", "arguments": "{}"}}]}),
        choice({"tool_calls": [{"id": "a", "function": {"arguments": "{}"}}]}),
        choice({"content": "x"}, "done"),
    ],
)
def test_half_replies_are_errors(body: dict) -> None:
    with pytest.raises(ModelReplyInvalid):
        read_reply(body, "m")


def test_calls_with_one_id_are_told_apart() -> None:
    calls = [{"id": name, "function": {"name": "t"}} for name in ("a", "a", "a_1", "a")]
    assert [call.id for call in read_reply(choice({"tool_calls": calls}), "m").tool_calls] == [
        "a",
        "a_1",
        "a_1_2",
        "a_3",
    ]


def test_calls_beside_stop_count_and_arguments_must_be_text() -> None:
    body = choice({"tool_calls": [{"id": "a", "function": {"name": "t", "arguments": {"x": 1}}}]}, "stop")
    reply = read_reply(body, "m")
    assert reply.finish_reason is FinishReason.TOOL_CALLS
    assert reply.tool_calls[0].arguments_error


async def test_without_an_endpoint_there_is_no_model_and_without_a_name_no_call() -> None:
    assert build_chat_model(ModelsSection()) is None
    model = chat(chat_url="http://127.0.0.1:1/v1")
    with pytest.raises(ModelRejected):
        await model.complete(ChatRequest(messages=ASK.messages))
    await model.close()


async def test_the_api_key_is_sent_and_never_shown(tmp_path) -> None:
    (tmp_path / "key").write_text("sk-canary\n")
    section = ModelsSection.model_validate({"chat_url": "http://127.0.0.1:1/v1", "chat_key_file": tmp_path / "key"})
    model = build_chat_model(section)
    assert isinstance(model, RoutedChat)
    assert model._chats["default"]._client.headers["authorization"] == "Bearer sk-canary"
    assert "canary" not in section.model_dump_json()
    await model.close()
