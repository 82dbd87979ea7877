"""A database on a disk that is soon full."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from memoryos_postgres import PostgresSection, roles
from memoryos_postgres.bootstrap import bootstrap
from memoryos_postgres.embedded import EmbeddedPostgres
from memoryos_postgres.migrate import installed_folders, migrate

from memoryos_testing.postgres import Clone

SIZE_MIB = 192


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """The database, and what takes up the rest of its disk."""

    database: Clone
    server: EmbeddedPostgres
    ballast: Path

    def fill_up(self, *, leave_bytes: int = 0) -> None:
        """Leave so much room."""
        stat = os.statvfs(self.ballast.parent)
        wanted = stat.f_bavail * stat.f_frsize - leave_bytes
        with contextlib.suppress(OSError), self.ballast.open("wb") as file:
            for _ in range(max(0, wanted) // 65_536 + (not leave_bytes)):
                os.write(file.fileno(), bytes(65_536))

    def make_room(self) -> None:
        """Give the room back."""
        self.ballast.unlink()


@contextlib.contextmanager
def _mounted(folder: Path) -> Iterator[Path]:
    """Mount a small file system; the test is skipped without the right to."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no right to mount a small file system here: a full disk cannot be made")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextlib.asynccontextmanager
async def database_on_small_disk(folder: Path, schemas: Sequence[str]) -> AsyncGenerator[SmallDisk, None]:
    """Run PostgreSQL with these schemas on a file system of its own."""
    secrets = folder / "secrets"
    with _mounted(folder / "small") as disk, EmbeddedPostgres(disk) as server:
        await bootstrap(server.admin_dsn(), "memoryos", secrets)
        section = PostgresSection(port=server.port, database="memoryos", secrets_dir=secrets)
        await migrate(section.dsn(roles.OWNER), installed_folders(list(schemas)))
        yield SmallDisk(Clone(section, server.admin_dsn("memoryos")), server, disk / "ballast")
