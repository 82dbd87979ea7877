"""Models without tool calls: what the small model really wrote, and what is taken for a call."""

from __future__ import annotations

import json

import pytest
from memoryos_models.adapters.openai_chat import finish, prepare
from memoryos_models.circuit import Circuit
from memoryos_models.config import ModelsSection
from memoryos_models.endpoints import Endpoint, endpoints_schema_text, load_endpoints, read_endpoints
from memoryos_models.errors import ModelReplyInvalid
from memoryos_models.ports import ChatMessage, ChatReply, ChatRequest, FinishReason, Role, ToolSpec

TAKT = ToolSpec(
    name="mes__takt_time",
    description="takt time",
    parameters={
        "type": "object",
        "properties": {"line": {"$ref": "#/$defs/line"}},
        "$defs": {"line": {"type": "string", "pattern": "^[A-Z]$"}},
    },
)
ASK = ChatRequest(messages=(ChatMessage(role=Role.USER, content="A 线的节拍？"),), tools=(TAKT,))
CALL = '{"name": "mes__takt_time", "arguments": {"line": "A"}}'


def endpoint(tools: str) -> Endpoint:
    return Endpoint.model_validate({"name": "e", "url": "http://h/v1", "model": "m", "tools": tools})


def read(text: str, tools: str = "text") -> ChatReply:
    return finish(ChatReply(content=text, finish_reason=FinishReason.STOP, model="m"), ASK, endpoint(tools))


@pytest.mark.parametrize(
    "text",
    [
        # Written by Qwen2.5-Coder-1.5B; the second ran on with empty lines.
        '```json\n{\n  "name": "mes__takt_time",\n  "arguments": {\n    "line": "A"\n  }\n}\n```',
        '```json\n{\n  "name": "mes__takt_time",\n  "arguments": {\n    "line": "A"\n  }\n}\n```\n\n\n\n\n\n',
        '```json\n{\n  "tool": "mes__takt_time",\n  "arguments": {\n    "line": "A"\n  }\n}\n```',
        CALL,
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"```\n{CALL}\n```\nThe takt time is 42 s.",
        f"{CALL}\nI called it.",
        '{"tool": "mes__takt_time", "parameters": "{\\"line\\": \\"A\\"}"}',
    ],
)
def test_a_call_in_the_text_is_a_call(text: str) -> None:
    reply = read(text)
    (call,) = reply.tool_calls
    assert (call.name, json.loads(call.arguments_json)) == ("mes__takt_time", {"line": "A"})
    assert (reply.content, reply.finish_reason) == ("", FinishReason.TOOL_CALLS)


@pytest.mark.parametrize(
    "text",
    [
        # Written by the model when it had no use for a tool but was told to use one.
        'I am an AI.\n```json\n{\n  "name": "hello__response",\n  "arguments": {"message": "Hi"}\n}\n```',
        f"You could call it like this: {CALL}",
        f"例如：\n```json\n{CALL}\n```",
        'To answer this question, I will use the "mes__takt_time" tool. Here is the JSON object to call the tool:\n'
        '{"tool": "mes__takt_time", "arguments": {"line": "A"}}\nThis will return the present takt time of line A.',
        'To get the present takt time of the A line, use the `mes__takt_time` tool with the arguments `{"line": "A"}`.',
        'To answer this question, I need to use the "mes__takt_time" tool. Here\'s how I would do it:\n\n```json\n{\n'
        '  "tool": "mes__takt_time",\n  "arguments": {\n    "line": "B"\n  }\n}\n```',
        '{"line": "A"}',
        '{"name": "mes__takt_time", "arguments": {}, "note": "not a call"}',
        "mes__takt_time",
    ],
)
def test_a_text_that_mentions_json_is_a_text(text: str) -> None:
    reply = read(text)
    assert not reply.tool_calls
    assert reply.content == text


@pytest.mark.parametrize("text", ['{"name": "rm", "arguments": {}}', "<tool_call>what</tool_call>"])
def test_a_call_of_what_was_not_offered_is_refused(text: str) -> None:
    with pytest.raises(ModelReplyInvalid):
        read(text)


@pytest.mark.parametrize("text", [CALL[:-1], CALL[:-3], CALL.replace('"A"', "'A'"), CALL.replace('"A"', "NaN")])
def test_a_broken_call_is_told_to_the_model_and_not_made(text: str) -> None:
    (call,) = read(text).tool_calls
    assert call.arguments_error


def test_actions_are_held_to_the_offered_tools() -> None:
    _, body = prepare(ASK, "m", endpoint("schema"))
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["$defs"]["t0"]["properties"]["line"] == {"$ref": "#/$defs/t0/$defs/line"}
    assert "pattern" not in json.dumps(schema)
    assert "tools" not in body
    (call,) = read('{"tool": "mes__takt_time", "arguments": {"line": "A"}}', "schema").tool_calls
    assert call.name == "mes__takt_time"
    assert read('{"answer": "42 秒"}', "schema").content == "42 秒"


@pytest.mark.parametrize(
    "text",
    ["42", "[]", '{"tool": "rm", "arguments": {}}', '{"answer": "a", "tool": "b"}', '{"tool": 1, "arguments": 1}'],
)
def test_what_is_no_action_is_refused(text: str) -> None:
    with pytest.raises(ModelReplyInvalid):
        read(text, "schema")


def test_endpoints_are_read_strictly_and_the_schema_is_published(tmp_path) -> None:
    file = tmp_path / "endpoints.yaml"
    file.write_text("endpoints:\n- {name: small, url: 'http://h/v1', model: m, tools: text, context_tokens: 8192}\n")
    assert read_endpoints(file).endpoints[0].context_tokens == 8192
    found = load_endpoints(ModelsSection(chat_url="http://d/v1", endpoints_file=file))
    assert [e.name for e in found] == ["default", "small"]
    for bad in ("[]", "endpoints: []", "endpoints:\n- {name: default, url: 'http://h', model: m}", "{", "endpoints:\n- {name: a, url: 'http://h', model: m, key: sk-1}"):  # fmt: skip  # noqa: E501
        file.write_text(bad)
        with pytest.raises(Exception, match="endpoints file"):
            read_endpoints(file)
    published = __import__("pathlib").Path(__file__).parent.parent / "schemas" / "endpoints.schema.json"
    assert published.read_text() == endpoints_schema_text()


def test_a_circuit_opens_after_three_failures_and_one_caller_probes() -> None:
    circuit = Circuit()
    for _ in range(3):
        circuit.failed(100.0)
    assert circuit.is_open(104.9)
    assert not circuit.is_open(105.0)
    circuit.begin()
    assert circuit.is_open(105.0)
    circuit.failed(105.0)
    assert circuit.is_open(114.9)
    circuit.answered()
    assert not circuit.is_open(105.0)
