"""What every table must keep (DESIGN §2), read from the catalogue of a migrated database.

A schema or table whose comment starts with "system:" belongs to the machinery
(migrations, seals, the job queue): no tenant, no class.
"""

from collections.abc import Collection
from typing import Any, Final

from psycopg import AsyncConnection

CLASSES: Final = ("id", "personal", "content", "secret")
SEALED: Final = ("personal", "content", "secret")

_OURS = """
SELECT c.oid, n.nspname || '.' || c.relname AS name, c.relrowsecurity AND c.relforcerowsecurity AS guarded
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
  AND coalesce(obj_description(c.oid, 'pg_class'), '') NOT LIKE 'system:%'
  AND coalesce(obj_description(n.oid, 'pg_namespace'), '') NOT LIKE 'system:%'
"""
_COLUMNS = f"""
SELECT t.name || '.' || a.attname, col_description(t.oid, a.attnum), format_type(a.atttypid, NULL)
FROM ({_OURS}) t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY 1
"""
_KEYS = f"""
SELECT t.name, i.relname, (SELECT attname FROM pg_attribute WHERE attrelid = t.oid AND attnum = x.indkey[0])
FROM ({_OURS}) t JOIN pg_index x ON x.indrelid = t.oid AND (x.indisprimary OR x.indisunique)
JOIN pg_class i ON i.oid = x.indexrelid
UNION ALL
SELECT t.name, k.conname, (SELECT attname FROM pg_attribute WHERE attrelid = t.oid AND attnum = k.conkey[1])
FROM ({_OURS}) t JOIN pg_constraint k ON k.conrelid = t.oid AND k.contype = 'f'
ORDER BY 1, 2
"""
_OWNERS = """
SELECT c.relname, r.rolname FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'S') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
  AND r.rolname <> 'memoryos_owner'
"""
_OTHERS: Final = {"item_vectors": "memoryos_indexer"}
"""Objects of another owner: the dense index, which its upkeep may give further indexes."""

CORE_QUEUES = ("core.due_jobs",)
"""Content-free queues of schema core, which every installation has."""


async def assert_columns_classified(dsn: str) -> None:
    """Every column has a comment "<class>: <what>", and what is not an id is bytea, because it is sealed."""
    wrong = []
    for name, comment, kind in await _rows(dsn, _COLUMNS):
        found = (comment or "").partition(": ")[0]
        if found not in CLASSES:
            wrong.append(f"{name}: the comment does not start with one of {', '.join(CLASSES)}")
        elif found in SEALED and kind != "bytea":
            wrong.append(f"{name}: {found} in a column of type {kind} is not sealed")
    assert not wrong, "\n".join(wrong)


async def assert_tenant_first(dsn: str) -> None:
    """Every primary, foreign and unique key starts with the tenant."""
    wrong = [
        f"{table}.{key} starts with {column}" for table, key, column in await _rows(dsn, _KEYS) if column != "tenant"
    ]
    assert not wrong, "\n".join(wrong)


async def assert_row_security(dsn: str, *, without: Collection[str] = ()) -> None:
    """Every table forces row-level security, but for the index and queue tables named in `without`."""
    without = {*without, *CORE_QUEUES}
    tables = {str(name): bool(guarded) for _, name, guarded in await _rows(dsn, _OURS)}
    wrong = [name for name, guarded in tables.items() if guarded == (name in without)]
    wrong += [f"{name} does not exist" for name in without if name not in tables]
    assert not wrong, f"row-level security is not as declared: {sorted(wrong)}"
    strangers = [(name, owner) for name, owner in await _rows(dsn, _OWNERS) if _OTHERS.get(name) != owner]
    assert not strangers, f"objects that memoryos_owner does not own: {strangers}"


async def _rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    async with await AsyncConnection.connect(dsn) as connection:
        return await (await connection.execute(query.encode())).fetchall()
