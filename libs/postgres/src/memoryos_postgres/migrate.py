"""Forward-only migrations in plain SQL: `NNNN_{pre,post}_name.sql` in a folder per schema.

`pre` files keep the previous release working and run before the roll-out,
`post` files run after it. Each file is one transaction together with its row
in core.migrations; an applied file that was changed is an error.

A line `-- include: package/file.sql` stands for a file of an installed package
(a queue's own tables); it counts as part of the text, so another version of
that package is a changed file.
"""

import hashlib
import importlib.resources
import importlib.util
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from psycopg import AsyncConnection, sql

from memoryos_postgres import roles
from memoryos_postgres.errors import translated

PACKAGES: Final = {
    "core": "memoryos_postgres",
    "memoryfs": "memoryos_memoryfs",
    "harness": "memoryos_harness",
    "toolgateway": "memoryos_toolgateway",
    "policy": "memoryos_policy",
}
"""Schema → package whose `migrations` folder makes it; core comes first."""
Phase = Literal["pre", "post", "all"]

_LOCK: Final = 0x4D4F5302
_FILE_NAME: Final = re.compile(r"(?P<number>\d{4})_(?P<phase>pre|post)_[a-z0-9_]+\.sql")
_INCLUDE: Final = re.compile(r"^-- include: (\w+)/([\w/]+\.sql)$", re.MULTILINE)
_SCHEMA: Final = re.compile(r"[a-z][a-z0-9_]{0,30}")
_TABLE = """
CREATE SCHEMA IF NOT EXISTS core;
CREATE TABLE IF NOT EXISTS core.migrations (
    schema_name text NOT NULL,
    file_name text NOT NULL,
    sha256 text NOT NULL,
    apply_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (schema_name, file_name)
);
COMMENT ON TABLE core.migrations IS 'system: migration files that were applied.';
COMMENT ON COLUMN core.migrations.schema_name IS 'id: schema that the file belongs to';
COMMENT ON COLUMN core.migrations.file_name IS 'id: file';
COMMENT ON COLUMN core.migrations.sha256 IS 'id: digest of the file when it was applied';
COMMENT ON COLUMN core.migrations.apply_time IS 'id: when it was applied';
"""


class MigrationRefused(RuntimeError):
    """The migration files and the database do not fit together; nothing was applied. The message says why."""


@dataclass(frozen=True)
class MigrationFolder:
    """The migrations of one schema."""

    schema: str
    path: Path


@dataclass(frozen=True)
class _File:
    schema: str
    path: Path
    number: int
    phase: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def installed_folders(schemas: Iterable[str] = tuple(PACKAGES)) -> list[MigrationFolder]:
    """The migration folders of the packages installed here, core first; packages without one are left out."""
    found = []
    for schema in sorted(set(schemas) | {"core"}, key=list(PACKAGES).index):
        spec = importlib.util.find_spec(PACKAGES[schema])
        for location in (spec and spec.submodule_search_locations) or ():
            path = Path(location) / "migrations"
            if path.is_dir():
                found.append(MigrationFolder(schema, path))
    return found


async def migrate(owner_dsn: str, folders: Sequence[MigrationFolder], *, phase: Phase = "all") -> list[str]:
    """Apply what is missing, in order of folders and numbers, and give back `schema/file` of each.

    Runs as memoryos_owner. A second migrator waits for the first and finds
    nothing to do. A schema is created, and its service may use it, before its
    first file runs.
    """
    with translated():
        async with await AsyncConnection.connect(owner_dsn, autocommit=True) as owner:
            # Session lock: it ends with the connection, however this process ends.
            await owner.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
            await owner.execute(_TABLE)
            rows = await (await owner.execute("SELECT schema_name, file_name, sha256 FROM core.migrations")).fetchall()
            applied = {(row[0], row[1]): row[2] for row in rows}
            pending = [file for folder in folders for file in _pending(folder, applied, phase)]
            done = []
            for file in pending:
                await _apply(owner, file)
                done.append(f"{file.schema}/{file.path.name}")
            return done


def _pending(folder: MigrationFolder, applied: dict[tuple[str, str], str], phase: Phase) -> list[_File]:
    files = _read(folder)
    known = {file.path.name for file in files}
    for schema, name in applied:
        if schema == folder.schema and name not in known:
            raise MigrationRefused(f"{schema}/{name} was applied but is not in this release: never go back")
    pending: list[_File] = []
    for file in files:
        digest = applied.get((file.schema, file.path.name))
        if digest is None:
            pending.append(file)
        elif digest != file.sha256:
            raise MigrationRefused(f"{file.schema}/{file.path.name} was changed after it was applied: add a new file")
        elif pending:
            raise MigrationRefused(f"{pending[0].schema}/{pending[0].path.name} comes before files already applied")
    if phase == "all":
        return pending
    chosen = [file for file in pending if file.phase == phase]
    for file in pending:
        if chosen and file.phase != phase and file.number < chosen[-1].number:
            raise MigrationRefused(f"{file.schema}/{file.path.name} must be applied first (its phase is {file.phase})")
    return chosen


def _read(folder: MigrationFolder) -> list[_File]:
    if not _SCHEMA.fullmatch(folder.schema):
        raise MigrationRefused(f"{folder.schema!r} is no schema name")
    files = []
    for path in sorted(folder.path.glob("*.sql")):
        match = _FILE_NAME.fullmatch(path.name)
        if match is None:
            raise MigrationRefused(f"{path.name} is not named NNNN_{{pre,post}}_name.sql")
        files.append(_File(folder.schema, path, int(match["number"]), match["phase"], _text(path)))
    numbers = [file.number for file in files]
    if len(set(numbers)) != len(numbers):
        raise MigrationRefused(f"two migrations of {folder.schema} have the same number")
    return files


def _text(path: Path) -> str:
    """Give the text of a migration, with what it includes in place."""

    def included(line: re.Match[str]) -> str:
        return (importlib.resources.files(line[1]) / line[2]).read_text("utf-8")

    return _INCLUDE.sub(included, path.read_text("utf-8"))


async def _apply(owner: AsyncConnection, file: _File) -> None:
    async with owner.transaction():
        await owner.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(file.schema)))
        role = f"memoryos_{file.schema}"
        if role in roles.SERVICES:
            await owner.execute(
                sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(file.schema), sql.Identifier(role))
            )
        await owner.execute(file.text.encode())
        await owner.execute(
            "INSERT INTO core.migrations (schema_name, file_name, sha256) VALUES (%s, %s, %s)",
            (file.schema, file.path.name, file.sha256),
        )
