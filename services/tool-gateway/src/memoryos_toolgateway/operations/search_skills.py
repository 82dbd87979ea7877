"""Finding skills by what they are for, among those that the caller could be allowed to call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import numpy as np
from memoryos_core.errors import MemoryOSError
from memoryos_models.ports import Embedder

from memoryos_toolgateway.domain.request_steps import needs
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.domain.skill_index import MEANING_CHARS_MAX, Findable, Meanings, Query, SkillIndex, Vectors
from memoryos_toolgateway.ports import PolicyClient

TOP_K_DEFAULT: Final = 10
QUERY_S_MAX: Final = 2.0
"""Longest wait for the vectors of a query; later words alone decide."""
_BATCH: Final = 32
_BATCH_S_MAX: Final = 60.0
_log = logging.getLogger(__name__)


class SkillSearch:
    """Searches one registry. The vectors of its skills are made once, behind the first search, which does not wait."""

    def __init__(self, skills: Sequence[Skill], policy: PolicyClient, embedder: Embedder) -> None:
        self._skills = skills
        self._policy = policy
        self._embedder = embedder
        self._findable = [Findable(s.name, s.description, s.parameters_json, s.system) for s in skills]
        self._index: SkillIndex | None = None
        self._meanings: Meanings | None = None
        self._making: asyncio.Task[None] | None = None

    async def search(self, query: str, top_k: int) -> tuple[list[tuple[Skill, float]], bool]:
        """Give skills with their scores, best first, and whether words alone decided.

        Raises PolicyUnavailable: what the caller may see is not known then.
        """
        shown = np.array(await self._policy.visible(self._skills), dtype=np.bool_)
        if self._index is None:
            self._index = await asyncio.to_thread(SkillIndex, self._findable)
        self._begin()
        texts = needs(query)
        meanings = self._meanings
        asked = Query(tuple(texts), None if meanings is None else await self._vectors_of(texts))
        found = self._index.search(asked, meanings, shown, top_k or TOP_K_DEFAULT)
        return [(self._skills[at], score) for at, score in found], asked.vectors is None

    async def ready(self) -> bool:
        """Wait until meaning can be compared, and tell whether it can; for evaluations and tests."""
        self._begin()
        if self._making is not None:
            await asyncio.gather(self._making, return_exceptions=True)
        return self._meanings is not None

    async def close(self) -> None:
        """Give up making vectors."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    def _begin(self) -> None:
        if self._meanings is None and self._skills and (self._making is None or self._making.done()):
            self._making = asyncio.create_task(self._make())

    async def _make(self) -> None:
        """Embed every skill and system; when the embedder is away, the next search begins anew."""
        systems = list(dict.fromkeys(findable.system for findable in self._findable if findable.system))
        texts = [findable.meaning_text for findable in self._findable]
        texts += [system[:MEANING_CHARS_MAX] for system in systems]
        parts: list[Vectors] = []
        try:
            for start in range(0, len(texts), _BATCH):
                parts.append(await self._embedder.embed(texts[start : start + _BATCH], deadline_s=_BATCH_S_MAX))
        except MemoryOSError as error:
            _log.warning("skills are searched by words alone", extra={"reason": error.reason})
            return
        rows = np.concatenate(parts)
        count = len(self._findable)
        of_skills = np.zeros_like(rows[:count])
        for at, findable in enumerate(self._findable):
            if findable.system:
                of_skills[at] = rows[count + systems.index(findable.system)]
        self._meanings = Meanings(rows[:count], of_skills)

    async def _vectors_of(self, texts: list[str]) -> Vectors | None:
        try:
            return await self._embedder.embed(texts, deadline_s=QUERY_S_MAX)
        except MemoryOSError:
            return None
