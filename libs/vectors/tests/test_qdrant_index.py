"""The Qdrant index under the contract: in local mode, and on a real server where QDRANT_URL names one."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterator

import numpy as np
import pytest
from memoryos_testing.contracts.vector_index import MODEL, MODELS, TENANT, VectorIndexContract, X, ask, entry, ids
from memoryos_vectors.adapters.qdrant import QdrantVectorIndex, connect
from memoryos_vectors.errors import IndexAbsent, IndexUnavailable
from memoryos_vectors.ports import Exactness, VectorIndex

QDRANT_URL = os.environ.get("QDRANT_URL", "")
needs_server = pytest.mark.skipif(not QDRANT_URL, reason="QDRANT_URL names no server, e.g. http://127.0.0.1:6334")


async def _fresh(url: str) -> QdrantVectorIndex:
    index = connect(url, MODELS, prefix=f"test-{uuid.uuid4().hex}", timeout_s=20)
    await index.create()
    return index


async def _drop(index: QdrantVectorIndex) -> None:
    for name in index._names.values():
        await index._client.delete_collection(name)
    await index.close()


class _OnQdrant(VectorIndexContract):
    url = ""

    @pytest.fixture
    async def index(self) -> AsyncIterator[VectorIndex]:
        index = await _fresh(self.url)
        yield index
        await _drop(index)

    @pytest.fixture
    def loop_index(self) -> Iterator[tuple[asyncio.Runner, VectorIndex]]:
        with asyncio.Runner() as runner:
            index = runner.run(_fresh(self.url))
            yield runner, index
            runner.run(_drop(index))


class TestQdrantLocally(_OnQdrant):
    url = ":memory:"


@needs_server
class TestQdrantServer(_OnQdrant):
    url = QDRANT_URL


URLS = [":memory:", pytest.param(QDRANT_URL, marks=needs_server)]


@pytest.fixture(params=URLS, ids=["local", "server"])
async def index(request: pytest.FixtureRequest) -> AsyncIterator[QdrantVectorIndex]:
    index = await _fresh(request.param)
    yield index
    await _drop(index)


async def test_many_equal_scores_are_cut_by_id(index: QdrantVectorIndex) -> None:
    await index.upsert(TENANT, MODEL, [entry(f"i{n:03}", X) for n in reversed(range(300))], fresh=True)
    assert ids(await ask(index, X, limit=5)) == [f"i{n:03}" for n in range(5)]


async def test_excluded_ids_leave_no_gap(index: QdrantVectorIndex) -> None:
    await index.upsert(TENANT, MODEL, [entry(f"i{n}", X) for n in range(9)])
    answer = await ask(index, X, limit=5, excluded_ids=("i0", "i2"))
    assert ids(answer) == ["i1", "i3", "i4", "i5", "i6"]
    assert answer.compared_count == 7


async def test_what_is_kept_is_listed_by_tenant(index: QdrantVectorIndex) -> None:
    await index.upsert(TENANT, MODEL, [entry(f"i{n}", X, revision=n + 1, acl=(1, 7)) for n in range(25)])
    await index.upsert("other", MODEL, [entry("i0", X)])
    found, position = [], ""
    while True:
        page = await index.scan(TENANT, MODEL, position=position, limit=10)
        found += page.entries
        position = page.next_position
        if not position:
            break
    assert sorted((kept.item_id, kept.revision, kept.acl) for kept in found) == sorted(
        (f"i{n}", n + 1, (1, 7)) for n in range(25)
    )
    assert await index.counts(MODEL) == {TENANT: 25, "other": 1}


async def test_replace_keeps_and_removes(index: QdrantVectorIndex) -> None:
    await index.upsert(TENANT, MODEL, [entry("old", X), entry("kept", X)])
    await index.replace(TENANT, MODEL, [entry("new", X)], ["old", "unknown"])
    assert ids(await ask(index, X)) == ["kept", "new"]
    kept = (await index.kept(TENANT, MODEL, ["new", "old"]))["new"]
    assert kept.vector is not None
    assert np.array_equal(kept.vector, X)


async def test_a_lost_collection_is_no_empty_answer() -> None:
    index = connect(":memory:", MODELS)
    assert not await index.exists()
    with pytest.raises(IndexAbsent):
        await ask(index, X)
    await index.create()
    await index.create()
    assert await index.exists()


@needs_server
async def test_a_lost_collection_of_a_server_is_no_empty_answer() -> None:
    index = connect(QDRANT_URL, MODELS, prefix=f"test-{uuid.uuid4().hex}")
    with pytest.raises(IndexAbsent):
        await ask(index, X)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    index = connect("http://127.0.0.1:9", MODELS, timeout_s=1)
    with pytest.raises(IndexUnavailable):
        await ask(index, X)
    await index.close()


@needs_server
async def test_above_the_exact_bound_the_answer_says_so() -> None:
    index = await _fresh(QDRANT_URL)
    index._exact_max = 100
    await index.upsert(TENANT, MODEL, [entry(f"i{n}", X) for n in range(300)], fresh=True)
    answer = await ask(index, X, limit=7)
    assert (len(answer.hits), answer.exactness) == (7, Exactness.APPROXIMATE)
    await _drop(index)


@needs_server
async def test_processes_that_start_at_once_make_one_copy() -> None:
    prefix = f"test-{uuid.uuid4().hex}"
    processes = [connect(QDRANT_URL, MODELS, prefix=prefix, timeout_s=20) for _ in range(4)]
    try:
        await asyncio.gather(*(index.create() for index in processes))
        assert await processes[0].exists()
    finally:
        await processes[0].drop()
        for index in processes:
            await index.close()
