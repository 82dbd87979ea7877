"""kill -9 around a Move, a change of settings and the end of a binding: whole or absent, and a retry does it once."""

from __future__ import annotations

import psycopg
import pytest
from google.protobuf.duration_pb2 import Duration
from memoryos.memoryfs.v1 import bindings_pb2, memoryfs_pb2, namespace_pb2
from memoryos_core.tokens import Identity

from .test_crash import PATH, entries, process  # noqa: F401 -- process is a fixture

pytestmark = pytest.mark.chaos
TO = "/tenants/acme/memory/semantic/to"
WORKING = "/tenants/acme/memory/working"


@pytest.mark.parametrize("point", ["memoryfs.move.between_parts", "memoryfs.move.before_commit"])
async def test_a_killed_move_left_everything_and_a_retry_moves_everything(process, point, database):  # noqa: F811
    move = namespace_pb2.MoveRequest(from_path=f"{PATH}/from", to_path=TO, request_id="move-1")
    async with process.running() as caller:
        for part in range(2):
            await caller.write_entries(entries(f"part {part}", 300), path=f"{PATH}/from/{part}")

    async def drive(caller) -> None:
        await caller.call("Move", move)

    await process.crash_at(point, drive)
    async with process.running() as caller:
        stat = namespace_pb2.StatRequest
        assert (await caller.call("Stat", stat(path=PATH))).usage.active_count == 600
        assert (await caller.call("Stat", stat(path=TO))).usage.active_count == 0
        assert (await caller.call("Move", move)).moved_count == 600
        assert (await caller.call("Move", move)).moved_count == 600
        assert (await caller.call("Stat", stat(path=PATH))).usage.active_count == 0
        assert (await caller.call("Stat", stat(path=TO))).usage.active_count == 600
        assert {item.revision for item in (await caller.list(path=TO, page_size=500)).items} == {2}
    async with await psycopg.AsyncConnection.connect(database.admin_dsn) as admin:
        cursor = await admin.execute(
            "SELECT count(*) FROM memoryfs.items i JOIN memoryfs.item_tokens t USING (tenant, path_id)"
            " JOIN memoryfs.item_vectors v USING (tenant, path_id)"
            " WHERE t.item_id = i.id AND v.item_id = i.id AND v.revision = i.revision"
        )
        assert await cursor.fetchone() == (600,)


async def test_killed_settings_are_not_there_and_neither_is_their_quota(process, keys, database):  # noqa: F811
    process._token = keys.token(Identity(tenant="acme", user="root", roles=frozenset({"tenant-admin"})))
    request = namespace_pb2.SetPathSettingsRequest(
        settings=namespace_pb2.PathSettings(path=PATH, items_max=2), request_id="set-1"
    )

    async def drive(caller) -> None:
        await caller.call("SetPathSettings", request)

    async with process.running() as caller:
        await caller.write_entries(entries("before", 2))
    await process.crash_at("memoryfs.settings.before_commit", drive)
    async with process.running() as caller:
        await caller.write_entries(entries("still free", 1))
        settings = (await caller.call("SetPathSettings", request)).settings
        assert settings.items_max == 2
    async with await psycopg.AsyncConnection.connect(database.admin_dsn) as admin:
        cursor = await admin.execute("SELECT item_count FROM memoryfs.path_quotas")
        assert await cursor.fetchall() == [(3,)]


async def test_a_binding_that_ends_takes_its_working_memory_also_when_killed_at_it(process):  # noqa: F811
    bind = bindings_pb2.BindRequest(
        binding=bindings_pb2.Binding(task_id="t1", write_paths=[WORKING], read_paths=[WORKING]),
        ttl=Duration(seconds=600),
        request_id="bind-1",
    )
    vector = entries("scratch", 1)[0].embedding
    entry = memoryfs_pb2.WriteEntry(content="scratch", embedding=vector)
    entry.source.task_id = "t1"
    async with process.running() as caller:
        binding = (await caller.call("Bind", bind)).binding
        (note,) = await caller.write_entries([entry], path=WORKING)
    unbind = bindings_pb2.UnbindRequest(id=binding.id, request_id="unbind-1")

    async def drive(caller) -> None:
        await caller.call("Unbind", unbind)

    await process.crash_at("memoryfs.unbind.before_commit", drive)
    async with process.running() as caller:
        assert (await caller.get(note.id)).content == "scratch"
        listed = await caller.call("ListBindings", bindings_pb2.ListBindingsRequest())
        assert [one.id for one in listed.bindings] == [binding.id]
        assert (await caller.call("Unbind", unbind)).forgotten_count == 1
        assert (await caller.call("Unbind", unbind)).forgotten_count == 1
        assert await caller.list_ids(path=WORKING) == []
