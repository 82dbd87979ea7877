"""Whether arguments are what a skill takes and its connector can express."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import ArgumentsInvalid
from memoryos_toolgateway.ports import Connector


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsCheck:
    """Checks arguments as asked for, and as policy has changed them."""

    connectors: Mapping[type, Connector]

    def run(self, skill: Skill, arguments: dict[str, Any]) -> None:
        """Raise ArgumentsInvalid with every place that breaks a rule, never with a value."""
        violations = skill.schema.violations(arguments)
        if violations:
            raise ArgumentsInvalid.of([(v.pointer, f"{v.rule}: expected {v.expectation}") for v in violations])
        self.connectors[type(skill.connector)].check(skill, arguments)
