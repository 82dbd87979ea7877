"""Skills that the caller could be allowed to call, as the policy that decides calls says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoryos_core.paging import PageTokens
from memoryos_core.scope import Scope

from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import SkillNotFound
from memoryos_toolgateway.ports import Journal, PolicyClient
from memoryos_toolgateway.registry import SkillRegistry

PAGE_SIZE_DEFAULT: Final = 100
_METHOD: Final = "ListSkills"


async def list_skills(
    registry: SkillRegistry, policy: PolicyClient, journal: Journal, scope: Scope, *, page_size: int, page_token: str
) -> tuple[Sequence[Skill], str]:
    """Give one page of visible skills by name, and the token of the next page.

    No visible skill is an empty first page without a token: the caller has no
    tools, which is not the same as any error (PolicyUnavailable is raised).
    """
    tokens = PageTokens(await journal.page_key(scope))
    position = tokens.decode(scope, _METHOD, b"", page_token)
    after = "" if position is None else str(position[0])
    candidates = [skill for skill in registry.all() if skill.name > after]
    shown = await policy.visible(candidates)
    visible = [skill for skill, show in zip(candidates, shown, strict=True) if show]
    size = page_size or PAGE_SIZE_DEFAULT
    page = visible[:size]
    more = len(visible) > size
    return page, tokens.encode(scope, _METHOD, b"", (page[-1].name,)) if more else ""


async def get_skill(registry: SkillRegistry, policy: PolicyClient, name: str) -> Skill:
    """Give a skill by its exact name, or raise SkillNotFound where the caller may not see it."""
    skill = registry.get(name)
    if skill is None or not (await policy.visible([skill]))[0]:
        raise SkillNotFound
    return skill
