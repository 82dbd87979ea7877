"""One chat endpoint: any OpenAI-compatible `/v1/chat/completions`, streamed or in one piece."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from opentelemetry import trace

from memoryos_models.actions import action_request, action_schema, in_words, read_action, read_text, with_instruction
from memoryos_models.adapters.chat_wire import read_reply, render_request
from memoryos_models.endpoints import Endpoint
from memoryos_models.errors import ModelRejected
from memoryos_models.http_json import ReplyLimits, new_client, post_for_stream, post_json
from memoryos_models.ports import ChatReply, ChatRequest, TokenUsage
from memoryos_models.relaxed_schema import relaxed
from memoryos_models.structured import checker, read_structured
from memoryos_models.tokens import estimate_request_tokens, estimate_tokens

_CONNECTIONS_MAX: Final = 64
_TRACER = trace.get_tracer("memoryos.models")


class OpenAIChat:
    """Sends one request per reply; every call is a span `chat {model}` without content."""

    def __init__(self, endpoint: Endpoint, *, connect_timeout_s: float) -> None:
        self.endpoint = endpoint
        self._url = endpoint.url.rstrip("/") + "/chat/completions"
        key = endpoint.key_file.read() if endpoint.key_file else None
        self._client = new_client(connect_timeout_s=connect_timeout_s, api_key=key, connections_max=_CONNECTIONS_MAX)

    async def ask(self, request: ChatRequest, model: str | None, limits: ReplyLimits) -> ChatReply:
        """Give the reply of one model here; errors as `ChatModel.complete` raises them."""
        if not model:
            raise ModelRejected("no model is named, neither by the agent nor by models.chat_model")
        if request.response_schema is not None:
            checker(json.dumps(dict(request.response_schema), sort_keys=True))
        with _TRACER.start_as_current_span(f"chat {model}", kind=trace.SpanKind.CLIENT) as span:
            span.set_attribute("gen_ai.operation.name", "chat")
            span.set_attribute("gen_ai.request.model", model)
            span.set_attribute("memoryos.endpoint", self.endpoint.name)
            shown, body = prepare(request, model, self.endpoint)
            reply = with_usage(read_reply(await self._post(body, limits), model), shown)
            reply = replace(finish(reply, request, self.endpoint), endpoint=self.endpoint.name)
            span.set_attribute("gen_ai.response.finish_reasons", [reply.finish_reason.value])
            span.set_attribute("gen_ai.usage.input_tokens", reply.usage.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", reply.usage.output_tokens)
            return reply

    async def _post(self, body: dict[str, Any], limits: ReplyLimits) -> dict[str, Any]:
        if self.endpoint.stream:
            return await post_for_stream(self._client, self._url, body, limits)
        deadline_s = min(limits.begin_s, limits.deadline_s)
        return await post_json(self._client, self._url, body, deadline_s=deadline_s, reply_bytes_max=limits.bytes_max)

    async def close(self) -> None:
        """Release connections."""
        await self._client.aclose()


def prepare(request: ChatRequest, model: str, endpoint: Endpoint) -> tuple[ChatRequest, dict[str, Any]]:
    """Give the request as this endpoint is shown it, and the body that is sent."""
    response_format: dict[str, Any] | None = None
    schema = request.response_schema
    shown = replace(
        request,
        temperature=request.temperature if request.temperature is not None else endpoint.temperature,
        output_tokens_max=request.output_tokens_max or endpoint.output_tokens_max,
    )
    if endpoint.tools != "native" and request.tools:
        constrained = endpoint.tools == "schema"
        response_format = _json_schema("action", action_schema(request)) if constrained else None
        shown = action_request(shown, constrained=constrained)
    elif endpoint.tools != "native":
        shown = in_words(shown)
    if schema is not None and (endpoint.tools == "native" or not request.tools):
        # Servers take a schema or tools, seldom both.
        if endpoint.response_format == "json_schema" and not request.tools:
            response_format = _json_schema("reply", relaxed(schema))
        text = json.dumps(dict(schema), ensure_ascii=False)
        told = f"Answer with nothing but one JSON object of this JSON Schema: {text}"
        shown = replace(shown, messages=with_instruction(shown.messages, told))
    body = render_request(shown, model, stream=endpoint.stream)
    if response_format is not None:
        body["response_format"] = response_format
    return shown, body


def finish(reply: ChatReply, request: ChatRequest, endpoint: Endpoint) -> ChatReply:
    """Give the reply with its calls and its object read as the endpoint writes them."""
    if request.tools and endpoint.tools == "schema":
        reply = read_action(reply, request)
    elif request.tools and endpoint.tools == "text":
        reply = read_text(reply, request)
    return reply if request.response_schema is None else read_structured(reply, request.response_schema)


def with_usage(reply: ChatReply, shown: ChatRequest) -> ChatReply:
    """Give the reply with estimates where the endpoint counted nothing."""
    counted = reply.usage
    if counted.input_tokens and counted.output_tokens:
        return reply
    said = reply.content + "".join(call.name + call.arguments_json for call in reply.tool_calls)
    usage = TokenUsage(
        input_tokens=counted.input_tokens or estimate_request_tokens(shown),
        output_tokens=counted.output_tokens or estimate_tokens(said),
        estimated=True,
    )
    return replace(reply, usage=usage)


def _json_schema(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
