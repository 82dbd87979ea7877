"""A layer around any embedder that remembers the vectors of recent texts."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memoryos_models.ports import Embedder, Vectors

_OVERHEAD_BYTES = 200  # dict entry, digest and array header, measured with sys.getsizeof


class CachedEmbedder:
    """Gives the inner embedder's vectors, computing each recent text once.

    Least recently used texts leave above `bytes_max`; 0 keeps nothing. Keys
    are BLAKE2b of the text under a key that lives and dies with the process:
    no text is kept. Vectors are kept as fp16, which loses nothing.
    """

    def __init__(self, inner: Embedder, bytes_max: int) -> None:
        self._inner = inner
        self._bytes_max = bytes_max
        self._bytes = 0
        self._key = secrets.token_bytes(32)
        self._rows: OrderedDict[bytes, NDArray[np.float16]] = OrderedDict()

    @property
    def model_id(self) -> str:
        """See `Embedder.model_id`."""
        return self._inner.model_id

    @property
    def dimensions(self) -> int:
        """See `Embedder.dimensions`."""
        return self._inner.dimensions

    @property
    def size_bytes(self) -> int:
        """Memory accounted for now."""
        return self._bytes

    async def embed(self, texts: Sequence[str], *, deadline_s: float) -> Vectors:
        """See `Embedder.embed`; equal texts of one call are computed once."""
        out = np.empty((len(texts), self.dimensions), dtype=np.float32)
        missing: dict[bytes, list[int]] = {}
        for position, text in enumerate(texts):
            digest = self._digest(text)
            row = self._rows.get(digest)
            if row is None:
                missing.setdefault(digest, []).append(position)
            else:
                self._rows.move_to_end(digest)
                out[position] = row
        if missing:
            fresh = await self._inner.embed([texts[where[0]] for where in missing.values()], deadline_s=deadline_s)
            for (digest, where), vector in zip(missing.items(), fresh, strict=True):
                self._keep(digest, vector)
                out[where] = vector
        return out

    async def close(self) -> None:
        """See `Embedder.close`; forgets every vector."""
        self._rows.clear()
        self._bytes = 0
        await self._inner.close()

    def _digest(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16).digest()

    def _keep(self, digest: bytes, vector: Vectors) -> None:
        row = vector.astype(np.float16)
        size = row.nbytes + _OVERHEAD_BYTES
        if size > self._bytes_max or digest in self._rows:
            return
        self._rows[digest] = row
        self._bytes += size
        while self._bytes > self._bytes_max:
            _, old = self._rows.popitem(last=False)
            self._bytes -= old.nbytes + _OVERHEAD_BYTES
