"""One data set through a running MemoryFS: every turn written in order, every question asked as its own tenant."""

from __future__ import annotations

import asyncio
import hashlib
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from memoryos_core.principals import is_name
from memoryos_sdk import Client, connect
from memoryos_sdk.memory import MemoryFS
from memoryos_testing.stack import Stack

from evals.datasets import DataSet, Turn

BATCH: Final = 50
WRITERS: Final = 2
"""Calls in flight while writing: the local embedder takes a core each."""
TIMEOUT_S: Final = 120.0
PENDING_S: Final = 300.0
CALLER: Final = "owner"
CONTENT_BYTES_MAX, QUERY_BYTES_MAX = 100_000, 8_192
"""Limits of Write and Read; longer turns and questions are cut."""
TOP_K, TOP_K_SESSIONS = 10, 50
"""Hits asked for; more where only sessions are labelled, since one session takes many of them."""


@dataclass
class Run:
    """What came of a data set."""

    ranked: dict[str, list[str]] = field(default_factory=dict)
    """Question id → turn ids, best first. An item that is no turn of this set shows by its own id."""
    write_s: list[float] = field(default_factory=list)
    """Seconds of each Write of one batch."""
    read_s: list[float] = field(default_factory=list)
    ingest_s: float = 0.0
    """From the first Write to the last vector."""
    blank_count: int = 0
    """Turns without a word: nothing to remember, not written."""
    pending_count: int = 0
    """Items whose vector came after their Write."""
    inexact_count: int = 0
    """Reads that were not EXACT, or went without a part of recall."""


def top_k(data: DataSet) -> int:
    """Give the hits to ask for."""
    return TOP_K if any(question.evidence for question in data.questions) else TOP_K_SESSIONS


async def replay(stack: Stack, data: DataSet, say: Callable[[str], None]) -> Run:
    """Write all turns of `data`, wait for their vectors, ask all questions."""
    run = Run()
    turn_of: dict[str, str] = {}
    memoryfs = stack.addresses["memoryfs"]
    async with connect(token="", memoryfs=memoryfs, zone=UTC, timeout_s=TIMEOUT_S) as client:
        callers = {tenant: _caller(stack, client, tenant) for tenant in data.turns_by_tenant()}
        began = time.perf_counter()
        await _write_all(callers, data, run, turn_of)
        for tenant, memory in callers.items():
            await _wait_for_vectors(memory, tenant)
        run.ingest_s = time.perf_counter() - began
        blank = f" ({run.blank_count} without a word left out)" if run.blank_count else ""
        say(f"{data.name}: {len(turn_of)} turns of {len(callers)} tenants kept in {run.ingest_s:.1f} s{blank}")
        for question in data.questions:
            memory = callers.get(question.tenant) or _caller(stack, client, question.tenant)
            began = time.perf_counter()
            answer = await memory.read(_path(question.tenant), query=_asked(question.text), top_k=top_k(data))
            run.read_s.append(time.perf_counter() - began)
            run.inexact_count += answer.exactness != "exact" or bool(answer.degradations)
            run.ranked[question.id] = [turn_of.get(hit.item.id, hit.item.id) for hit in answer]
    return run


async def _write_all(callers: Mapping[str, MemoryFS], data: DataSet, run: Run, turn_of: dict[str, str]) -> None:
    slots = asyncio.Semaphore(WRITERS)

    async def write(tenant: str, turns: Sequence[Turn]) -> None:
        for batch in _batches(turns):
            async with slots:
                began = time.perf_counter()
                results = await callers[tenant].write_many(_path(tenant), [_entry(turn) for turn in batch])
                run.write_s.append(time.perf_counter() - began)
            for turn, result in zip(batch, results, strict=True):
                turn_of[result.id] = turn.id
                run.pending_count += result.embed_state != "done"

    async with asyncio.TaskGroup() as group:
        for tenant, turns in data.turns_by_tenant().items():
            spoken = [turn for turn in turns if _has_word(turn.text)]
            run.blank_count += len(turns) - len(spoken)
            for turns_of_some in _lanes(spoken):
                group.create_task(write(tenant, turns_of_some))


async def _wait_for_vectors(memory: MemoryFS, tenant: str) -> None:
    """Wait until no item of the tenant is found by words only."""
    async with asyncio.timeout(PENDING_S):
        while "pending_vectors" in (await memory.read(_path(tenant), query="vector", top_k=1)).degradations:  # noqa: ASYNC110 (another process embeds)
            await asyncio.sleep(0.2)


def _has_word(text: str) -> bool:
    """Tell whether a text has a visible character: others are refused by Write."""
    return any(unicodedata.category(char)[0] not in "ZC" for char in text)


def _lanes(turns: Sequence[Turn]) -> list[list[Turn]]:
    """Give the turns in parts that may be written at once: those of one session stay together, in order."""
    sessions: dict[str, list[Turn]] = {}
    for turn in turns:
        sessions.setdefault(turn.session, []).append(turn)
    lanes: list[list[Turn]] = [[] for _ in range(WRITERS)]
    for session in sessions.values():
        min(lanes, key=len).extend(session)
    return lanes


def _batches(turns: Sequence[Turn]) -> Iterator[Sequence[Turn]]:
    for start in range(0, len(turns), BATCH):
        yield turns[start : start + BATCH]


def _caller(stack: Stack, client: Client, tenant: str) -> MemoryFS:
    return client.as_caller(stack.token(_name(tenant), CALLER)).memory


def _name(tenant: str) -> str:
    """Give the tenant's name in Memory OS: its own, or one made from it where that can be none (spaces)."""
    return tenant if is_name(tenant) else f"set-{hashlib.sha256(tenant.encode()).hexdigest()[:24]}"


def _path(tenant: str) -> str:
    return f"/tenants/{_name(tenant)}/memory/episodic"


def _entry(turn: Turn) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "attributes": {"speaker": turn.speaker},
        "source": {"session_id": turn.session, "message_ids": [turn.id]},
    }
    time = _time(turn.time)
    if time:
        meta["time"] = time
    return {"content": _cut(turn.text.replace("\0", " "), CONTENT_BYTES_MAX), "meta": meta}


def _time(text: str | None) -> str | None:
    """Give an ISO time with its offset (UTC keeps the order where none is named); None for other notations."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()


def _asked(text: str) -> str:
    """Give the end of a question too long to ask: what was said last is what is asked."""
    raw = text.replace("\0", " ").encode()
    return text if len(raw) <= QUERY_BYTES_MAX else raw[-QUERY_BYTES_MAX:].decode(errors="ignore")


def _cut(text: str, bytes_max: int) -> str:
    return text if len(text.encode()) <= bytes_max else text.encode()[:bytes_max].decode(errors="ignore")
