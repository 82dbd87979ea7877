"""kill -9 of `mos up` in the middle of writes: what was acknowledged is kept, what is sent again happens once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from memoryos_postgres.embedded import running_pids
from memoryos_sdk import Client, Retry, connect
from memoryos_sdk.errors import CallError
from memoryos_testing.stack import Stack, running_stack

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]
PATH = "/tenants/acme/memory/episodic/chaos"
LEFT_OUT = ("opa", "policy", "tool-gateway", "harness", "harness-worker")
WRITERS = 4
WRITES_BEFORE_KILL = 60
ROUNDS = 3


class Writers:
    """Callers that write without pause, each write with a request_id of its own."""

    def __init__(self) -> None:
        self.sent: dict[str, str] = {}
        """request_id → content."""
        self.acknowledged: dict[str, str] = {}
        """request_id → item."""
        self.enough = asyncio.Event()
        self.killed = False

    async def run(self, client: Client, round_number: int, writer: int) -> None:
        """Write until the deployment is gone."""
        for n in range(10_000):
            request_id = f"w-{round_number}-{writer}-{n}"
            self.sent[request_id] = f"记录 {request_id}"
            try:
                result = await client.memory.write(PATH, content=self.sent[request_id], request_id=request_id)
            except CallError:
                if not self.killed:
                    raise
                return
            self.acknowledged[request_id] = result.id
            if len(self.acknowledged) >= WRITES_BEFORE_KILL * round_number:
                self.enough.set()


def client_of(stack: Stack, attempts_max: int) -> Client:
    token = stack.token("acme", "u1")
    return connect(token=token, retry=Retry(attempts_max=attempts_max), timeout_s=20, **stack.addresses)


async def test_acknowledged_writes_survive_and_repeated_ones_happen_once(tmp_path: Path) -> None:
    writers = Writers()
    for round_number in range(1, ROUNDS + 1):
        async with running_stack(without=LEFT_OUT, folder=tmp_path) as stack:
            await check(stack, writers)
            writers.enough.clear()
            writers.killed = False
            async with client_of(stack, attempts_max=1) as client:
                writing = [asyncio.create_task(writers.run(client, round_number, n)) for n in range(WRITERS)]
                enough = asyncio.create_task(writers.enough.wait())
                await asyncio.wait({enough, *writing}, timeout=120, return_when=asyncio.FIRST_COMPLETED)
                writers.killed = writers.enough.is_set()
                stack.process.kill()
                await asyncio.gather(*writing)
                assert writers.killed
            await stack.process.wait()
        (tmp_path / "run" / "addresses.json").unlink()
        async with asyncio.timeout(20):
            while await asyncio.to_thread(running_pids, tmp_path / "postgres"):  # noqa: ASYNC110 - another's processes
                await asyncio.sleep(0.02)
    async with running_stack(without=LEFT_OUT, folder=tmp_path) as stack:
        await check(stack, writers)


async def check(stack: Stack, writers: Writers) -> None:
    """Everything acknowledged is there; everything sent again is there once, under its first name."""
    async with client_of(stack, attempts_max=6) as client:
        for request_id, content in writers.sent.items():
            again = await client.memory.write(PATH, content=content, request_id=request_id)
            first = writers.acknowledged.setdefault(request_id, again.id)
            assert again.id == first, request_id
        kept = {item.id: item.content for item in await client.memory.list(PATH, page_size=500).all()}
        assert kept == {writers.acknowledged[request_id]: content for request_id, content in writers.sent.items()}
