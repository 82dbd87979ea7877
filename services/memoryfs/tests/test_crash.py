"""kill -9 around the commit of a Write: acknowledged is kept, the rest is all or nothing (I6)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import psycopg
import pytest
import yaml
from memoryos.memoryfs.v1 import filter_pb2, item_pb2, lifecycle_pb2, memoryfs_pb2, snapshots_pb2, transfer_pb2
from memoryos_core.tokens import Identity
from memoryos_testing import run_until_crash

pytestmark = pytest.mark.chaos
PATH = "/tenants/acme/memory/episodic"
MODULE = "memoryos_memoryfs.main"


class Process:
    """MemoryFS as a process of its own, on one port file and one database."""

    def __init__(self, database, keys, folder: Path, as_type, **sections) -> None:
        self._port_file = folder / "port"
        self._token = keys.token(Identity(tenant="acme", user="alice", roles=frozenset({"agent", "user"})))
        self._as = as_type
        section = database.section
        config = {
            "grpc": {"port_file": str(self._port_file)},
            "telemetry": {"span_dir": str(folder / "spans")},
            "postgres": {
                "port": section.port,
                "database": section.database,
                "secrets_dir": str(section.secrets_dir),
            },
            "identity": {"keys_file": str(keys.keys_file)},
            "sealing": {"epoch_key_file": str(keys.epoch_key_file)},
            **sections,
        }
        self._file = folder / "memoryfs.yaml"
        self._file.write_text(yaml.safe_dump(config))
        self.environ = {"MEMORYOS_CONFIG": str(self._file)}

    async def port(self) -> int:
        async with asyncio.timeout(30):
            while not self._port_file.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
        return int(self._port_file.read_text())

    @asynccontextmanager
    async def caller(self) -> AsyncIterator:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{await self.port()}") as channel:
            yield self._as(channel, self._token, PATH)

    async def crash_at(self, point: str, drive) -> None:
        self._port_file.unlink(missing_ok=True)

        async def driven() -> None:
            async with self.caller() as caller:
                await drive(caller)

        await run_until_crash(MODULE, point=point, environ=self.environ, drive=driven)
        self._port_file.unlink(missing_ok=True)

    @asynccontextmanager
    async def running(self) -> AsyncIterator:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MODULE, env={**self.environ, "PATH": os.defpath}
        )
        self.terminate = lambda: process.send_signal(signal.SIGTERM)
        try:
            async with self.caller() as caller:
                yield caller
        finally:
            if process.returncode is None:
                self.terminate()
            async with asyncio.timeout(30):
                assert await process.wait() == 0


@pytest.fixture
def process(database, keys, tmp_path, as_type) -> Process:
    return Process(database, keys, tmp_path, as_type)


@pytest.fixture
def qdrant_process(database, keys, tmp_path, as_type) -> Process:
    """MemoryFS with its copy on a Qdrant in local mode, kept in a folder."""
    qdrant = {"url": f"file://{tmp_path}/qdrant", "copy_poll_s": 0.02}
    return Process(database, keys, tmp_path, as_type, memoryfs={"vector_backend": "qdrant"}, qdrant=qdrant)


def entries(text: str, count: int) -> list[memoryfs_pb2.WriteEntry]:
    vector = memoryfs_pb2.Embedding(model="usem3-512", values=[1.0] + [0.0] * 511)
    return [memoryfs_pb2.WriteEntry(content=f"{text} {n}", embedding=vector) for n in range(count)]


@pytest.mark.parametrize(
    ("point", "kept_before_retry"), [("memoryfs.write.before_commit", 0), ("memoryfs.write.after_commit", 12)]
)
async def test_a_write_killed_around_its_commit_is_whole_or_absent_and_a_retry_gives_one(
    process, point, kept_before_retry
):
    async with process.running() as caller:
        earlier = await caller.write_entries(entries("acknowledged earlier", 3), request="r-0")

    async def drive(caller) -> None:
        await caller.write_entries(entries("killed", 12), request="r-1")

    await process.crash_at(point, drive)
    async with process.running() as caller:
        kept = (await caller.list(page_size=100)).items
        assert len(kept) == 3 + kept_before_retry
        assert {result.id for result in earlier} <= {item.id for item in kept}
        results = await caller.write_entries(entries("killed", 12), request="r-1")
        items = (await caller.list(page_size=100)).items
        assert len(items) == 15
        assert {result.id for result in results} < {item.id for item in items}
        vector = memoryfs_pb2.Embedding(model="usem3-512", values=[1.0] + [0.0] * 511)
        for found in (await caller.read_ids("killed", embedding=vector, top_k=100), await caller.read_ids(top_k=100)):
            assert sorted(found) == sorted(item.id for item in items)


@pytest.mark.parametrize("point", ["memoryfs.index.before_copy", "memoryfs.index.after_copy"])
async def test_what_is_acknowledged_is_found_by_meaning_though_the_copier_was_killed(qdrant_process, point, database):
    process, written = qdrant_process, []

    async def drive(caller) -> None:
        written.extend(await caller.write_entries(entries("acknowledged", 12), request="r-1"))

    await process.crash_at(point, drive)
    async with await psycopg.AsyncConnection.connect(database.admin_dsn) as admin:
        cursor = await admin.execute("SELECT count(DISTINCT item_id) FROM memoryfs.index_outbox")
        assert await cursor.fetchone() == (12,)
    async with process.running() as caller:
        written = await caller.write_entries(entries("acknowledged", 12), request="r-1")
        embedding = entries("", 1)[0].embedding
        answer = await caller.read("x", embedding=embedding, top_k=50)
        assert sorted(hit.item.id for hit in answer.hits) == sorted(result.id for result in written)
        assert all(hit.details.dense > 0.99 for hit in answer.hits)
        async with await psycopg.AsyncConnection.connect(database.admin_dsn, autocommit=True) as admin:
            async with asyncio.timeout(20):
                while await (await admin.execute("SELECT 1 FROM memoryfs.index_outbox LIMIT 1")).fetchone():  # noqa: ASYNC110 - the process does it
                    await asyncio.sleep(0.02)
        answer = await caller.read("x", embedding=embedding, top_k=50)
        assert sorted(hit.item.id for hit in answer.hits) == sorted(result.id for result in written)
        assert not answer.degradations


async def test_an_update_killed_before_its_commit_leaves_the_old_revision(process):
    async with process.running() as caller:
        (first,) = await caller.write_entries(entries("first", 1))

    async def drive(caller) -> None:
        await caller.update(first.id, content="second", embedding=entries("", 1)[0].embedding)

    await process.crash_at("memoryfs.write.before_commit", drive)
    async with process.running() as caller:
        item = await caller.get(first.id)
        assert (item.content, item.revision, item.etag) == ("first 0", 1, first.etag)


async def test_sigterm_lets_running_writes_end(process):
    async with process.running() as caller:
        writing = [asyncio.create_task(caller.write_entries(entries(f"call {n}", 20))) for n in range(20)]
        await asyncio.wait(writing, return_when=asyncio.FIRST_COMPLETED)
        process.terminate()
        answers = await asyncio.gather(*writing, return_exceptions=True)
    kept = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert kept
    async with process.running() as caller:
        listed = set(await caller.list_ids(page_size=500))
    assert {result.id for answer in kept for result in answer} <= listed
    assert len(listed) % 20 == 0


async def test_an_import_killed_before_its_commit_kept_nothing_and_a_retry_keeps_it_once(process):
    async with process.running() as caller:
        results = await caller.write_entries(entries("exported", 12))
        parts = [part async for part in caller.stream("Export", transfer_pb2.ExportRequest(path=PATH))]
        for result in results:
            await caller.update(result.id, content="changed since")
    lines = b"".join(part.data for part in parts)
    request = transfer_pb2.ImportRequest(
        path=PATH,
        manifest=parts[-1].manifest,
        conflict=transfer_pb2.IMPORT_CONFLICT_REPLACE,
        request_id="import",
        part=1,
        lines=lines,
        sha256=hashlib.sha256(lines).hexdigest(),
    )

    async def drive(caller) -> None:
        await caller.call("Import", request)

    await process.crash_at("memoryfs.import.before_commit", drive)
    async with process.running() as caller:
        items = (await caller.list(page_size=100)).items
        assert {(item.content, item.revision) for item in items} == {("changed since", 2)}
        for _ in range(2):
            assert (await caller.call("Import", request)).replaced_count == 12
        items = (await caller.list(page_size=100)).items
        assert sorted(item.content for item in items) == sorted(f"exported {n}" for n in range(12))
        assert {item.revision for item in items} == {3}


async def test_a_judgement_killed_before_its_commit_leaves_the_candidate(process):
    async with process.running() as caller:
        (first,) = await caller.write_entries([memoryfs_pb2.WriteEntry(content="doubtful", confidence=0.5)])
    request = lifecycle_pb2.PromoteRequest(path=PATH, id=first.id, request_id="promote")

    async def drive(caller) -> None:
        await caller.call("Promote", request)

    await process.crash_at("memoryfs.judge.before_commit", drive)
    async with process.running() as caller:
        item = await caller.get(first.id)
        assert (item.state, item.revision) == (item_pb2.STATE_CANDIDATE, 1)
        assert await caller.read_ids("doubtful") == []
        assert (await caller.call("Promote", request)).item.state == item_pb2.STATE_ACTIVE
        assert await caller.read_ids("doubtful") == [first.id]


async def test_a_forgetting_by_filter_killed_before_its_commit_forgets_nothing(process):
    where = filter_pb2.Filter(tags_all=["gone"])
    async with process.running() as caller:
        for entry in (written := entries("to forget", 12)):
            entry.tags.append("gone")
        await caller.write_entries(written)
        asked = lifecycle_pb2.ForgetRequest(path=PATH, filter=where, preview=True, request_id="preview")
        token = (await caller.call("Forget", asked)).preview_token
    request = lifecycle_pb2.ForgetRequest(path=PATH, filter=where, preview_token=token, request_id="forget")

    async def drive(caller) -> None:
        await caller.call("Forget", request)

    await process.crash_at("memoryfs.forget.before_commit", drive)
    async with process.running() as caller:
        assert len(await caller.read_ids("forget", top_k=100)) == 12
        for _ in range(2):
            assert (await caller.call("Forget", request)).forgotten_count == 12
        assert await caller.read_ids("forget", top_k=100) == []


async def test_a_merge_killed_before_its_commit_leaves_its_sources(process):
    async with process.running() as caller:
        ids = [result.id for result in await caller.write_entries(entries("fact", 3))]
    request = lifecycle_pb2.MergeRequest(path=PATH, ids=ids, content="the facts together", request_id="merge")

    async def drive(caller) -> None:
        await caller.call("Merge", request)

    await process.crash_at("memoryfs.merge.before_commit", drive)
    async with process.running() as caller:
        items = (await caller.list(page_size=100)).items
        assert {(item.id, item.revision, item.superseded_by) for item in items} == {(name, 1, "") for name in ids}
        made = {(await caller.call("Merge", request)).item.id for _ in range(2)}
        assert set(await caller.list_ids()) == made
        assert len(made) == 1


async def test_a_rollback_killed_before_its_commit_has_changed_nothing(process):
    async with process.running() as caller:
        ids = [result.id for result in await caller.write_entries(entries("then", 12))]
        asked = snapshots_pb2.CreateSnapshotRequest(path=PATH, request_id="snapshot")
        point = (await caller.call("CreateSnapshot", asked)).snapshot.id
        changed = [memoryfs_pb2.WriteEntry(id=name, tags=["since"]) for name in ids[:6]]
        await caller.write_entries([*changed, *entries("since", 3)])
        await caller.forget(ids[11])
    request = snapshots_pb2.RollbackRequest(path=PATH, snapshot_id=point, request_id="rollback")

    async def drive(caller) -> None:
        await caller.call("Rollback", request)

    await process.crash_at("memoryfs.rollback.before_commit", drive)
    async with process.running() as caller:
        items = (await caller.list(page_size=100)).items
        assert (len(items), sum("since" in item.tags for item in items)) == (14, 6)
        listed = snapshots_pb2.ListSnapshotsRequest(path=PATH)
        assert [found.id for found in (await caller.call("ListSnapshots", listed)).snapshots] == [point]
        for _ in range(2):
            answer = await caller.call("Rollback", request)
            assert (answer.reverted_count, answer.forgotten_count, answer.restored_count) == (6, 3, 1)
        items = (await caller.list(page_size=100)).items
        assert {item.id for item in items} == set(ids)
        assert not any(item.tags for item in items)
