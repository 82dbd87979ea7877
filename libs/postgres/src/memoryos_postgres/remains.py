"""What a service still holds of a person or of items: every table and column that its role can read is searched.

The search knows nothing of how things were removed. Tables and columns come
from the catalogue, so that a new table is searched from its first day:

* `text` and `text[]` columns for typed principals (user:…, agent:…/…) and item ids,
* columns that hold bare user names (`_BARE`) for the name,
* sealed columns (their comment says so) for values under a key that is destroyed.

Free labels that users choose (`_LABELS`) are no names of anybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memoryos_postgres.database import Database
from memoryos_postgres.transaction import Tx

_BARE: Final = frozenset({"user_name", "user_id", "user_label", "reviewer", "owner", "subject"})
_LABELS: Final = frozenset({"tags", "attributes"})
_KEPT: Final = frozenset({("core", "audit"), ("core", "idempotency"), ("core", "data_keys")})
"""Audit is append-only, ids and keyed hashes; answers are emptied and refuse late retries for their 7 days."""
_SEALED_BYTES_MIN: Final = 45

_COLUMNS: Final = """
SELECT n.nspname AS schema, c.relname AS "table", a.attname AS "column", format_type(a.atttypid, NULL) AS type,
    has_column_privilege(c.oid, a.attnum, 'UPDATE') AS updatable,
    coalesce(col_description(c.oid, a.attnum), '') ~ '^(content|personal|secret):' AS sealed,
    has_table_privilege(c.oid, 'DELETE') AS deletable
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = ANY (%s::text[]) AND c.relkind IN ('r', 'p')
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
ORDER BY n.nspname, c.relname, a.attnum
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A person, or items."""

    user: str = ""
    ids: tuple[str, ...] = ()
    listed: str = ""
    """A query that gives ids, for very many of them; `parameters` are its parameters."""
    job_id: str = ""

    @property
    def parameters(self) -> dict[str, object]:
        """Parameters of the conditions."""
        return {
            "user": self.user,
            "typed": f"user:{self.user}",
            "agents": f"agent:{self.user}/",
            "ids": list(self.ids),
            "job_id": self.job_id,
        }


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    type: str
    updatable: bool
    sealed: bool
    deletable: bool

    @property
    def quoted(self) -> str:
        return '"' + self.name.replace('"', '""') + '"'


Tables = Mapping[tuple[str, str], Sequence[_Column]]


class Remains:
    """Searches the tables of some schemas, as the role of `database` and for one tenant at a time."""

    def __init__(self, database: Database, schemas: Sequence[str], *, skip: Sequence[tuple[str, str]] = ()) -> None:
        self._database = database
        self._schemas = list(schemas)
        self._skip = _KEPT | set(skip)

    async def find(self, tenant: str, sought: Sought) -> dict[str, int]:
        """Give the number of rows that hold something of `sought`, for every table that was searched."""
        tables = await self._tables()
        found: dict[str, int] = {}
        for (schema, table), columns in tables.items():
            conditions = [text for column in columns for text in _conditions(column, sought)]
            if not conditions:
                found[f"{schema}.{table}"] = 0
                continue
            query = (
                f'SELECT count(*) AS rows FROM "{schema}"."{table}" AS t'  # noqa: S608 - names of the catalogue
                f" WHERE t.tenant = %(tenant)s AND ({' OR '.join(conditions)})"
            )
            async with self._database.upkeep(tenant) as tx:
                found[f"{schema}.{table}"] = await tx.fetch_value(query, {"tenant": tenant, **sought.parameters})
        return found

    async def pseudonymise(self, tx: Tx, tenant: str, sought: Sought, pseudonym: str) -> dict[str, int]:
        """Replace the person's typed principals, in columns that the role may change, in rows that stay."""
        changed: dict[str, int] = {}
        for (schema, table), columns in (await self._tables()).items():
            texts = [c for c in columns if c.type == "text" and c.updatable and c.name not in _LABELS]
            if not texts:
                continue
            sets = ", ".join(
                f"{c.quoted} = CASE WHEN {_typed(c)} THEN %(pseudonym)s ELSE t.{c.quoted} END" for c in texts
            )
            query = (
                f'UPDATE "{schema}"."{table}" AS t SET {sets}'  # noqa: S608 - names of the catalogue
                f" WHERE t.tenant = %(tenant)s AND ({' OR '.join(_typed(c) for c in texts)})"
            )
            rows = await tx.execute(query, {"tenant": tenant, "pseudonym": pseudonym, **sought.parameters})
            if rows:
                changed[f"{schema}.{table}"] = rows
        return changed

    async def delete_named(self, tx: Tx, tenant: str, sought: Sought, *, but: Sequence[str] = ()) -> dict[str, int]:
        """Delete rows that are the person's own by a bare name, from every table where the role may, `but` these."""
        removed: dict[str, int] = {}
        for (schema, table), columns in (await self._tables()).items():
            own = [c for c in columns if c.type == "text" and c.name in _BARE and c.deletable]
            if not own or f"{schema}.{table}" in but:
                continue
            query = (
                f'DELETE FROM "{schema}"."{table}" AS t'  # noqa: S608 - names of the catalogue
                f" WHERE t.tenant = %(tenant)s AND ({' OR '.join(f't.{c.quoted} = %(user)s' for c in own)})"
            )
            rows = await tx.execute(query, {"tenant": tenant, **sought.parameters})
            if rows:
                removed[f"{schema}.{table}"] = rows
        return removed

    async def _tables(self) -> Tables:
        async with self._database.unscoped() as tx:
            rows = await tx.fetch_all(_COLUMNS, (self._schemas,))
        tables: dict[tuple[str, str], list[_Column]] = {}
        for row in rows:
            column = _Column(row["column"], row["type"], row["updatable"], row["sealed"], row["deletable"])
            tables.setdefault((row["schema"], row["table"]), []).append(column)
        return {
            name: columns
            for name, columns in tables.items()
            if name not in self._skip and any(column.name == "tenant" for column in columns)
        }


