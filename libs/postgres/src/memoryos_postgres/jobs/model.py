"""A job as others see it, and the sealed form of what was asked for."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any, Final

from memoryos_core.canonical import canonical_json
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_core.sealing import aad

from memoryos_postgres.transaction import Row

MANAGERS: Final = frozenset({"tenant-admin", "operator"})
"""Roles that see every job of their tenant."""


class JobState(IntEnum):
    """The numbers of memoryos.jobs.v1.JobState."""

    QUEUED = 1
    RUNNING = 2
    SUCCEEDED = 3
    FAILED = 4
    CANCELLED = 5

    @property
    def ended(self) -> bool:
        """Tell whether nothing comes after it."""
        return self > JobState.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Where a long operation stands."""

    id: str
    kind: str
    state: JobState
    phase: str
    done_count: int
    total_count: int
    create_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    attempts: int
    error_reason: str
    result: Mapping[str, Any]
    cancel_requested: bool

    @classmethod
    def of(cls, row: Row) -> Job:
        """Give the job of a row of core.jobs."""
        state = JobState(row["state"])
        return cls(
            id=row["id"],
            kind=row["kind"],
            state=state,
            phase=row["phase"],
            done_count=row["done_count"],
            total_count=row["total_count"],
            create_time=row["create_time"],
            start_time=row["start_time"],
            end_time=row["end_time"],
            attempts=row["attempts"],
            error_reason=row["error_reason"] if state is JobState.FAILED else "",
            result=row["result"],
            cancel_requested=row["cancel_requested"],
        )


def input_place(tenant: str, job_id: str) -> bytes:
    """Give what binds a sealed input to its row."""
    return aad(tenant, "core.jobs.input", job_id)


def pack(scope: Scope, asked: bytes) -> bytes:
    """Give what is sealed: who asked, and for what."""
    return canonical_json({"scope": _plain(scope), "asked": base64.b64encode(asked).decode()})


def unpack(packed: bytes) -> tuple[Scope, bytes]:
    """Give who asked, and for what."""
    found = json.loads(packed)
    return _scope_of(found["scope"]), base64.b64decode(found["asked"])


def _plain(scope: Scope) -> dict[str, Any]:
    return {
        "tenant": scope.tenant,
        "user": scope.user,
        "principals": list(scope.principals),
        "clearance": scope.clearance,
        "roles": sorted(scope.roles),
        "chain": list(scope.chain),
        "session_id": scope.session_id,
        "task_id": scope.task_id,
        "read_paths": _texts(scope.read_paths),
        "write_paths": _texts(scope.write_paths),
    }


def _texts(paths: tuple[MemoryPath, ...] | None) -> list[str] | None:
    return None if paths is None else [str(path) for path in paths]


def _scope_of(plain: Mapping[str, Any]) -> Scope:
    return Scope(
        tenant=plain["tenant"],
        user=plain["user"],
        principals=tuple(plain["principals"]),
        clearance=plain["clearance"],
        roles=frozenset(plain["roles"]),
        chain=tuple(plain["chain"]),
        session_id=plain["session_id"],
        task_id=plain["task_id"],
        read_paths=_paths(plain["read_paths"]),
        write_paths=_paths(plain["write_paths"]),
    )


def _paths(texts: list[str] | None) -> tuple[MemoryPath, ...] | None:
    return None if texts is None else tuple(MemoryPath.parse(text, field="scope") for text in texts)
