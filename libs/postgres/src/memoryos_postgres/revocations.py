"""Whom no token is made for any more: users, agents of users, tasks (DESIGN §7).

    async with db.scoped(scope) as tx:
        if await revocations.is_revoked(tx, scope.tenant, subjects_of(identity)): refuse

What decides is a tenant-keyed hash of the subject: a revocation outlives the
erasure of whom it names.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memoryos_core import principals
from memoryos_core.errors import InvalidField
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing
from memoryos_core.tokens import Identity

from memoryos_postgres.transaction import Tx

LISTED_MAX: Final = 500
SUBJECTS_MAX: Final = 64
"""Most subjects of one question: a user, a chain of agents (16) and their tasks are fewer."""

_TASK: Final = re.compile(r"task_[0-9A-HJKMNP-TV-Z]{26}")
_REVOKE: Final = (
    "INSERT INTO core.revocations (tenant, subject_hmac, subject, actor) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (tenant, subject_hmac) DO NOTHING"
)
_ONE: Final = "SELECT subject, actor, create_time FROM core.revocations WHERE tenant = %s AND subject_hmac = %s"
_RESTORE: Final = "DELETE FROM core.revocations WHERE tenant = %s AND subject_hmac = %s"
_IS_REVOKED: Final = (
    "SELECT EXISTS (SELECT FROM core.revocations WHERE tenant = %s AND subject_hmac = ANY (%s::text[])) AS revoked"
)
_LIST: Final = (
    "SELECT subject, actor, create_time FROM core.revocations WHERE tenant = %s"
    " ORDER BY create_time DESC, subject_hmac LIMIT %s"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """What no token is made for; `actor` is who said so."""

    subject: str
    actor: str
    create_time: datetime


class Revocations:
    """The revocations of every tenant; each call is about the tenant of its transaction."""

    def __init__(self, keyring: KeyRing[Tx]) -> None:
        self._keyring = keyring

    async def revoke(self, tx: Tx, scope: Scope, subject: str) -> Revocation:
        """Give the revocation of `subject`, made now or before; InvalidField for what is no subject."""
        hmac = await self._hmac(tx, scope.tenant, checked_subject(subject))
        await tx.execute(_REVOKE, (scope.tenant, hmac, subject, scope.actor))
        row = await tx.fetch_one(_ONE, (scope.tenant, hmac))
        assert row is not None
        return Revocation(**row)

    async def restore(self, tx: Tx, scope: Scope, subject: str) -> bool:
        """Take a revocation back; False when there is none."""
        hmac = await self._hmac(tx, scope.tenant, checked_subject(subject))
        return bool(await tx.execute(_RESTORE, (scope.tenant, hmac)))

    async def is_revoked(self, tx: Tx, tenant: str, subjects: Collection[str]) -> bool:
        """Tell whether any of `subjects` is revoked. What was deferred before is committed with the question."""
        if len(subjects) > SUBJECTS_MAX:
            raise ValueError(f"more than {SUBJECTS_MAX} subjects in one question")
        keys = await self._keyring.tenant_keys(tx, tenant)
        rows = await tx.fetch_last(_IS_REVOKED, (tenant, [keys.audit_hmac(subject) for subject in subjects]))
        return bool(rows[0]["revoked"])

    async def list(self, tx: Tx, scope: Scope) -> tuple[Revocation, ...]:
        """Give the newest revocations of the scope's tenant, newest first."""
        rows = await tx.fetch_all(_LIST, (scope.tenant, LISTED_MAX))
        return tuple(Revocation(**row) for row in rows)

    async def _hmac(self, tx: Tx, tenant: str, subject: str) -> str:
        return (await self._keyring.tenant_keys(tx, tenant)).audit_hmac(subject)


def checked_subject(subject: str) -> str:
    """Give `subject` when it can be revoked: a user, an agent of a user, or a task; else raise InvalidField."""
    kind = subject.partition(":")[0]
    if _TASK.fullmatch(subject) or (kind in ("user", "agent") and principals.is_principal(subject)):
        return subject
    raise InvalidField.of("subject", "is user:NAME, agent:USER/NAME or the name of a task")


def subjects_of(identity: Identity, *, tasks: Collection[str] = ()) -> tuple[str, ...]:
    """Give everything whose revocation stops a token of `identity`: user, every agent of the chain, tasks."""
    agents = [principals.agent(identity.user, name) for name in identity.chain]
    held = [task for task in (identity.task_id, *tasks) if task]
    return tuple(dict.fromkeys([principals.user(identity.user), *agents, *held]))
