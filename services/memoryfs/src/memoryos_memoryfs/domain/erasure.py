"""What a purge is asked to remove, and how its receipt names it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from memoryos_core.canonical import canonical_json
from memoryos_core.paths import MemoryPath

PURGE: Final = "memory.purge"
"""Kind of the job."""
RECEIPT_FORMAT: Final = "memoryos.receipt/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A whole person, or items by name, or everything below a path."""

    user: str = ""
    ids: tuple[str, ...] = ()
    path: MemoryPath | None = None
    """With `user` and `ids` empty: the subtree."""
    owner: str = ""
    """Only items of this principal; empty: whoever owns them (for a tenant-admin, or a whole person)."""

    def encode(self) -> bytes:
        """Give it as kept with the job."""
        path = str(self.path) if self.path else ""
        return canonical_json({"user": self.user, "ids": list(self.ids), "path": path, "owner": self.owner})

    @classmethod
    def decode(cls, raw: bytes) -> Target:
        """Give the target that was encoded."""
        found = json.loads(raw)
        return cls(
            user=found["user"],
            ids=tuple(found["ids"]),
            path=MemoryPath.parse(found["path"]) if found["path"] else None,
            owner=found["owner"],
        )

    @property
    def name(self) -> str:
        """Give what the receipt names by its tenant-keyed hash."""
        kind = "user" if self.user else "items" if self.ids else "subtree"
        return f"purge/{kind}/" + canonical_json([self.user, sorted(self.ids), str(self.path or "")]).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A place that was searched: what was removed from it and what was found afterwards."""

    place: str
    removed: int
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What is gone only later; `until` is RFC 3339, or empty: when the epoch key turns."""

    place: str
    until: str
    reason: str


def receipt(
    *,
    job_id: str,
    tenant: str,
    digest: str,
    times: Mapping[str, str],
    findings: list[Finding],
    expiring: list[Expiry],
    absent: list[str],
) -> bytes:
    """Give the receipt as it is signed: canonical JSON."""
    plain: dict[str, Any] = {
        "format": RECEIPT_FORMAT,
        "job_id": job_id,
        "tenant": tenant,
        "target_hmac": digest,
        "times": dict(times),
        "places": [
            {"place": one.place, "removed": one.removed, "found": one.found}
            for one in sorted(findings, key=lambda one: one.place)
        ],
        "expiring": [{"place": one.place, "until": one.until, "reason": one.reason} for one in expiring],
        "services_absent": sorted(absent),
    }
    return canonical_json(plain)
