"""What Harness asks of the files of agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memoryos_core.tokens import Identity

from memoryos_harness.domain.releases import KnownAgent, Release


class AgentCatalog(Protocol):
    """The agents, each in the version that is released to the one who asks.

    Files that change count within seconds. A state that is wrong is not taken:
    the last good one stands, and `fault` says what is wrong.
    """

    def find(self, name: str, who: Identity) -> KnownAgent:
        """Give the agent of that name for a user, or raise AgentNotFound."""

    def known(self, who: Identity) -> Sequence[KnownAgent]:
        """Give every agent for a user, by name."""

    def versions(self, name: str) -> Sequence[tuple[Release, str]]:
        """Give the releases of an agent with the digest of each version, the one for all others last; AgentNotFound."""

    @property
    def fault(self) -> str:
        """What is wrong with the files as they are now, "" when nothing is."""
