"""Purge: nothing readable is left anywhere, nothing of others changes, and a signed receipt says where was looked."""

from __future__ import annotations

import asyncio
import hashlib
import json

import grpc
import pytest
from memoryos.jobs.v1 import jobs_pb2, jobs_pb2_grpc
from memoryos.memoryfs.v1 import admin_pb2, lifecycle_pb2, memoryfs_pb2, namespace_pb2, snapshots_pb2
from memoryos_audit.seal_key import RECEIPT_DOMAIN, PublicSealKeys, public_file
from memoryos_grpc import remote_error
from memoryos_memoryfs.domain.erasure import PURGE
from memoryos_postgres import roles
from memoryos_postgres.remains import Remains, Sought

pytestmark = pytest.mark.usefixtures("short_caches")
CANARY = "金丝雀 canary 4711"
ADMIN = frozenset({"tenant-admin"})
USER = frozenset({"user"})


def person(service, name, **fields):
    return service.caller(name, **{"roles": USER, **fields})


async def purge(caller, *, request: str, **target):
    return (await caller.call("Purge", admin_pb2.PurgeRequest(request_id=request, **target))).job


async def ended(service, caller, job_id: str, seconds: float = 60) -> jobs_pb2.Job:
    stub = jobs_pb2_grpc.JobsStub(service.channel)
    watched = stub.WatchJob(jobs_pb2.WatchJobRequest(id=job_id), metadata=caller._metadata, timeout=seconds)
    job = None
    async for message in watched:
        job = message.job
    assert job is not None
    return job


async def receipt(service, caller, job_id: str) -> dict:
    answer = await caller.call("GetReceipt", admin_pb2.GetReceiptRequest(job_id=job_id))
    keys = PublicSealKeys.load(public_file(service.keys.receipt_key_file))
    assert keys.signed(answer.key_id, answer.signature, answer.receipt_json, RECEIPT_DOMAIN)
    assert not keys.signed(answer.key_id, answer.signature, answer.receipt_json + b" ", RECEIPT_DOMAIN)
    return json.loads(answer.receipt_json)


async def tables(service) -> list[str]:
    rows = await service.rows(
        "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname IN ('core', 'memoryfs') AND c.relkind = 'r' ORDER BY 1"
    )
    return [name for (name,) in rows]


async def digest_of_others(service, tenant: str, but: tuple[str, ...] = ()) -> dict[str, str]:
    """Give a hash of every row of every table that is not the tenant's."""
    found = {}
    for table in await tables(service):
        columns = await service.rows(
            "SELECT 1 FROM pg_attribute WHERE attrelid = %s::regclass AND attname = 'tenant'", table
        )
        where = f"WHERE t.tenant <> '{tenant}'" if columns else ""
        rows = await service.rows(f"SELECT t::text FROM {table} t {where} ORDER BY 1")
        found[table] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return {table: value for table, value in found.items() if table not in but}


async def places_holding(service, *needles: str) -> dict[str, int]:
    """Give the tables in which a needle stands in clear."""
    found = {}
    for table in await tables(service):
        for needle in needles:
            ((count,),) = await service.rows(
                f"SELECT count(*) FROM {table} t WHERE position(%s IN t::text) > 0", needle
            )
            if count:
                found[table] = found.get(table, 0) + count
    return found


async def test_items_are_purged_with_a_signed_receipt(service):
    alice = person(service, "alice")
    ids = [await alice.write(f"{CANARY} {n}", tags=["x"]) for n in range(3)]
    await alice.update(ids[0], content="changed " + CANARY)
    kept = await alice.write("stays")
    job = await purge(alice, request="p-1", ids=ids, path=alice.path)
    assert set(await alice.read_ids(top_k=10)) == {kept}  # at once
    done = await ended(service, alice, job.id)
    assert done.state == jobs_pb2.JOB_STATE_SUCCEEDED, done
    paper = await receipt(service, alice, job.id)
    assert all(place["found"] == 0 for place in paper["places"])
    places = {place["place"]: place["removed"] for place in paper["places"]}
    assert places["memoryfs.items"] == 3
    assert places["memoryfs.item_revisions"] == 1
    assert {"core.idempotency", "core.jobs"} & set(places)
    assert paper["services_absent"] == ["harness", "policy", "tool-gateway"]
    for item_id in ids:
        with pytest.raises(grpc.aio.AioRpcError) as gone:
            await alice.get(item_id)
        assert gone.value.code() == grpc.StatusCode.NOT_FOUND
    assert set(await places_holding(service, *ids)) <= {"core.audit"}
    assert await alice.read_ids(top_k=10) == [kept]


