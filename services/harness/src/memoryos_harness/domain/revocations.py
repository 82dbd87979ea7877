"""What no token is made for any more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """A user, an agent of a user or a task, who revoked it, and when."""

    subject: str
    actor: str
    create_time: datetime
