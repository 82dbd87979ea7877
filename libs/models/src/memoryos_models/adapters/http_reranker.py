"""A reranker behind an HTTP endpoint, in either of the two JSON forms that are in use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from opentelemetry import trace

from memoryos_models.config import ModelsSection
from memoryos_models.errors import ModelReplyInvalid
from memoryos_models.http_json import new_client, post_for_json

_CONNECTIONS_MAX = 16
_TRACER = trace.get_tracer("memoryos.models")


class HttpReranker:
    """Sends one request per query; every call is a span `rerank {model}` without content.

    `tei`: {query, texts} → [{index, score}]. `openai` (Jina, Cohere, vLLM,
    llama.cpp): {model, query, documents} → {results: [{index, relevance_score}]}.
    Texts are cut to `reranker_text_chars_max` characters. An endpoint that
    answers raw logits (any number outside 0..1) has them squashed.
    """

    def __init__(self, section: ModelsSection) -> None:
        if not section.reranker_url:
            raise ValueError("models.reranker needs models.reranker_url")
        if section.reranker == "openai" and not section.reranker_model:
            raise ValueError("models.reranker=openai needs models.reranker_model")
        self._section = section
        self._url = section.reranker_url.rstrip("/") + "/rerank"
        key = section.reranker_key_file.read() if section.reranker_key_file else None
        self._client = new_client(
            connect_timeout_s=section.connect_timeout_s, api_key=key, connections_max=_CONNECTIONS_MAX
        )

    async def rerank(self, query: str, texts: Sequence[str], *, deadline_s: float) -> list[float]:
        """See `Reranker.rerank`."""
        if not texts:
            return []
        model = self._section.reranker_model or "tei"
        with _TRACER.start_as_current_span(f"rerank {model}", kind=trace.SpanKind.CLIENT) as span:
            span.set_attribute("gen_ai.request.model", model)
            reply = await post_for_json(
                self._client,
                self._url,
                self._request(_clean(query), [_clean(text)[: self._section.reranker_text_chars_max] for text in texts]),
                deadline_s=deadline_s,
                reply_bytes_max=self._section.reply_bytes_max,
            )
        return _scores(reply.get("results") if isinstance(reply, dict) else reply, len(texts))

    async def close(self) -> None:
        """See `Reranker.close`."""
        await self._client.aclose()

    def _request(self, query: str, texts: list[str]) -> dict[str, Any]:
        if self._section.reranker == "tei":
            request: dict[str, Any] = {"query": query, "texts": texts, "truncate": True, "raw_scores": False}
            return request
        return {
            "model": self._section.reranker_model,
            "query": query,
            "documents": texts,
            "top_n": len(texts),
            "return_documents": False,
        }


def _clean(text: str) -> str:
    """Give the text with lone surrogates replaced: JSON in UTF-8 has none."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _scores(results: Any, count: int) -> list[float]:
    """Give the scores in the order of the texts; a text without a finite score makes the reply invalid."""
    found: dict[int, float] = {}
    for result in results if isinstance(results, list) else ():
        if isinstance(result, dict):
            position = result.get("index")
            score = result.get("score", result.get("relevance_score"))
            if type(position) is int and isinstance(score, (int, float)) and math.isfinite(score):
                found[position] = float(score)
    if set(found) != set(range(count)) or len(results) != count:
        raise ModelReplyInvalid(f"the reply does not score {count} texts")
    scores = [found[position] for position in range(count)]
    if any(not 0.0 <= score <= 1.0 for score in scores):
        scores = [_logistic(score) for score in scores]
    return scores


def _logistic(logit: float) -> float:
    bounded = min(max(logit, -700.0), 700.0)  # exp overflows beyond
    return 1.0 / (1.0 + math.exp(-bounded))