async def test_the_same_request_gives_the_same_job(service):
    alice = person(service, "alice")
    item = await alice.write(CANARY)
    first = await purge(alice, request="p-1", ids=[item], path=alice.path)
    await ended(service, alice, first.id)
    assert (await purge(alice, request="p-1", ids=[item], path=alice.path)).id == first.id


async def test_a_person_is_gone_at_once_and_for_good(service):
    alice, bob = person(service, "alice"), person(service, "bob")
    admin = person(service, "root", roles=ADMIN)
    own = await alice.write(CANARY, readers=["user:bob"])
    about = await bob.write(f"about her: {CANARY}", user="alice")
    bobs = await bob.write("bob's own", readers=["user:alice"])
    job = await purge(alice, request="p-1", user="alice")
    assert await bob.read_ids(top_k=10) == [bobs]
    assert await alice.read_ids(top_k=10) == [bobs]
    for caller, item in ((bob, own), (bob, about), (alice, own)):
        with pytest.raises(grpc.aio.AioRpcError):
            await caller.get(item)
    done = await ended(service, alice, job.id)
    assert done.state == jobs_pb2.JOB_STATE_SUCCEEDED, done
    paper = await receipt(service, alice, job.id)
    assert {place["found"] for place in paper["places"]} == {0}
    assert "alice" not in json.dumps(paper)
    left = await places_holding(service, "alice", own, about)
    assert set(left) <= {"core.audit", "core.idempotency"}, left
    assert await bob.read_ids(top_k=10) == [bobs]
    assert (await purge(alice, request="p-1", user="alice")).id == job.id
    assert (await receipt(service, admin, job.id)) == paper
    ((keys,),) = await service.rows("SELECT count(*) FROM core.data_keys WHERE subject_hmac <> 'root'")
    assert keys == 2  # bob's and that of the service


async def test_an_erased_person_who_comes_back_is_a_new_one(service):
    alice, bob = person(service, "alice"), person(service, "bob")
    await bob.write("for her", readers=["user:alice"])
    await alice.write(CANARY)
    job = await purge(alice, request="p-1", user="alice")
    await ended(service, alice, job.id)
    await asyncio.sleep(0)
    again = await alice.write("back again")
    assert (await alice.get(again)).content == "back again"
    assert again in await alice.read_ids("back again", top_k=10)


async def test_a_late_retry_revives_and_reveals_nothing(service):
    alice = person(service, "alice")
    entry = [memoryfs_pb2.WriteEntry(content=CANARY)]
    (written,) = await alice.write_entries(entry, request="w-1")
    job = await purge(alice, request="p-1", ids=[written.id], path=alice.path)
    await ended(service, alice, job.id)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await alice.write_entries(entry, request="w-1")
    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert await alice.read_ids(top_k=10) == []
    with pytest.raises(grpc.aio.AioRpcError):
        await alice.restore(written.id)


