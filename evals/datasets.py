"""Data sets of recall: turns.jsonl and questions.jsonl, plain or gzipped, in one folder."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Turn:
    """Something said, to be remembered."""

    tenant: str
    user: str
    session: str
    id: str
    time: str | None
    speaker: str
    text: str


@dataclass(frozen=True)
class Question:
    """Something asked, with the turns or sessions that answer it."""

    id: str
    tenant: str
    text: str
    """With its conversation before it, where the set has one."""
    evidence: tuple[str, ...]
    evidence_sessions: tuple[str, ...]
    category: str
    answerable: bool


@dataclass(frozen=True)
class DataSet:
    """One set, read whole."""

    name: str
    sha256: str
    """Of both files, uncompressed, turns first."""
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    def turns_by_tenant(self) -> dict[str, list[Turn]]:
        """Give the turns of each tenant, in order."""
        found: dict[str, list[Turn]] = defaultdict(list)
        for turn in self.turns:
            found[turn.tenant].append(turn)
        return found


def load(folder: Path) -> DataSet:
    """Give the set in `folder`; FileNotFoundError when it holds none."""
    raw = [_read(folder / name) for name in ("turns.jsonl", "questions.jsonl")]
    turns, questions = ([json.loads(line) for line in text.splitlines() if line.strip()] for text in raw)
    return DataSet(
        name=folder.resolve().name,
        sha256=hashlib.sha256(b"".join(raw)).hexdigest(),
        turns=tuple(
            Turn(t["tenant"], t["user"], t["session"], t["turn_id"], t["time"], t["speaker"], t["text"]) for t in turns
        ),
        questions=tuple(_question(entry) for entry in questions),
    )


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else gzip.decompress(path.with_name(path.name + ".gz").read_bytes())


def _question(entry: dict[str, Any]) -> Question:
    return Question(
        id=entry["qid"],
        tenant=entry["tenant"],
        text="\n".join(entry.get("context") or [entry["question"]]),
        evidence=tuple(entry["evidence"]),
        evidence_sessions=tuple(entry["evidence_sessions"]),
        category=entry["category"],
        answerable=entry["answerable"],
    )
