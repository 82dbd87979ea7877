"""What a broken rule is reported as: where and what, never the value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VIOLATIONS_MAX: Final = 20
"""Violations reported at once; the rest is found when these are corrected."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A field that breaks a rule. `is_path` marks the grammar of memory paths, which has a reason of its own."""

    field: str
    description: str
    is_path: bool = False

    def below(self, parent: str) -> Violation:
        """Give the same violation seen from the message that holds this one as `parent`."""
        return Violation(f"{parent}.{self.field}", self.description, self.is_path)
