"""What every `VectorIndex` must do: subclass and give `index` over `MODELS`. The first test is the score test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memoryos_vectors.adapters.memory import InMemoryVectorIndex
from memoryos_vectors.errors import EmbeddingMismatch, VectorNotUnit
from memoryos_vectors.models import IndexedModels
from memoryos_vectors.ports import (
    Exactness,
    IndexScope,
    Tier,
    Vector,
    VectorAnswer,
    VectorEntry,
    VectorIndex,
    VectorQuery,
)

MODEL, TWIN, SHORT = "tiny-8", "twin-8", "tiny-4"
"""Two models of one length, and one of another."""
MODELS = IndexedModels({MODEL: 8, TWIN: 8, SHORT: 4})
TENANT = "acme"
A, B, EVERYONE = 1, 2, 3
PLACE, ELSEWHERE = 10, 11
NEAR_TIE = 1e-3


def unit(*numbers: float) -> Vector:
    """Give numbers as a unit row that fp16 holds."""
    row = np.asarray(numbers, dtype=np.float64)
    rounded: Vector = (row / np.linalg.norm(row)).astype(np.float16).astype(np.float32)
    return rounded


def random_unit(rng: np.random.Generator, dimensions: int = 8) -> Vector:
    """Give a random direction."""
    return unit(*rng.standard_normal(dimensions))


def entry(
    item_id: str,
    vector: Vector,
    *,
    acl: tuple[int, ...] = (A,),
    path_id: int = PLACE,
    revision: int = 1,
    tier: Tier = Tier.HOT,
) -> VectorEntry:
    """Give an entry, of reader A at PLACE unless said otherwise."""
    return VectorEntry(item_id=item_id, revision=revision, path_id=path_id, acl=acl, vector=vector, tier=tier)


async def ask(
    index: VectorIndex,
    vector: Vector,
    *,
    tenant: str = TENANT,
    readers: Sequence[int] = (A,),
    limit: int = 10,
    model_id: str = MODEL,
    path_ids: Sequence[int] | None = None,
    allowed_ids: Sequence[str] | None = None,
    excluded_ids: Sequence[str] = (),
    include_cold: bool = False,
    score_ids: tuple[str, ...] = (),
) -> VectorAnswer:
    """Search as reader A of acme unless said otherwise."""
    return await index.search(
        IndexScope(tenant=tenant, principal_ids=frozenset(readers)),
        VectorQuery(
            model_id=model_id,
            vector=vector,
            limit=limit,
            path_ids=None if path_ids is None else frozenset(path_ids),
            allowed_ids=None if allowed_ids is None else frozenset(allowed_ids),
            excluded_ids=frozenset(excluded_ids),
            include_cold=include_cold,
            score_ids=score_ids,
        ),
    )


def ids(answer: VectorAnswer) -> list[str]:
    """Give the ids found, best first."""
    return [hit.item_id for hit in answer.hits]


X, Y, DIAGONAL, MINUS_X = unit(1, *[0] * 7), unit(0, 1, *[0] * 6), unit(1, 1, *[0] * 6), unit(-1, *[0] * 7)


class VectorIndexContract:
    """The contract; `index` comes from the subclass and starts empty."""

    @pytest.fixture
    def index(self) -> VectorIndex:
        """Give the adapter under test, over `MODELS`."""
        pytest.fail("the subclass gives the adapter under test")

    async def test_score_is_cosine_similarity_higher_is_better(self, index: VectorIndex) -> None:
        entries = [entry("same", X), entry("near", DIAGONAL), entry("across", Y), entry("opposite", MINUS_X)]
        await index.upsert(TENANT, MODEL, entries)
        answer = await ask(index, X)
        assert ids(answer) == ["same", "near", "across", "opposite"]
        scores = [hit.score for hit in answer.hits]
        assert scores == pytest.approx([1.0, np.sqrt(0.5), 0.0, -1.0], abs=NEAR_TIE)
        assert all(-1.0 <= score <= 1.0 for score in scores)
        assert answer.compared_count == 4
        assert answer.exactness is Exactness.EXACT

    async def test_few_readable_among_many_are_all_found(self, index: VectorIndex) -> None:
        rng = np.random.default_rng(7)
        foreign = [entry(f"b{i:05}", unit(1, *rng.normal(0, 0.01, 7)), acl=(B,)) for i in range(10_000)]
        await index.upsert(TENANT, MODEL, foreign, fresh=True)
        await index.upsert(TENANT, MODEL, [entry(f"a{i}", random_unit(rng)) for i in range(5)], fresh=True)
        assert sorted(ids(await ask(index, X, limit=5))) == [f"a{i}" for i in range(5)]
        assert (await ask(index, X, limit=5)).compared_count == 5
        assert len(ids(await ask(index, X, limit=50, readers=(B,)))) == 50

    async def test_nobody_sees_nothing(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry("a", X)])
        answer = await ask(index, X, readers=(), score_ids=("a",))
        assert (answer.hits, answer.scores, answer.compared_count) == ((), {}, 0)

    async def test_any_of_the_readers_principals_suffices(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry("shared", X, acl=(B, EVERYONE)), entry("private", X, acl=(B,))])
        assert ids(await ask(index, X, readers=(A, EVERYONE))) == ["shared"]

    async def test_tenants_never_meet(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry("mine", X)])
        await index.upsert("acme-corp", MODEL, [entry("theirs", X), entry("mine", MINUS_X)])
        assert ids(await ask(index, X)) == ["mine"]
        assert ids(await ask(index, X, tenant="acme-corp")) == ["theirs", "mine"]
        assert await index.delete("acme-corp", ["mine"]) == 1
        assert ids(await ask(index, X)) == ["mine"]
        assert ids(await ask(index, X, tenant="acm_")) == []
        assert set(await index.vectors("acme-corp", MODEL, ["mine", "theirs"])) == {"theirs"}

    async def test_conditions_all_hold(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry("here", X), entry("there", X, path_id=ELSEWHERE), entry("b", X)])
        assert ids(await ask(index, X, path_ids=[ELSEWHERE])) == ["there"]
        assert ids(await ask(index, X, path_ids=[])) == []
        assert ids(await ask(index, X, allowed_ids=["b", "there", "nowhere"])) == ["b", "there"]
        assert ids(await ask(index, X, allowed_ids=[])) == []
        assert ids(await ask(index, X, path_ids=[PLACE], allowed_ids=["b", "there"])) == ["b"]
        assert ids(await ask(index, X, excluded_ids=["b"])) == ["here", "there"]
        answer = await ask(index, X, limit=1, excluded_ids=["b"], score_ids=("b", "there"))
        assert (ids(answer), set(answer.scores), answer.compared_count) == (["here"], {"there"}, 2)

    async def test_equal_scores_go_by_id(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry(name, Y) for name in ("c", "a", "d", "b")])
        assert ids(await ask(index, Y, limit=3)) == ["a", "b", "c"]

    async def test_scores_of_asked_ids_come_beside_the_best(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry("best", X), entry("far", MINUS_X), entry("foreign", X, acl=(B,))])
        answer = await ask(index, X, limit=1, score_ids=("far", "best", "foreign", "unknown"))
        assert ids(answer) == ["best"]
        assert dict(answer.scores) == {"far": pytest.approx(-1.0), "best": pytest.approx(1.0)}

    async def test_cold_entries_are_found_on_request_only(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry("hot", X), entry("cold", X, tier=Tier.COLD)])
        assert ids(await ask(index, X)) == ["hot"]
        assert ids(await ask(index, X, include_cold=True)) == ["cold", "hot"]

    async def test_a_revision_replaces_the_one_before(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry("a", X), entry("b", Y)])
        await index.upsert(TENANT, MODEL, [entry("a", MINUS_X, revision=2, acl=(B,), path_id=ELSEWHERE)])
        assert ids(await ask(index, X)) == ["b"]
        answer = await ask(index, MINUS_X, readers=(B,))
        assert [(hit.item_id, hit.revision, round(hit.score, 3)) for hit in answer.hits] == [("a", 2, 1.0)]

    async def test_a_late_older_revision_changes_nothing(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry("a", Y, revision=3)])
        await index.upsert(TENANT, MODEL, [entry("a", X, revision=2)])
        answer = await ask(index, Y)
        assert [(hit.revision, round(hit.score, 3)) for hit in answer.hits] == [(3, 1.0)]

    async def test_repeating_an_upsert_changes_nothing_more(self, index: VectorIndex) -> None:
        for _ in range(2):
            await index.upsert(TENANT, MODEL, [entry("a", X), entry("a", Y)])
        answer = await ask(index, Y)
        assert [(hit.item_id, round(hit.score, 3)) for hit in answer.hits] == [("a", 1.0)]
        await index.upsert(TENANT, MODEL, [])

    async def test_delete_removes_all_models_and_counts(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry("a", X), entry("b", X)])
        await index.upsert(TENANT, TWIN, [entry("a", X)])
        assert await index.delete(TENANT, ["a", "a", "unknown"]) == 2
        assert await index.delete(TENANT, ["a"]) == 0
        assert await index.delete(TENANT, []) == 0
        assert ids(await ask(index, X)) == ["b"]
        assert ids(await ask(index, X, model_id=TWIN)) == []

    async def test_models_of_one_length_are_never_mixed(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry("a", X)])
        await index.upsert(TENANT, TWIN, [entry("b", X), entry("a", Y)])
        assert ids(await ask(index, X)) == ["a"]
        assert ids(await ask(index, X, model_id=TWIN)) == ["b", "a"]

    async def test_another_length_or_model_is_refused_and_nothing_is_kept(self, index: VectorIndex) -> None:
        await index.upsert(TENANT, MODEL, [entry("a", X)])
        with pytest.raises(EmbeddingMismatch):
            await index.upsert(TENANT, MODEL, [entry("b", X), entry("c", unit(1, 0, 0, 0))])
        with pytest.raises(EmbeddingMismatch):
            await index.upsert(TENANT, "unknown", [entry("b", X)])
        with pytest.raises(EmbeddingMismatch):
            await ask(index, unit(1, 0, 0, 0))
        with pytest.raises(EmbeddingMismatch):
            await ask(index, X, model_id="unknown")
        assert ids(await ask(index, X)) == ["a"]
        assert ids(await ask(index, unit(1, 0, 0, 0), model_id=SHORT)) == []

    async def test_a_vector_that_is_not_unit_is_refused(self, index: VectorIndex) -> None:
        for bad in (X * 2, X * 0, np.full_like(X, np.nan), np.full_like(X, np.inf)):
            with pytest.raises(VectorNotUnit):
                await index.upsert(TENANT, MODEL, [entry("a", bad)])
            with pytest.raises(VectorNotUnit):
                await ask(index, bad)

    async def test_kept_vectors_come_back_bit_by_bit(self, index: VectorIndex) -> None:
        rng = np.random.default_rng(3)
        rows = {f"i{n}": random_unit(rng) for n in range(20)}
        await index.upsert(TENANT, MODEL, [entry(name, row) for name, row in rows.items()], fresh=True)
        kept = await index.vectors(TENANT, MODEL, [*rows, "unknown"])
        assert set(kept) == set(rows)
        assert all(np.array_equal(kept[name], row) for name, row in rows.items())

    async def test_hostile_ids_are_only_ids(self, index: VectorIndex) -> None:
        names = ["a'; DROP TABLE x; --", 'b"{},\\', "c\td\ne", "日本 😀", "%_"]
        await index.upsert(TENANT, MODEL, [entry(name, X) for name in names])
        assert sorted(ids(await ask(index, X, allowed_ids=names))) == sorted(names)
        assert await index.delete(TENANT, names) == len(names)

    def test_any_corpus_is_answered_as_by_the_oracle(self, loop_index: tuple[asyncio.Runner, VectorIndex]) -> None:
        """Hypothesis drives a loop of its own; adapters give `loop_index` for it."""
        runner, index = loop_index
        numbers = iter(range(1_000_000))

        @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
        @given(corpora(), queries())
        def parity(corpus: list[VectorEntry], query: tuple[tuple[int, ...], VectorQuery]) -> None:
            readers, asked = query
            tenant = f"t{next(numbers)}"
            runner.run(
                _same_answer(index, tenant, corpus, IndexScope(tenant=tenant, principal_ids=frozenset(readers)), asked)
            )

        parity()


async def _same_answer(
    index: VectorIndex, tenant: str, corpus: list[VectorEntry], scope: IndexScope, asked: VectorQuery
) -> None:
    oracle = InMemoryVectorIndex(MODELS)
    for each in (oracle, index):
        await each.upsert(tenant, MODEL, corpus)
    expected, got = await oracle.search(scope, asked), await index.search(scope, asked)
    if got.exactness is Exactness.EXACT:
        assert got.compared_count == expected.compared_count
    else:
        assert len(got.hits) < got.compared_count <= expected.compared_count
    assert [hit.score for hit in got.hits] == pytest.approx([hit.score for hit in expected.hits], abs=NEAR_TIE)
    assert dict(got.scores) == pytest.approx(dict(expected.scores), abs=NEAR_TIE)
    # Ids agree but for near ties, which may change places or leave at the end of the list.
    edge = expected.hits[-1].score + NEAR_TIE if expected.hits else 0.0
    sure = {hit.item_id for hit in expected.hits if hit.score > edge}
    if expected.compared_count <= asked.limit:
        sure = {hit.item_id for hit in expected.hits}
    assert sure <= set(ids(got))


_VECTORS = st.integers(0, 2**32 - 1).map(lambda seed: random_unit(np.random.default_rng(seed)))
_NAMES = st.sampled_from([f"i{n}" for n in range(12)])


def corpora() -> st.SearchStrategy[list[VectorEntry]]:
    """Corpora with repeated ids, several revisions, places, readers and tiers."""
    return st.lists(
        st.builds(
            VectorEntry,
            item_id=_NAMES,
            revision=st.integers(1, 3),
            path_id=st.sampled_from([PLACE, ELSEWHERE]),
            acl=st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True).map(tuple),
            vector=_VECTORS,
            tier=st.sampled_from(Tier),
        ),
        max_size=30,
    )


def queries() -> st.SearchStrategy[tuple[tuple[int, ...], VectorQuery]]:
    """Readers and a query with any of the conditions."""
    return st.tuples(
        st.lists(st.integers(1, 4), max_size=3, unique=True).map(tuple),
        st.builds(
            VectorQuery,
            model_id=st.just(MODEL),
            vector=_VECTORS,
            limit=st.integers(1, 12),
            path_ids=st.none() | st.frozensets(st.sampled_from([PLACE, ELSEWHERE])),
            allowed_ids=st.none() | st.frozensets(_NAMES, max_size=6),
            excluded_ids=st.frozensets(_NAMES, max_size=3),
            include_cold=st.booleans(),
            score_ids=st.lists(_NAMES, max_size=4, unique=True).map(tuple),
        ),
    )