async def test_who_may_purge_what(service):
    alice, bob, admin = person(service, "alice"), person(service, "bob"), person(service, "root", roles=ADMIN)
    item = await alice.write(CANARY, readers=["user:bob"])
    agent = service.caller("alice", roles=USER | {"agent"}, chain=("helper",))
    foreign = person(service, "alice", tenant="evil")
    limited = person(service, "alice", write_paths=("/tenants/acme/memory/working",))
    refused = [
        (bob, {"user": "alice"}, "PERMISSION_DENIED"),
        (bob, {"ids": [item], "path": bob.path}, "PERMISSION_DENIED"),
        (agent, {"ids": [item], "path": alice.path}, "PERMISSION_DENIED"),
        (agent, {"user": "alice"}, "PERMISSION_DENIED"),
        (limited, {"user": "alice"}, "PERMISSION_DENIED"),
        (limited, {"ids": [item], "path": alice.path}, "PERMISSION_DENIED"),
        (foreign, {"ids": [item], "path": foreign.path}, "NOT_FOUND"),
        (foreign, {"ids": [item], "path": alice.path}, "PERMISSION_DENIED"),
        (alice, {"ids": [item], "path": "/tenants/acme/memory/semantic"}, "NOT_FOUND"),
        (alice, {"ids": ["mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"], "path": alice.path}, "NOT_FOUND"),
        (alice, {"ids": ["mem_1' OR '1'='1"], "path": alice.path}, "INVALID_ARGUMENT"),
        (alice, {"user": "alice", "ids": [item]}, "INVALID_ARGUMENT"),
        (alice, {}, "INVALID_ARGUMENT"),
        (alice, {"ids": [item]}, "INVALID_ARGUMENT"),
    ]
    for number, (caller, target, code) in enumerate(refused):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await purge(caller, request=f"no-{number}", **target)
        assert error.value.code().name == code, (number, error.value)
    assert (await alice.get(item)).content == CANARY
    job = await purge(admin, request="yes", ids=[item], path=alice.path)
    assert (await ended(service, admin, job.id)).state == jobs_pb2.JOB_STATE_SUCCEEDED
    with pytest.raises(grpc.aio.AioRpcError):
        await bob.call("GetReceipt", admin_pb2.GetReceiptRequest(job_id=job.id))


async def test_other_tenants_keep_every_byte(service):
    alice, twin = person(service, "alice"), person(service, "alice", tenant="globex")
    for caller in (alice, twin):
        await caller.write(CANARY, tags=["x"], user="alice")
        item = await caller.write("two")
        await caller.update(item, content="three")
    await alice.read("two")
    before = await digest_of_others(service, "acme")
    job = await purge(alice, request="p-1", user="alice")
    await ended(service, alice, job.id)
    but = ("core.audit_seals", "core.due_jobs", "memoryfs.upkeep_runs", "memoryfs.item_access")
    after = await digest_of_others(service, "acme")
    assert {t: v for t, v in before.items() if t not in but} == {t: v for t, v in after.items() if t not in but}
    assert len(await twin.list_ids()) == 2


async def test_a_subtree_of_more_than_one_batch(service, monkeypatch):
    monkeypatch.setattr("memoryos_memoryfs.operations.run_purge.BATCH", 100)
    alice, bob = person(service, "alice"), person(service, "bob")
    below = f"{alice.path}/项目 a"
    vector = memoryfs_pb2.Embedding(model=service.embedder.model_id, values=[1.0] + [0.0] * 63)
    for _ in range(3):
        await alice.write_entries(
            [memoryfs_pb2.WriteEntry(content=f"{CANARY} {n}", embedding=vector) for n in range(335)], path=below
        )
    beside = await alice.write("beside", path=f"{alice.path}/项目 ab")
    bobs = await bob.write("bob's", path=below)
    job = await purge(alice, request="p-1", path=below, subtree=True)
    done = await ended(service, alice, job.id)
    assert done.state == jobs_pb2.JOB_STATE_SUCCEEDED
    paper = await receipt(service, alice, job.id)
    assert {p["place"]: p["removed"] for p in paper["places"]}["memoryfs.items"] == 1005
    assert await alice.list_ids(page_size=100) == [beside]
    assert await bob.list_ids() == [bobs]


async def test_jobs_list_and_kind(service):
    alice, bob = person(service, "alice"), person(service, "bob")
    item = await alice.write(CANARY)
    job = await purge(alice, request="p-1", ids=[item], path=alice.path)
    stub = jobs_pb2_grpc.JobsStub(service.channel)
    listed = await stub.ListJobs(jobs_pb2.ListJobsRequest(kind=PURGE), metadata=alice._metadata)
    assert [one.id for one in listed.jobs] == [job.id]
    assert not (await stub.ListJobs(jobs_pb2.ListJobsRequest(), metadata=bob._metadata)).jobs
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await stub.GetJob(jobs_pb2.GetJobRequest(id=job.id), metadata=bob._metadata)
    assert error.value.code() == grpc.StatusCode.NOT_FOUND


