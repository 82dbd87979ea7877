"""Versions of agents, and which users get which.

`agents/{name}.yaml` is the version without a label, for everybody whom no release takes;
`agents/{name}/{label}.yaml` are others. Releases stand in `agents/releases.yaml`, in an order: the first whose groups
or share hold a user gives the version. Shares are parts of one ring by a hash of tenant, user and agent, so a larger
share only adds users.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from memoryos_core.tokens import Identity
from pydantic import BaseModel, ConfigDict, Field, model_validator

from memoryos_harness.domain.agents import NAME_PATTERN, Agent, Name

RELEASES_MAX = 16
EVERYBODY = 100

Label = Annotated[str, Field(pattern=NAME_PATTERN, max_length=64)]
GroupName = Annotated[str, Field(min_length=1, max_length=128)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Release(_Strict):
    """Who gets one version."""

    label: str = Field(
        pattern=r"^$|" + NAME_PATTERN, max_length=64, description="Version; empty: the agent's own file."
    )
    percent: int = Field(default=0, ge=0, le=EVERYBODY, description="Share of the users.")
    groups: tuple[GroupName, ...] = Field(default=(), max_length=64, description="Groups that get it in any case.")


class AgentReleases(_Strict):
    """The releases of one agent, and those before the last change, for the way back."""

    releases: tuple[Release, ...] = Field(default=(), max_length=RELEASES_MAX, description="Those that count.")
    before: tuple[Release, ...] | None = Field(
        default=None, max_length=RELEASES_MAX, description="Those before the last change; null: there was none."
    )

    @model_validator(mode="after")
    def _shares_fit(self) -> AgentReleases:
        if sum(release.percent for release in self.releases) > EVERYBODY:
            raise ValueError("the shares are more than 100 % together")
        labels = [release.label for release in self.releases]
        if len(set(labels)) != len(labels):
            raise ValueError("a version is released twice")
        return self


class ReleasesFile(_Strict):
    """`agents/releases.yaml`, written by `mos agent release` and `mos agent back`."""

    agents: Mapping[Name, AgentReleases] = Field(default_factory=dict, description="By agent.")


@dataclass(frozen=True, slots=True)
class KnownAgent:
    """An agent as its files say now, in the version of one user."""

    agent: Agent
    label: str = ""


def place_of(tenant: str, user: str, agent: str) -> int:
    """Give where a user stands on the ring of an agent, 0..99; the same for ever."""
    digest = hashlib.blake2b(f"{tenant}\0{user}\0{agent}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % EVERYBODY


def label_for(releases: Sequence[Release], who: Identity, agent: str) -> str:
    """Give the label of the version that a user gets, "" for the agent's own file."""
    place, upto = place_of(who.tenant, who.user, agent), 0
    for release in releases:
        if who.groups & set(release.groups):
            return release.label
    for release in releases:
        upto += release.percent
        if place < upto:
            return release.label
    return ""


def released(current: AgentReleases, label: str, *, percent: int | None, groups: Sequence[str]) -> AgentReleases:
    """Give the releases with one version's part set; `percent` None leaves its share. What there was is kept for back.

    A version that goes to everybody is the only one left.
    """
    before = current.releases
    if percent == EVERYBODY:
        return AgentReleases(releases=(Release(label=label, percent=EVERYBODY),), before=before)
    known = next((release for release in before if release.label == label), Release(label=label))
    changed = Release(
        label=label,
        percent=known.percent if percent is None else percent,
        groups=tuple(sorted({*known.groups, *groups})),
    )
    others = [release for release in before if release.label != label]
    return AgentReleases(releases=(changed, *others), before=before)


def taken_back(current: AgentReleases) -> AgentReleases:
    """Give the releases of before the last change; a second time brings the change back."""
    return AgentReleases(releases=current.before or (), before=current.releases)