def _typed(column: _Column) -> str:
    return f"(t.{column.quoted} = %(typed)s OR starts_with(t.{column.quoted}, %(agents)s))"


def _conditions(column: _Column, sought: Sought) -> list[str]:
    """Give what a column that holds something of `sought` fulfils."""
    if column.name in _LABELS or column.name == "tenant":
        return []
    name = f"t.{column.quoted}"
    if sought.listed:
        listed = f"LIKE 'mem\\_%%' AND {{}} IN ({sought.listed})"
        one = f"({name} {listed.format(name)})"
        some = f"EXISTS (SELECT FROM unnest({name}) AS e (v) WHERE e.v {listed.format('e.v')})"
        return {"text": [one], "text[]": [some]}.get(column.type, [])
    if sought.ids:
        return {"text": [f"{name} = ANY (%(ids)s::text[])"], "text[]": [f"{name} && %(ids)s::text[]"]}.get(
            column.type, []
        )
    if column.type == "text":
        return [_typed(column), *([f"{name} = %(user)s"] if column.name in _BARE else [])]
    if column.type == "text[]":
        return [f"EXISTS (SELECT FROM unnest({name}) AS e (v) WHERE e.v = %(typed)s OR starts_with(e.v, %(agents)s))"]
    if column.type == "bytea" and column.sealed:
        return [orphaned(name)]
    return []


def orphaned(name: str) -> str:
    """Give the condition of a value that is sealed under no key of its tenant; `t` is its table."""
    return (
        f"(octet_length({name}) >= {_SEALED_BYTES_MIN} AND NOT EXISTS ("  # noqa: S608
        f"SELECT FROM core.data_keys AS k WHERE k.tenant = t.tenant AND k.key_id = substring({name} FROM 2 FOR 16)))"
    )
