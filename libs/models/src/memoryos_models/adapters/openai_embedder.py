"""An embedder behind any OpenAI-compatible `/v1/embeddings` endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from memoryos_models.config import ModelsSection
from memoryos_models.errors import EmbedderBusy, ModelReplyInvalid, VectorUnusable
from memoryos_models.http_json import new_client, post_json
from memoryos_models.ports import Vectors
from memoryos_models.unit import unit_rows


class OpenAIEmbedder:
    """Asks the endpoint in batches, at most `embedder_concurrency` at once.

    An empty text is sent as one space, since some endpoints refuse "".
    """

    def __init__(self, section: ModelsSection) -> None:
        if not section.embedding_url or not section.embedding_model or not section.embedding_dimensions:
            raise ValueError("models.embedder=openai needs embedding_url, embedding_model and embedding_dimensions")
        self._section = section
        self._url = section.embedding_url.rstrip("/") + "/embeddings"
        self._model = section.embedding_model
        self._dimensions = section.embedding_dimensions
        key = section.embedding_key_file.read() if section.embedding_key_file else None
        self._client = new_client(
            connect_timeout_s=section.connect_timeout_s, api_key=key, connections_max=section.embedder_concurrency
        )
        self._slots = asyncio.Semaphore(section.embedder_concurrency)
        self._waiting = 0

    @property
    def model_id(self) -> str:
        """Name and length: the same name with another length is another space."""
        return f"{self._model}-{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """See `Embedder.dimensions`."""
        return self._dimensions

    async def embed(self, texts: Sequence[str], *, deadline_s: float) -> Vectors:
        """See `Embedder.embed`; long texts are the endpoint's to cut or refuse."""
        clean = [text.encode("utf-8", "replace").decode("utf-8") or " " for text in texts]
        ends_at = asyncio.get_running_loop().time() + deadline_s
        size = self._section.embedder_batch_max
        batches = [clean[start : start + size] for start in range(0, len(clean), size)]
        rows = [await self._ask(batch, ends_at) for batch in batches]
        return np.concatenate(rows) if rows else np.empty((0, self._dimensions), dtype=np.float32)

    async def close(self) -> None:
        """See `Embedder.close`."""
        await self._client.aclose()

    async def _ask(self, batch: list[str], ends_at: float) -> Vectors:
        if self._slots.locked() and self._waiting >= self._section.embedder_queue_max:
            raise EmbedderBusy(
                f"more than {self._section.embedder_queue_max} requests wait for the embedder",
                metadata={"limit": "embedder_queue_max"},
                retry_after_s=1.0,
            )
        self._waiting += 1
        try:
            async with asyncio.timeout_at(ends_at):
                await self._slots.acquire()
        except TimeoutError as error:
            raise EmbedderBusy(
                "the embedder had no free slot in time", metadata={"limit": "deadline_s"}, retry_after_s=1.0
            ) from error
        finally:
            self._waiting -= 1
        try:
            reply = await post_json(
                self._client,
                self._url,
                {"model": self._model, "input": batch, "encoding_format": "float"},
                deadline_s=ends_at - asyncio.get_running_loop().time(),
                reply_bytes_max=self._section.reply_bytes_max,
            )
        finally:
            self._slots.release()
        return self._rows(reply, len(batch))

    def _rows(self, reply: dict[str, Any], count: int) -> Vectors:
        """Give the vectors in the order of the texts; the reply may be in any order."""
        data = reply.get("data")
        if not isinstance(data, list) or len(data) != count or not all(isinstance(entry, dict) for entry in data):
            raise ModelReplyInvalid(f"the reply does not hold {count} vectors")
        by_index = {entry.get("index", position): entry.get("embedding") for position, entry in enumerate(data)}
        if set(by_index) != set(range(count)):
            raise ModelReplyInvalid("the reply's vectors are not numbered from 0")
        try:
            return unit_rows([by_index[position] for position in range(count)], dimensions=self._dimensions)
        except VectorUnusable as error:
            raise ModelReplyInvalid(f"the reply's vectors are not {self._dimensions} finite numbers each") from error
