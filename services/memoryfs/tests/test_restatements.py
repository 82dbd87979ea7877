"""Re-statements are told from look-alikes, with the vectors of the real embedder."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from memoryos_memoryfs.domain.restatements import Sameness, compare
from memoryos_models.build import build_embedder
from memoryos_models.config import ModelsSection
from memoryos_models.ports import Embedder

DATA = Path(__file__).parent / "data"


def pairs(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture
async def real_embedder() -> AsyncIterator[Embedder]:
    embedder = build_embedder(ModelsSection())
    yield embedder
    await embedder.close()


def measured(judged: list[tuple[dict, Sameness]]) -> tuple[float, float]:
    """Give precision and recall of SAME."""
    said = [pair for pair, verdict in judged if verdict is Sameness.SAME]
    true = sum(pair["same"] for pair in said)
    return true / max(len(said), 1), true / sum(pair["same"] for pair, _ in judged)


async def test_precision_and_recall_of_restatements(real_embedder, record_property):
    rows = pairs("restatements.jsonl")
    first = await real_embedder.embed([row["a"] for row in rows], deadline_s=60)
    second = await real_embedder.embed([row["b"] for row in rows], deadline_s=60)
    cosines = (first * second).sum(axis=1).tolist()
    judged = [(row, compare(row["a"], row["b"], cosine)) for row, cosine in zip(rows, cosines, strict=True)]
    for language in ("zh", "en"):
        own = [(row, verdict) for row, verdict in judged if row["language"] == language]
        assert len(own) >= 60
        assert sum(row["same"] for row, _ in own) * 2 == len(own)
        precision, recall = measured(own)
        record_property(f"{language}", f"precision {precision:.3f} recall {recall:.3f} of {len(own)} pairs")
        assert precision >= 0.95, language
        assert recall >= 0.6, language
    # Written before the words were chosen, and never looked at while they were.
    held_out = [(row, verdict) for row, verdict in judged if row["part"] == "held_out"]
    assert len(held_out) * 3 >= len(judged)
    precision, recall = measured(held_out)
    record_property("held_out", f"precision {precision:.3f} recall {recall:.3f} of {len(held_out)} pairs")
    assert precision >= 0.95
    assert recall >= 0.6


@pytest.mark.parametrize("pair", pairs("look_alikes.jsonl"), ids=lambda pair: pair["a"][:24])
def test_a_look_alike_is_never_the_same(pair):
    assert compare(pair["a"], pair["b"]) is not Sameness.SAME
    assert compare(pair["b"], pair["a"]) is not Sameness.SAME
    assert compare(pair["a"], pair["b"], 0.999) is not Sameness.SAME


def test_it_is_symmetric_and_a_text_is_itself():
    for row in pairs("restatements.jsonl"):
        assert compare(row["a"], row["b"]) is compare(row["b"], row["a"])
        assert compare(row["a"], row["a"]) is Sameness.SAME


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Lives in Rome.", "lives in  ROME"),
        ("ＷＲ－１０２４ 已到货", "WR-1024 已到货。"),
        ("e\u0301clair", "\u00e9clair"),
        ("我住在上海", "我住在\u200b上海"),
    ],
)
def test_width_case_and_the_full_stop_do_not_matter(a, b):
    assert compare(a, b) is Sameness.SAME


@pytest.mark.parametrize(("a", "b"), [("", "x"), ("?", "!"), ("\u0000", "\U0001f600"), ("5", "5.5"), ("C", "C++")])
def test_texts_with_hardly_a_word_are_not_mistaken(a, b):
    assert compare(a, b) is not Sameness.SAME


def test_far_vectors_are_doubt_and_long_texts_have_to_be_equal():
    assert compare("The user lives in Rome", "User resides in Rome", 0.2) is Sameness.DOUBT
    assert compare("a b " * 600, "b a " * 600) is Sameness.DOUBT
