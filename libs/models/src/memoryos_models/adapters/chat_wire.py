"""The JSON of chat completions: a request rendered, a whole reply read. No I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from memoryos_models.chat_stream import TOOL_CALLS_MAX
from memoryos_models.errors import ModelReplyInvalid
from memoryos_models.ports import ChatMessage, ChatReply, ChatRequest, FinishReason, TokenUsage, ToolCall, ToolSpec
from memoryos_models.refusals import error_in_reply
from memoryos_models.text_calls import arguments_error

_TOKENS_MAX: Final = 100_000_000
"""More tokens than this in one reply are not believed."""


def render_request(request: ChatRequest, model: str, *, stream: bool) -> dict[str, Any]:
    """Give the body of the request; what is not set is not sent."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_render_message(message) for message in request.messages],
        "stream": stream,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_render_tool(tool) for tool in request.tools]
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.output_tokens_max is not None:
        body["max_tokens"] = request.output_tokens_max
    return body


def _render_message(message: ChatMessage) -> dict[str, Any]:
    out: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.tool_calls:
        out["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        out["tool_call_id"] = message.tool_call_id
    return out


def _render_tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
    }


def read_reply(body: dict[str, Any], model: str) -> ChatReply:
    """Give the first choice of a reply, or raise `ModelReplyInvalid` when it is not whole."""
    error_in_reply(body)
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ModelReplyInvalid("the reply holds no choice")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise ModelReplyInvalid("the reply holds no message")
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        raise ModelReplyInvalid("the reply's content is not text")
    calls = _read_calls(message.get("tool_calls"))
    finish = _read_finish(choices[0].get("finish_reason"), calls)
    if not calls and finish is FinishReason.TOOL_CALLS:
        raise ModelReplyInvalid("the reply promises tool calls and holds none")
    named = body.get("model")
    return ChatReply(
        content=content or "",
        finish_reason=finish,
        model=named if isinstance(named, str) and named else model,
        tool_calls=calls,
        usage=_read_usage(body.get("usage")),
    )


def _read_finish(value: object, calls: tuple[ToolCall, ...]) -> FinishReason:
    if value == "function_call":
        value = FinishReason.TOOL_CALLS.value
    try:
        finish = FinishReason(str(value))
    except ValueError as error:
        raise ModelReplyInvalid("the reply has no known finish_reason: it may be cut off") from error
    # Several servers say "stop" beside tool calls; the calls are whole, so they count.
    return FinishReason.TOOL_CALLS if calls and finish is FinishReason.STOP else finish


def _read_calls(value: object) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > TOOL_CALLS_MAX:
        raise ModelReplyInvalid(f"the reply's tool calls are not a list of at most {TOOL_CALLS_MAX}")
    return _told_apart([_read_call(entry) for entry in value])


def _told_apart(calls: list[ToolCall]) -> tuple[ToolCall, ...]:
    """Give the calls with an id each: some models give all calls of a reply the same one."""
    seen: dict[str, ToolCall] = {}
    for index, call in enumerate(calls):
        call_id = call.id
        while call_id in seen:
            call_id = f"{call_id}_{index}"
        seen[call_id] = replace(call, id=call_id)
    return tuple(seen.values())


def _read_call(entry: object) -> ToolCall:
    function = entry.get("function") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(function, dict):
        raise ModelReplyInvalid("a tool call of the reply is not an object")
    call_id, name, arguments = entry.get("id"), function.get("name"), function.get("arguments")
    if not isinstance(call_id, str) or not call_id or not isinstance(name, str) or not name:
        raise ModelReplyInvalid("a tool call of the reply has no id or no name")
    if arguments is None:
        arguments = ""
    if not isinstance(arguments, str):
        return ToolCall(id=call_id, name=name, arguments_json="", arguments_error="arguments are not JSON text")
    text = arguments if arguments.strip() else "{}"  # a tool without parameters is often called with ""
    return ToolCall(id=call_id, name=name, arguments_json=text, arguments_error=arguments_error(text))


def _read_usage(value: object) -> TokenUsage:
    if not isinstance(value, dict):
        return TokenUsage()
    return TokenUsage(
        input_tokens=_count(value.get("prompt_tokens")), output_tokens=_count(value.get("completion_tokens"))
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _TOKENS_MAX else 0
