"""How well skills fit what somebody wants to do: words (BM25) and meaning (vectors) together.

Both are standardised over the skills that the caller may see, so neither a
score nor its scale tells of any other. Of a request in several steps, the step
that a skill fits best counts beside the whole. The weights are measured
(docs/reference/skills.md).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memoryos_toolgateway.domain.skill_words import parameter_texts, spoken, words

K1: Final = 1.6
B: Final = 0.8
MEANING_WEIGHT: Final = 0.8
STEP_WEIGHT: Final = 0.3
MEANING_CHARS_MAX: Final = 600
_SCORE_MIDDLE: Final = 4.0
_SCORE_WIDTH: Final = 1.5
_LEAST: Final = 1e-9

Scores = NDArray[np.float64]
Shown = NDArray[np.bool_]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Findable:
    """What is searched of one skill."""

    name: str
    description: str
    parameters_json: bytes

    @property
    def meaning_text(self) -> str:
        """The text whose vector stands for the skill."""
        return f"{spoken(self.name)}. {self.description[:MEANING_CHARS_MAX]}"

    def words(self) -> list[str]:
        """Give the words that it is found by."""
        parameters: Any = json.loads(self.parameters_json)
        return words(" \n".join([self.name, self.description, *parameter_texts(parameters)]))


@dataclass(frozen=True, slots=True)
class Query:
    """A request: as a whole, and step by step where it has several."""

    texts: tuple[str, ...]
    """The whole, then its steps."""
    vectors: Vectors | None
    """One row per text; None where meaning cannot be compared."""


class SkillIndex:
    """The words of skills, by position."""

    def __init__(self, skills: Sequence[Findable]) -> None:
        counts = [Counter(skill.words()) for skill in skills]
        self._size = len(skills)
        self._lengths = np.array([sum(count.values()) for count in counts], dtype=np.float64)
        postings: dict[str, list[tuple[int, int]]] = {}
        for position, count in enumerate(counts):
            for word, often in count.items():
                postings.setdefault(word, []).append((position, often))
        self._postings = {word: np.array(rows, dtype=np.int64).T for word, rows in postings.items()}

    def search(self, query: Query, vectors: Vectors | None, shown: Shown, top_k: int) -> list[tuple[int, float]]:
        """Give (position, score 0..1) of the best of the skills that are shown, best first.

        Without vectors of skills or query, words alone decide and only skills
        that share one are given.
        """
        if not shown.any():
            return []
        by_words = [self._by_words(text, shown) for text in query.texts]
        met = np.any([scores > 0 for scores in by_words], axis=0)
        standard = [_standard(scores, shown) for scores in by_words]
        if query.vectors is not None and vectors is not None:
            for at, row in enumerate(query.vectors):
                standard[at] = standard[at] + MEANING_WEIGHT * _standard((vectors @ row).astype(np.float64), shown)
            met = np.ones(self._size, dtype=np.bool_)
        fused = standard[0]
        if len(standard) > 1:
            fused = fused + STEP_WEIGHT * np.max(standard[1:], axis=0)
        fused = np.where(shown & met, fused, -np.inf)
        best = np.argsort(-fused, kind="stable")[:top_k]
        return [(int(at), _score(float(fused[at]))) for at in best if math.isfinite(fused[at])]

    def _by_words(self, text: str, shown: Shown) -> Scores:
        count = int(shown.sum())
        average = max(float(self._lengths[shown].mean()), 1.0)
        scores: Scores = np.zeros(self._size, dtype=np.float64)
        for word in set(words(text)):
            rows = self._postings.get(word)
            if rows is None:
                continue
            positions, often = rows
            having = int(shown[positions].sum())
            rarity = math.log(1 + (count - having + 0.5) / (having + 0.5))
            length = 1 - B + B * self._lengths[positions] / average
            scores[positions] += rarity * often * (K1 + 1) / (often + K1 * length)
        return scores


def _standard(scores: Scores, shown: Shown) -> Scores:
    """Give the scores in standard deviations from the mean of what is shown."""
    seen = scores[shown]
    spread = float(seen.std())
    if spread < _LEAST:
        return np.zeros_like(scores)
    return np.asarray((scores - float(seen.mean())) / spread, dtype=np.float64)


def _score(fused: float) -> float:
    return 1 / (1 + math.exp(-(fused - _SCORE_MIDDLE) / _SCORE_WIDTH))
