"""The reranker's step of Read, against a real HTTP endpoint: what it sees, what it changes, and how it fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from memoryos.memoryfs.v1 import memoryfs_pb2 as pb
from memoryos_models.scripted import ScriptedServer

SKIPPED = pb.DEGRADATION_RERANK_SKIPPED


class Judge:
    """Scores by length, longest best, and remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[str]]] = []

    def __call__(self, query: str, texts: list[str]) -> list[float]:
        self.seen.append((query, texts))
        return [min(1.0, len(text) / 200) for text in texts]


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def endpoint(judge) -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda _: "", rerank=judge) as server:
        yield server


@pytest.fixture
async def judged(start_service, endpoint):
    """A service with a reranker that judges three texts."""
    return await start_service(
        models={
            "reranker": "openai",
            "reranker_url": endpoint.base_url,
            "reranker_model": "by-length",
            "reranker_texts_max": 3,
        }
    )


TEXTS = ["pump", "pump and a valve", "pump, a valve and a much longer story about both of them"]


async def test_the_best_hits_come_in_the_rerankers_order_with_its_score_beside_ours(judged, judge):
    alice = judged.caller("alice")
    ids = [await alice.write(text) for text in TEXTS]
    plain = {hit.item.id: hit.score for hit in (await alice.read("pump", rerank=False)).hits}
    assert not judge.seen
    response = await alice.read("pump")
    assert [hit.item.id for hit in response.hits] == ids[::-1]
    assert {hit.item.id: hit.score for hit in response.hits} == plain
    assert [hit.details.rerank for hit in response.hits] == pytest.approx([len(text) / 200 for text in TEXTS[::-1]])
    assert not response.degradations
    # It reorders more than are asked for, and only the best few.
    assert [hit.item.id for hit in (await alice.read("pump", top_k=1)).hits] == [ids[-1]]
    more = [await alice.write(f"something else entirely, number {n} " + "x" * 100) for n in range(3)]
    response = await alice.read("pump", top_k=6)
    assert [hit.item.id for hit in response.hits][:3] == ids[::-1]
    assert {hit.item.id for hit in response.hits[3:]} == set(more)
    assert not any(hit.details.HasField("rerank") for hit in response.hits[3:])


async def test_it_sees_only_texts_that_the_caller_may_read_and_that_pass_min_score(judged, judge):
    alice, bob = judged.caller("alice"), judged.caller("bob")
    await alice.write("the private pump")
    mine = await bob.write("pump of bob's own")
    await bob.write("nothing of the kind")
    response = await bob.read("pump", min_score=0.2)
    assert [hit.item.id for hit in response.hits] == [mine]
    assert judge.seen == [("pump", ["pump of bob's own"])]
    await bob.read()
    assert len(judge.seen) == 1  # without a query there is nothing to judge


@pytest.mark.parametrize("failure", ["gone", "nonsense", "late"])
async def test_without_its_answer_hits_keep_their_order_and_the_answer_says_so(start_service, endpoint, failure):
    if failure == "nonsense":
        endpoint.rerank = lambda query, texts: [2.0 for _ in texts][1:]
    if failure == "late":
        endpoint.rerank = lambda query, texts: (endpoint.stopping.wait(20) and []) or []
    url = "http://127.0.0.1:9/v1" if failure == "gone" else endpoint.base_url
    service = await start_service(
        models={"reranker": "openai", "reranker_url": url, "reranker_model": "m", "reranker_timeout_s": 0.5}
    )
    alice = service.caller("alice")
    ids = [await alice.write(text) for text in TEXTS]
    response = await alice.read("pump")
    assert [hit.item.id for hit in response.hits] == ids
    assert list(response.degradations) == [SKIPPED]
    assert not any(hit.details.HasField("rerank") for hit in response.hits)
    assert not (await alice.read("pump", rerank=False)).degradations


async def test_off_by_default_and_asking_for_it_says_that_there_is_none(alice):
    await alice.write("pump")
    assert not (await alice.read("pump")).degradations
    assert list((await alice.read("pump", rerank=True)).degradations) == [SKIPPED]
