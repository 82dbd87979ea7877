"""Several endpoints: who is asked next, and when nobody is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from memoryos_models.build import build_chat_model
from memoryos_models.config import ModelsSection
from memoryos_models.errors import ModelContextExceeded, ModelRejected, ModelUnavailable
from memoryos_models.ports import ChatMessage, ChatModel, ChatRequest, Role
from memoryos_models.scripted import ScriptedReply, ScriptedServer


def ask(**fields) -> ChatRequest:
    message = ChatMessage(role=Role.USER, content="hi")
    return ChatRequest(messages=(message,), deadline_s=20, fallback_models=("other",), **fields)


def model_of(tmp_path: Path, first: str, other: str, tokens: int = 9_000) -> ChatModel:
    file = tmp_path / "endpoints.yaml"
    entry = {"name": "other", "url": other, "model": "o", "context_tokens": tokens}
    file.write_text(json.dumps({"endpoints": [entry]}))
    model = build_chat_model(
        ModelsSection(chat_url=first, chat_model="d", endpoints_file=file, chat_context_tokens=8_000)
    )
    assert model is not None
    return model


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ScriptedReply(status=503), "MODEL_UNAVAILABLE"),
        (ScriptedReply(hang_up=True), "MODEL_UNAVAILABLE"),
        (ScriptedReply(body=b"<html>"), "MODEL_REPLY_INVALID"),
        (ScriptedReply(status=404), "MODEL_NOT_FOUND"),
        (ScriptedReply(status=400, body=b'{"error": {"code": "context_length_exceeded"}}'), "MODEL_CONTEXT_EXCEEDED"),
    ],
)
async def test_the_next_model_answers_and_the_reply_says_so(tmp_path, reply, reason) -> None:
    with ScriptedServer(lambda _: reply) as first, ScriptedServer(lambda _: "here") as other:
        model = model_of(tmp_path, first.base_url, other.base_url)
        answer = await model.complete(ask())
        assert (answer.content, answer.endpoint) == ("here", "other")
        assert [(t.endpoint, t.model, t.reason) for t in answer.failed_tries] == [("default", "d", reason)]
        assert other.requests[0]["model"] == "o"
        assert (model.context_tokens(), model.context_tokens("other")) == (8_000, 9_000)
        await model.close()


async def test_a_refusal_and_a_model_that_takes_no_more_end_the_search(tmp_path) -> None:
    with ScriptedServer(lambda _: ScriptedReply(status=401)) as first, ScriptedServer(lambda _: "here") as other:
        model = model_of(tmp_path, first.base_url, other.base_url, tokens=8_000)
        with pytest.raises(ModelRejected):
            await model.complete(ask())
        first.script = lambda _: ScriptedReply(status=400, body=b'{"error": {"code": "context_length_exceeded"}}')
        with pytest.raises(ModelContextExceeded):
            await model.complete(ask())
        assert not other.requests
        await model.close()


async def test_a_dead_endpoint_is_not_asked_each_time_and_alone_it_is(tmp_path) -> None:
    with ScriptedServer(lambda _: ScriptedReply(status=503)) as first, ScriptedServer(lambda _: "here") as other:
        model = model_of(tmp_path, first.base_url, other.base_url)
        for _ in range(4):
            answer = await model.complete(ask())
        assert len(first.requests) == 3
        assert [t.reason for t in answer.failed_tries] == ["CIRCUIT_OPEN"]
        alone = ChatRequest(messages=ask().messages, deadline_s=20)
        with pytest.raises(ModelUnavailable):
            await model.complete(alone)
        assert len(first.requests) == 4
        await model.close()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("text", "structured"), [('{"n": 1}', {"n": 1}), ('```json\n{"n": 1}\n```', {"n": 1}), ("n", None), ('{"n": "x"}', None)])  # fmt: skip  # noqa: E501
async def test_a_structured_reply_is_checked(text, structured, stream) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with ScriptedServer(lambda _: text) as server:
        model = build_chat_model(ModelsSection(chat_url=server.base_url, chat_model="m", chat_stream=stream))
        assert model is not None
        reply = await model.complete(ChatRequest(messages=ask().messages, response_schema=schema))
        assert reply.structured == structured
        assert bool(reply.structure_error) == (structured is None)
        assert server.requests[0]["response_format"]["type"] == "json_schema"
        await model.close()
