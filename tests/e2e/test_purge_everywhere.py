"""A person is erased in every service: what was written in every field, asked, decided, called and reviewed."""

from __future__ import annotations

import asyncio
import json
import sys

import grpc
import pytest
from memoryos.jobs.v1 import jobs_pb2, jobs_pb2_grpc
from memoryos.memoryfs.v1 import admin_pb2, memoryfs_pb2_grpc
from memoryos_audit.seal_key import RECEIPT_DOMAIN, PublicSealKeys

from .conftest import World
from .test_canary import EPISODIC, columns_with

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]
USER = "u-erased"
AUDIT = ("user_name", "actor", "target_ids", "attributes")
KEPT = {*(f"core.audit.{column}" for column in AUDIT), "core.idempotency.principal"}
"""What the receipt says stays: ids in the append-only audit, and who must not have a request done twice."""


async def live(world: World) -> list[str]:
    """Let the person use every service, and others write about them; give the items."""
    client, other = world.client(USER), world.client("u-neighbour")
    own = await client.memory.write(f"{EPISODIC}/{USER}", content="prefers tea", meta={"readers": ["user:u-neighbour"]})
    about = await other.memory.write(f"{EPISODIC}/u-neighbour", content="told me a secret", meta={"user": USER})
    session = await client.sessions.create()
    await client.sessions.append(session.id, [{"role": "user", "content": "my message"}])
    task = await client.tasks.submit("assistant", session_id=session.id, input="以后 please call me by name")
    assert (await client.tasks.wait(task.id, timeout_s=60)).state == "succeeded"
    await client.tools.call("memory.write", {"content": "told by a tool", "path": f"{EPISODIC}/{USER}"})
    await other.tools.call("memory.read", {"path": f"{EPISODIC}/{USER}", "query": "tea"})
    parked = await client.tools.call("refund.create", {"order_id": "x", "amount": 700})
    reviewer = world.client("r-erased", roles=("reviewer",), groups=("finance",))
    await reviewer.reviews.deny(parked.review_id, comment="no, dear customer")
    return [own.id, about.id]


@pytest.mark.timeout(300)
async def test_a_person_is_erased_in_every_service(world):
    ids = await live(world)
    neighbour = await world.client("u-neighbour").memory.write(f"{EPISODIC}/u-neighbour", content="my own")
    metadata = (("authorization", f"Bearer {world.stack.token('acme', USER)}"),)
    async with grpc.aio.insecure_channel(world.stack.addresses["memoryfs"]) as channel:
        stub, jobs = memoryfs_pb2_grpc.MemoryFSStub(channel), jobs_pb2_grpc.JobsStub(channel)
        request = admin_pb2.PurgeRequest(user=USER, request_id="erase-me")
        job = (await stub.Purge(request, metadata=metadata, timeout=20)).job
        async for seen in jobs.WatchJob(jobs_pb2.WatchJobRequest(id=job.id), metadata=metadata, timeout=200):
            job = seen.job
        assert job.state == jobs_pb2.JOB_STATE_SUCCEEDED, job
        answer = await stub.GetReceipt(admin_pb2.GetReceiptRequest(job_id=job.id), metadata=metadata, timeout=20)
    keys = PublicSealKeys.load(world.stack.folder / "keys" / "receipts.pem.pub")
    assert keys.signed(answer.key_id, answer.signature, answer.receipt_json, RECEIPT_DOMAIN)
    receipt = json.loads(answer.receipt_json)
    assert receipt["services_absent"] == []
    removed = {place["place"]: place["removed"] for place in receipt["places"]}
    for place in ("harness.messages", "harness.tasks", "harness.steps", "toolgateway.calls", "policy.decisions",
                  "policy.reviews", "memoryfs.items", "core.data_keys", "core.session_facts"):  # fmt: skip
        assert removed[place] > 0, (place, removed)
    assert {place["found"] for place in receipt["places"]} == {0}
    left = await columns_with(world, [USER.encode(), *(item_id.encode() for item_id in ids)])
    assert set(left) <= KEPT, left
    assert (await world.client("u-neighbour").memory.get(neighbour.id)).content == "my own"


async def test_the_epoch_turns_while_everything_runs(world):
    client = world.client("u-epoch")
    item = await client.memory.write(f"{EPISODIC}/u-epoch", content="before the turn")
    before = (world.stack.folder / "secrets" / "epoch.key").read_text()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "memoryos_cli.main", "keys", "rotate", "--json", "--data", str(world.stack.folder),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0
    assert json.loads(output)["key_count"] > 0
    after = (world.stack.folder / "secrets" / "epoch.key").read_text()
    assert after != before
    assert len(after.split()) == 1
    assert (await client.memory.get(item.id)).content == "before the turn"
    fresh = world.client("u-epoch-2")  # needs a new key
    again = await fresh.memory.write(f"{EPISODIC}/u-epoch-2", content="after the turn")
    assert (await fresh.memory.get(again.id)).content == "after the turn"
    session = await fresh.sessions.create()
    await fresh.sessions.append(session.id, [{"role": "user", "content": "and in the harness"}])
