"""What became of the entries of a Write, and the same as it is kept for a retry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from memoryos_memoryfs.domain.items import EmbedState, State
from memoryos_memoryfs.operations.settle_entries import Outcome


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of one entry."""

    id: str
    revision: int
    etag: str
    state: State
    embed_state: EmbedState
    outcome: Outcome
    superseded: tuple[str, ...] = ()
    """Items about the same event that it replaced."""

    @property
    def gated(self) -> bool:
        """Tell whether the confidence gate held it back."""
        return self.state is State.CANDIDATE


def encode_results(results: Sequence[WriteResult]) -> bytes:
    """Give the answer to keep for a retry."""
    return json.dumps(
        [[r.id, r.revision, r.etag, r.state, r.embed_state, r.outcome, r.superseded] for r in results]
    ).encode()


def decode_results(answer: bytes) -> list[WriteResult]:
    """Give the results of an answer that was kept; those of the release before say no outcome."""
    results = []
    for item_id, revision, etag, state, embed_state, *more in json.loads(answer):
        outcome = Outcome(more[0]) if more else (Outcome.CREATED if revision == 1 else Outcome.UPDATED)
        superseded = tuple(more[1]) if more else ()
        results.append(WriteResult(item_id, revision, etag, State(state), EmbedState(embed_state), outcome, superseded))
    return results