async def test_the_search_finds_what_is_left(service, database_factory):
    """A receipt with zeros is worth something: what stands in any table that is no label is found."""
    alice, bob = person(service, "alice"), person(service, "bob")
    item = await alice.write(CANARY, readers=["user:bob"])
    await bob.write("about her", user="alice")
    database = await database_factory(roles.MEMORYFS)
    remains = Remains(database, ["memoryfs", "core"])
    of_user = await remains.find("acme", Sought(user="alice"))
    assert of_user["memoryfs.items"] == 2
    assert of_user["memoryfs.principals"] == 1
    of_item = await remains.find("acme", Sought(ids=(item,)))
    listed = await remains.find("acme", Sought(listed="SELECT %(job_id)s::text", job_id=item))
    assert of_item == listed
    assert of_item["memoryfs.items"] == of_item["memoryfs.item_tokens"] == 1
    assert set((await remains.find("evil", Sought(user="alice"))).values()) == {0}
    await service.rows("DELETE FROM core.data_keys WHERE subject_hmac <> 'root'")
    assert (await remains.find("acme", Sought(user="nobody")))["memoryfs.items"] == 2  # sealed under no key


async def test_what_was_made_from_an_item_goes_with_it(service):
    alice = person(service, "alice")
    sources = [await alice.write(f"source {n}") for n in range(2)]
    request = lifecycle_pb2.MergeRequest(path=alice.path, ids=sources, content="both", request_id="m-1")
    merged = (await alice.call("Merge", request)).item
    job = await purge(alice, request="p-1", ids=[sources[0]], path=alice.path)
    assert merged.id not in await alice.list_ids()  # at once
    await ended(service, alice, job.id)
    assert set(await places_holding(service, sources[0], merged.id)) <= {"core.audit"}
    assert (await alice.get(sources[1])).superseded_by == ""
    assert await alice.read_ids("source 1") == [sources[1]]


async def test_what_was_forgotten_as_a_whole_does_not_come_back_in_parts(service):
    alice = person(service, "alice")
    sources = [await alice.write(f"source {n}") for n in range(2)]
    request = lifecycle_pb2.MergeRequest(path=alice.path, ids=sources, content="both", request_id="m-1")
    await alice.forget((await alice.call("Merge", request)).item.id)
    job = await purge(alice, request="p-1", ids=[sources[0]], path=alice.path)
    assert (await ended(service, alice, job.id)).state == jobs_pb2.JOB_STATE_SUCCEEDED
    assert await alice.list_ids() == []


@pytest.mark.parametrize("merger", ["alice", "bob"])
@pytest.mark.parametrize("named", ["user", "ids", "subtree"])
async def test_what_was_merged_with_what_is_erased_stands_for_itself_again(service, named, merger):
    """Whoever merged it and however it is named: what others said is not lost with it."""
    admin = person(service, "root", roles=USER | ADMIN)
    settings = namespace_pb2.PathSettings(path="/tenants/acme/memory/semantic/team")
    settings.writers.principals.append("group:team")
    await admin.call("SetPathSettings", namespace_pb2.SetPathSettingsRequest(settings=settings, request_id="s-1"))
    alice, bob = (person(service, name, groups=("team",)) for name in ("alice", "bob"))
    theirs = await alice.write("source of alice", path=f"{settings.path}/a", readers=["user:bob"])
    own = await bob.write("source of bob", path=f"{settings.path}/b", readers=["user:alice"])
    request = lifecycle_pb2.MergeRequest(path=settings.path, ids=[theirs, own], content="both", request_id="m-1")
    merged = (await {"alice": alice, "bob": bob}[merger].call("Merge", request)).item
    by_name = {"user": {"user": "alice"}, "ids": {"ids": [theirs], "path": settings.path},
               "subtree": {"subtree": True, "path": f"{settings.path}/a"}}  # fmt: skip
    job = await purge(admin, request="p-1", **by_name[named])
    assert (await ended(service, admin, job.id)).state == jobs_pb2.JOB_STATE_SUCCEEDED
    assert await bob.list_ids(path=settings.path) == [own]
    assert await bob.read_ids("source of bob", path=settings.path) == [own]
    assert set(await places_holding(service, theirs, merged.id)) <= {"core.audit"}


