"""What the rest of Memory OS asks of models: vectors for texts, an order of texts, the next message of a chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""One row per text; every row of unit length and exactly representable in fp16 (see `unit.unit_rows`)."""


class Embedder(Protocol):
    """Turns texts into vectors of one model.

    Two embedders with equal `model_id` give equal vectors for equal texts;
    vectors of different models are never compared.
    """

    @property
    def model_id(self) -> str:
        """Name of the vector space, e.g. `usem3-512`."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    async def embed(self, texts: Sequence[str], *, deadline_s: float) -> Vectors:
        """Give one vector per text, in order, within `deadline_s` seconds.

        Any string has a vector: empty ones, lone surrogates and very long ones
        too (an adapter states how much of a long text it reads). Raises
        `EmbedderBusy` when the queue is full or the deadline passes while the
        work waits or runs, `ModelUnavailable` when a remote model does not
        answer, `ModelReplyInvalid` when it answers nonsense. Never blocks the
        event loop.
        """
        ...

    async def close(self) -> None:
        """Release threads and connections; running work is not waited for."""
        ...


class Reranker(Protocol):
    """Judges how well each of a few texts answers a query, reading both together."""

    async def rerank(self, query: str, texts: Sequence[str], *, deadline_s: float) -> list[float]:
        """Give one score per text, in order, each 0..1 and higher for a better answer, within `deadline_s` seconds.

        Scores of different queries are not comparable. Long texts are cut (an
        adapter states where). Raises `ModelUnavailable`, `ModelRejected` or
        `ModelReplyInvalid`; then no text has a score.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class FinishReason(StrEnum):
    """Why the model stopped."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call that the model asks for.

    `arguments_json` is the text as the model wrote it. When it is no JSON
    object (or repeats a key, or holds NaN), `arguments_error` says so in one
    safe sentence: tell the model, do not run the call.
    """

    id: str
    name: str
    arguments_json: str
    arguments_error: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChatMessage:
    """One message of the conversation."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """Only of the assistant."""
    tool_call_id: str | None = None
    """Only of a tool: the call that this answers."""


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """What to ask the model."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    model: str | None = None
    """Name of an endpoint, or of a model at the default endpoint; None: the default endpoint's own model."""
    fallback_models: tuple[str, ...] = ()
    """Asked in this order, in the same deadline, when the model before does not answer or answers nonsense."""
    response_schema: Mapping[str, Any] | None = None
    """JSON Schema of an object. The model is then asked that a reply without tool calls be JSON text of it."""
    temperature: float | None = None
    output_tokens_max: int | None = None
    deadline_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class TokenUsage:
    """Tokens as the endpoint counted them, or an estimate that says so."""

    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    """The endpoint did not say (all of) it: counted from the text, see `tokens.estimate_tokens`."""


@dataclass(frozen=True, kw_only=True)
class ModelTry:
    """An endpoint that was asked, or passed over, before the one that answered."""

    endpoint: str
    model: str
    reason: str
    """Reason of its error, e.g. `MODEL_UNAVAILABLE`, or `CIRCUIT_OPEN` when it was not asked."""


@dataclass(frozen=True, kw_only=True)
class ChatReply:
    """What the model answered."""

    content: str
    finish_reason: FinishReason
    model: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)
    structured: Mapping[str, Any] | None = None
    """The object of `content`, checked, where `ChatRequest.response_schema` was given and no tool is called; None when
    the model did not keep to the schema: `content` is what it said, so that it can be told what is wrong with it."""
    structure_error: str = ""
    """Why `content` is not of `ChatRequest.response_schema`, without its text; empty when it is."""
    endpoint: str = ""
    """Name of the endpoint that answered."""
    failed_tries: tuple[ModelTry, ...] = ()
    """Endpoints before it, in order."""

    @property
    def message(self) -> ChatMessage:
        """The reply as the next message of the conversation."""
        return ChatMessage(role=Role.ASSISTANT, content=self.content, tool_calls=self.tool_calls)


class ChatModel(Protocol):
    """Gives the next message of a conversation."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Give the model's reply within `request.deadline_s` seconds.

        Not retried here. Raises `ModelUnavailable` (worth a retry, after its
        `retry_after_s`) on 429, 5xx, a lost connection or a passed deadline;
        `ModelRejected` (not worth one) on other refusals, of them
        `ModelContextExceeded` when the conversation is too long for the model;
        `ModelReplyInvalid` when the reply is not whole, for example without
        `finish_reason`. A whole reply that is not of `request.response_schema`
        is given all the same, with `structured` None.
        """
        ...

    def context_tokens(self, model: str | None = None) -> int | None:
        """Give how many tokens, output included, the endpoint of that model takes; None when nobody said."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
