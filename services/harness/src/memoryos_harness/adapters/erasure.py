"""What the harness holds of people and items: sessions, messages, tasks, and steps that quote what was recalled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memoryos_postgres.transaction import Row, Tx
from memoryos_service.erasure import Holdings, delete_up_to

from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_rows import owner_scope

_OWN: Final = "t.user_id = %(user)s"
_TABLES: Final = ("due_tasks", "task_events", "steps", "tasks", "message_words", "messages", "sessions")
_QUOTING: Final = (
    "SELECT id, user_id, item_ids, sealed_output FROM harness.steps"
    " WHERE tenant = %(tenant)s AND item_ids && %(ids)s::text[] LIMIT %(limit)s FOR UPDATE"
)
_FORGET: Final = (
    "UPDATE harness.steps SET sealed_output = %(output)s, item_ids = %(item_ids)s::text[]"
    " WHERE tenant = %(tenant)s AND id = %(id)s"
)


def _statement(table: str) -> str:
    """Give the statement that deletes rows of a person; of tasks the children first, who refer to their parents."""
    order = "t.user_id = %(user)s ORDER BY t.depth DESC" if table == "tasks" else _OWN
    return delete_up_to(f"harness.{table}", order)


def holdings_of(sealed: SealedColumns) -> Holdings:
    """Give what the harness holds."""

    async def of_items(tx: Tx, tenant: str, ids: Sequence[str], limit: int) -> Mapping[str, int]:
        """Take the items out of the steps that recalled them; the task goes on without."""
        wanted = set(ids)
        rows = await tx.fetch_all(_QUOTING, {"tenant": tenant, "ids": list(ids), "limit": limit})
        for row in rows:
            left = {"tenant": tenant, "id": row["id"], "item_ids": [i for i in row["item_ids"] if i not in wanted]}
            await tx.execute(_FORGET, {**left, "output": await _without(tx, tenant, row, wanted)})
        return {"harness.steps": len(rows)}

    async def _without(tx: Tx, tenant: str, row: Row, ids: set[str]) -> bytes | None:
        if row["sealed_output"] is None:
            return None
        scope = owner_scope(tenant, row["user_id"])
        output: Any = await sealed.open_json(tx, scope, "steps.output", row["id"], row["sealed_output"])
        hits = output.get("hits") if isinstance(output, dict) else None
        if not isinstance(hits, list):
            output = {"erased": True}
        else:
            output = {**output, "hits": [hit for hit in hits if hit.get("id") not in ids]}
        return await sealed.seal_json(tx, scope, "steps.output", row["id"], output)

    return Holdings(
        service="harness",
        schema="harness",
        of_user={f"harness.{table}": _statement(table) for table in _TABLES},
        of_items=of_items,
    )