async def test_a_purge_that_has_begun_is_not_stopped_and_the_wish_is_recorded(service):
    alice = person(service, "alice")
    item = await alice.write(CANARY)
    job = await purge(alice, request="p-1", ids=[item], path=alice.path)
    stub = jobs_pb2_grpc.JobsStub(service.channel)
    asked = (await stub.CancelJob(jobs_pb2.CancelJobRequest(id=job.id), metadata=alice._metadata)).job
    assert asked.state != jobs_pb2.JOB_STATE_CANCELLED
    assert asked.cancel_requested
    assert (await ended(service, alice, job.id)).state == jobs_pb2.JOB_STATE_SUCCEEDED
    rows = await service.rows("SELECT target_ids FROM core.audit WHERE method LIKE '%%CancelJob'")
    assert rows == [([job.id],)]


async def test_a_writer_of_the_path_purges_nothing_of_others(service):
    alice, bob = (person(service, name, groups=("team",)) for name in ("alice", "bob"))
    settings = namespace_pb2.PathSettings(path=f"{alice.path}/team")
    settings.writers.principals.append("group:team")
    asked = namespace_pb2.SetPathSettingsRequest(settings=settings, request_id="s-1")
    await person(service, "root", roles=ADMIN).call("SetPathSettings", asked)
    item = await alice.write(CANARY, path=settings.path, readers=["group:team"])
    await bob.update(item, path=settings.path, tags=["a-writer-changes-it"])
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await purge(bob, request="p-1", ids=[item], path=settings.path)
    assert remote_error(error.value).reason == "NOT_OWNER"
    job = await purge(bob, request="p-2", path=settings.path, subtree=True)
    await ended(service, bob, job.id)
    assert (await alice.get(item)).content == CANARY


async def test_what_the_search_finds_keeps_the_receipt_back(service):
    """A table of a later release that no purge can empty yet: there is no receipt as long as it names the item."""
    alice = person(service, "alice")
    item = await alice.write(CANARY)
    await service.rows("CREATE TABLE memoryfs.later (tenant text, item_id text)")
    await service.rows("GRANT SELECT ON memoryfs.later TO memoryos_memoryfs")
    await service.rows("INSERT INTO memoryfs.later VALUES ('acme', %s)", item)
    job = await purge(alice, request="p-1", ids=[item], path=alice.path)
    stub = jobs_pb2_grpc.JobsStub(service.channel)
    watched = stub.WatchJob(jobs_pb2.WatchJobRequest(id=job.id), metadata=alice._metadata, timeout=60)
    async for message in watched:
        if message.job.attempts > 1:  # it begins once more
            break
    assert not message.job.HasField("end_time")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await receipt(service, alice, job.id)
    assert remote_error(error.value).reason == "RECEIPT_UNAVAILABLE"
    await service.rows("DELETE FROM memoryfs.later")
    assert (await ended(service, alice, job.id)).state == jobs_pb2.JOB_STATE_SUCCEEDED
    assert (await receipt(service, alice, job.id))["places"]


async def test_what_a_purge_has_named_is_brought_back_by_nothing(service):
    """From the answer of Purge on: by Restore, by Rollback, not even by an administrator."""
    alice, admin = person(service, "alice"), person(service, "root", roles=USER | ADMIN)
    written = await alice.write("to be erased")
    points = []
    for caller in (alice, admin):
        request = snapshots_pb2.CreateSnapshotRequest(path=alice.path, request_id="s-1")
        points.append((caller, (await caller.call("CreateSnapshot", request)).snapshot.id))
    job = await purge(alice, request="p-1", ids=[written], path=alice.path)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await alice.restore(written)
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    for caller, point in points:
        back = snapshots_pb2.RollbackRequest(path=alice.path, snapshot_id=point, request_id="r-1")
        assert (await caller.call("Rollback", back)).restored_count == 0
        assert await alice.list_ids() == []
    assert (await ended(service, alice, job.id)).state == jobs_pb2.JOB_STATE_SUCCEEDED
    assert await service.rows("SELECT * FROM memoryfs.frozen_items") == []
