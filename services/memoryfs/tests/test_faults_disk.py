"""A disk that is full: writes are refused as an outage, what was acknowledged stays, and with room all goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import psycopg
import pytest
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2
from memoryos_core.tokens import Identity
from memoryos_grpc.status import remote_error
from memoryos_memoryfs.app import running
from memoryos_postgres import PostgresSection, roles
from memoryos_postgres.bootstrap import bootstrap
from memoryos_postgres.embedded import EmbeddedPostgres
from memoryos_postgres.migrate import installed_folders, migrate
from memoryos_testing.hash_embedder import HashEmbedder
from memoryos_testing.memory_invariants import broken_invariants
from memoryos_testing.postgres import Clone

from .conftest import config_of
from .test_embedder_outage import eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of its own that is soon full."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("no right to mount a small file system here: a full disk cannot be made")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.chaos
async def test_a_full_disk_refuses_writes_keeps_what_was_acknowledged_and_ends_with_room(
    small_disk, keys, tmp_path, as_type
):
    with EmbeddedPostgres(small_disk) as server:
        await bootstrap(server.admin_dsn(), "memoryos", tmp_path / "secrets")
        section = PostgresSection(port=server.port, database="memoryos", secrets_dir=tmp_path / "secrets")
        await migrate(section.dsn(roles.OWNER), installed_folders(["core", "memoryfs"]))
        clone = Clone(section, server.admin_dsn("memoryos"))
        embedder = HashEmbedder(dimensions=64)
        async with (
            running(config_of(clone, keys, tmp_path), embedder=embedder) as service,
            grpc.aio.insecure_channel(service.address) as channel,
        ):
            token = keys.token(Identity(tenant="acme", user="alice", roles=frozenset({"agent"})))
            alice = as_type(channel, token, "/tenants/acme/memory/episodic")
            kept = [await alice.write(f"before {n}") for n in range(5)]
            ballast = small_disk / "ballast"
            fill_up(ballast)
            codes = []
            for n in range(60):
                entries = [memoryfs_pb2.WriteEntry(content=f"{n} {k} " + "x" * 20_000) for k in range(20)]
                try:
                    kept += [result.id for result in await alice.write_entries(entries)]
                except grpc.aio.AioRpcError as error:
                    codes.append(remote_error(error).code)
                    if len(codes) >= 5:
                        break
            assert codes
            ballast.unlink()
            if not await answers(clone.admin_dsn):  # it ends when it cannot write its log; whoever runs it starts it
                server.kill()
                server.start()

            async def works_again() -> bool:
                try:
                    kept.append(await alice.write("there is room again"))
                except grpc.aio.AioRpcError as error:
                    codes.append(remote_error(error).code)
                    return False
                return True

            await eventually(works_again, 60)
            assert set(codes) <= {"UNAVAILABLE", "DEADLINE_EXCEEDED"}
            found = [item.id for item in await all_items(alice)]
            assert set(kept) <= set(found)
            assert await broken_invariants(clone.admin_dsn) == {}


async def answers(dsn: str) -> bool:
    try:
        await (await psycopg.AsyncConnection.connect(dsn, connect_timeout=5)).close()
    except psycopg.OperationalError:
        return False
    return True


def fill_up(file: Path) -> None:
    """Take all the room but a little."""
    stat = os.statvfs(file.parent)
    with file.open("wb") as out:
        for _ in range(max(0, stat.f_bavail * stat.f_frsize - 4_000_000) // 1_000_000):
            out.write(bytes(1_000_000))


async def all_items(caller) -> list[item_pb2.Item]:
    found, token = [], ""
    while True:
        page = await caller.list(page_size=500, page_token=token)
        found += page.items
        token = page.next_page_token
        if not token:
            return found
