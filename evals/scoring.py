"""Recall at 5 and 10, without any model: did the evidence come back, and only from the right tenant?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.datasets import DataSet

KS = (5, 10)
ALL = "ALL"


@dataclass(frozen=True)
class Recall:
    """Mean recall of one category at one level."""

    level: str
    """turn: the turns that hold the answer; session: the sessions that do."""
    category: str
    count: int
    at: Mapping[int, float]


@dataclass(frozen=True)
class Score:
    """The score of one run."""

    recalls: tuple[Recall, ...]
    """ALL first, then by category, turns before sessions."""
    foreign_count: int
    """Ids that are not the asking tenant's. Must be 0."""
    missing_count: int
    """Questions without a run."""

    def overall(self) -> Recall:
        """Give the mean over all questions, by turn where the set labels turns."""
        return next(recall for recall in self.recalls if recall.category == ALL)


def score(data: DataSet, run: Mapping[str, Sequence[str]]) -> Score:
    """Give the score of `run`: question id → turn ids, best first, at least 10 where there are as many."""
    own: dict[str, set[str]] = defaultdict(set)
    session_of = {}
    for turn in data.turns:
        own[turn.tenant].add(turn.id)
        session_of[turn.tenant, turn.id] = turn.session
    sums: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: dict.fromkeys(KS, 0.0))
    counts: dict[tuple[str, str], int] = defaultdict(int)
    foreign = missing = 0
    for question in data.questions:
        ranked = run.get(question.id)
        missing += ranked is None
        turns = list(ranked or ())
        foreign += sum(turn not in own[question.tenant] for turn in turns)
        if not question.answerable:
            continue
        sessions = list(dict.fromkeys(session_of.get((question.tenant, turn), "") for turn in turns))
        levels = (("turn", question.evidence, turns), ("session", question.evidence_sessions, sessions))
        for level, gold, got in levels:
            for category in (ALL, question.category) if gold else ():
                counts[level, category] += 1
                for k in KS:
                    sums[level, category][k] += len(set(gold) & set(got[:k])) / len(set(gold))
    order = sorted(counts, key=lambda key: (key[0] != "turn", key[1] != ALL, key[1]))
    recalls = tuple(
        Recall(
            level,
            category,
            counts[level, category],
            {k: sums[level, category][k] / counts[level, category] for k in KS},
        )
        for level, category in order
    )
    return Score(recalls, foreign, missing)
