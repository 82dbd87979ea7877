"""How well skills fit what somebody wants to do: words (BM25) and meaning (vectors) together.

Of the skill itself and, with less weight, of the system that it belongs to. All
are standardised over the skills that the caller may see, so neither a score nor
its scale tells of any other. Of a request with several needs, a skill brings
less for a need that a better one serves already (xQuAD), so that each need has
its skill among the first. The weights are measured (docs/reference/skills.md).
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

from memoryos_toolgateway.domain.skill_words import asked_words, parameter_texts, spoken, words

K1: Final = 2.0
B: Final = 0.8
MEANING_WEIGHT: Final = 0.8
SYSTEM_WORDS_WEIGHT: Final = 0.3
SYSTEM_MEANING_WEIGHT: Final = 0.4
NEEDS_WEIGHT: Final = 0.5
NEED_WIDTH: Final = 1.5
_CANDIDATES: Final = 60
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
    system: str = ""

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
    """A request: as a whole, and need by need where it has several."""

    texts: tuple[str, ...]
    """The whole, then its needs."""
    vectors: Vectors | None
    """One row per text; None where meaning cannot be compared."""


@dataclass(frozen=True, slots=True)
class Meanings:
    """Vectors of skills and of their systems, one row per skill; zeros where a skill has no system."""

    skills: Vectors
    systems: Vectors


class SkillIndex:
    """The words of skills and of their systems, by position."""

    def __init__(self, skills: Sequence[Findable]) -> None:
        self._size = len(skills)
        self._own = _Words([skill.words() for skill in skills])
        self._system = _Words([words(skill.system) for skill in skills])

    def search(self, query: Query, meanings: Meanings | None, shown: Shown, top_k: int) -> list[tuple[int, float]]:
        """Give (position, score 0..1) of the best of the skills that are shown, best first.

        Without vectors of skills or query, words alone decide and only skills
        that share one are given.
        """
        if not shown.any():
            return []
        fits: list[Scores] = []
        met = np.zeros(self._size, dtype=np.bool_)
        for at, text in enumerate(query.texts):
            asked = asked_words(text)
            own, system = self._own.scores(asked, shown), self._system.scores(asked, shown)
            met |= (own > 0) | (system > 0)
            fit = _standard(own, shown) + SYSTEM_WORDS_WEIGHT * _standard(system, shown)
            if query.vectors is not None and meanings is not None:
                met[:] = True
                fit += MEANING_WEIGHT * _standard(_near(meanings.skills, query.vectors[at]), shown)
                fit += SYSTEM_MEANING_WEIGHT * _standard(_near(meanings.systems, query.vectors[at]), shown)
            fits.append(fit)
        allowed = np.flatnonzero(shown & met)
        if not allowed.size:
            return []
        matrix = np.array(fits)[:, allowed]
        least = 1.0
        found: list[tuple[int, float]] = []
        for chosen in _each_need_served(matrix, top_k):
            # A need's best may fit the whole less than what follows: scores never rise down the list.
            least = min(least, _score(float(matrix[:, chosen].max())))
            found.append((int(allowed[chosen]), least))
        return found


class _Words:
    """BM25 over one text per skill."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self._size = len(texts)
        self._lengths = np.array([len(text) for text in texts], dtype=np.float64)
        postings: dict[str, list[tuple[int, int]]] = {}
        for position, text in enumerate(texts):
            for word, often in Counter(text).items():
                postings.setdefault(word, []).append((position, often))
        self._postings = {word: np.array(rows, dtype=np.int64).T for word, rows in postings.items()}

    def scores(self, asked: Sequence[str], shown: Shown) -> Scores:
        count = int(shown.sum())
        average = max(float(self._lengths[shown].mean()), 1.0)
        scores: Scores = np.zeros(self._size, dtype=np.float64)
        for word in asked:
            rows = self._postings.get(word)
            if rows is None:
                continue
            positions, often = rows
            having = int(shown[positions].sum())
            rarity = math.log(1 + (count - having + 0.5) / (having + 0.5))
            length = 1 - B + B * self._lengths[positions] / average
            scores[positions] += rarity * often * (K1 + 1) / (often + K1 * length)
        return scores


def _each_need_served(fits: Scores, top_k: int) -> list[int]:
    """Give columns, best first: by the whole (row 0) and by the needs (other rows) that no earlier one serves."""
    whole = fits[0]
    if len(fits) == 1:
        return [int(at) for at in np.argsort(-whole, kind="stable")[:top_k]]
    pool = max(_CANDIDATES, top_k)
    firsts = [np.argsort(-row, kind="stable")[:pool] for row in fits]
    candidates = np.unique(np.concatenate(firsts))
    serves = np.exp((fits[:, candidates] - fits.max(axis=1, keepdims=True)) / NEED_WIDTH)
    unserved = np.full(len(fits) - 1, NEEDS_WEIGHT / (len(fits) - 1))
    gain = (1 - NEEDS_WEIGHT) * serves[0]
    chosen: list[int] = []
    for _ in range(min(top_k, len(candidates))):
        # The first is the whole's best: what a request implies never comes before what it says.
        value = gain + unserved @ serves[1:] if chosen else serves[0].copy()
        value[chosen] = -np.inf
        best = int(value.argmax())
        chosen.append(best)
        unserved = unserved * (1 - serves[1:, best])
    return [int(candidates[at]) for at in chosen]


def _near(vectors: Vectors, row: NDArray[np.float32]) -> Scores:
    return np.asarray(vectors @ row, dtype=np.float64)


def _standard(scores: Scores, shown: Shown) -> Scores:
    """Give the scores in standard deviations from the mean of what is shown."""
    seen = scores[shown]
    spread = float(seen.std())
    if spread < _LEAST:
        return np.zeros_like(scores)
    return np.asarray((scores - float(seen.mean())) / spread, dtype=np.float64)


def _score(fused: float) -> float:
    return 1 / (1 + math.exp(-(fused - _SCORE_MIDDLE) / _SCORE_WIDTH))
