"""A disk that is full: writes are refused as an outage, what was acknowledged stays, and with room all goes on."""

from __future__ import annotations

import grpc
import psycopg
import pytest
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2
from memoryos_core.tokens import Identity
from memoryos_grpc.status import remote_error
from memoryos_memoryfs.app import running
from memoryos_testing.hash_embedder import HashEmbedder
from memoryos_testing.memory_invariants import broken_invariants
from memoryos_testing.small_disk import database_on_small_disk

from .conftest import config_of
from .test_embedder_outage import eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.mark.chaos
async def test_a_full_disk_refuses_writes_keeps_what_was_acknowledged_and_ends_with_room(keys, tmp_path, as_type):
    async with database_on_small_disk(tmp_path, ["core", "memoryfs"]) as disk:
        clone = disk.database
        embedder = HashEmbedder(dimensions=64)
        async with (
            running(config_of(clone, keys, tmp_path), embedder=embedder) as service,
            grpc.aio.insecure_channel(service.address) as channel,
        ):
            token = keys.token(Identity(tenant="acme", user="alice", roles=frozenset({"agent"})))
            alice = as_type(channel, token, "/tenants/acme/memory/episodic")
            kept = [await alice.write(f"before {n}") for n in range(5)]
            disk.fill_up(leave_bytes=4_000_000)
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
            disk.make_room()
            if not await answers(clone.admin_dsn):  # it ends when it cannot write its log; whoever runs it starts it
                disk.server.kill()
                disk.server.start()

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


async def all_items(caller) -> list[item_pb2.Item]:
    found, token = [], ""
    while True:
        page = await caller.list(page_size=500, page_token=token)
        found += page.items
        token = page.next_page_token
        if not token:
            return found
