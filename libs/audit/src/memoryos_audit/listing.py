"""The newest audit rows, for a person at the machine that holds the sealer's password."""

from collections.abc import Mapping
from typing import Any, Final

from memoryos_postgres import Database
from memoryos_postgres.errors import translated

from memoryos_audit.blocks import snapshot

ROWS_MAX: Final = 10_000
_QUERY: Final = """
SELECT tenant, seq, create_time, kind, service, method, user_name, actor, chain, session_id, task_id, call_id,
       decision_id, trace_id, target_type, target_ids, outcome, reason, count, duration_us
FROM core.audit
WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
  AND (%(kind)s::text IS NULL OR kind = %(kind)s)
  AND (%(user)s::text IS NULL OR user_name = %(user)s)
  AND (%(id)s::text IS NULL OR %(id)s IN (session_id, task_id, call_id, decision_id, trace_id)
       OR %(id)s = ANY (target_ids))
ORDER BY create_time DESC, seq DESC
LIMIT %(limit)s
"""


async def newest_rows(database: Database, *, limit: int, where: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Give at most `limit` rows, newest first, as role memoryos_sealer.

    `where` narrows by `tenant`, `kind`, `user` and `id` (any id that a row names); None is no condition.
    """
    wanted = {"limit": min(limit, ROWS_MAX), **{name: where.get(name) for name in ("tenant", "kind", "user", "id")}}
    with translated():
        async with snapshot(database) as tx:
            return [dict(row) for row in await tx.fetch_all(_QUERY, wanted)]
