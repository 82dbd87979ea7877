"""What is wrong with what went to the policy engine, or with what came back."""

from __future__ import annotations


class Fault(Exception):
    """Question or answer is not usable; `kind` says in what, for `policy_error:<kind>`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Missing(Fault):
    """OPA serves no decision bundle."""

    def __init__(self) -> None:
        super().__init__("missing")
