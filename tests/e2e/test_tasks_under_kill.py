"""Tasks of the real worker through the real gateway, policy and memory, while processes are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from collections import Counter
from typing import Any

import pytest

from .conftest import World

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.asyncio(loop_scope="session")]
TASKS = 12
ENDED = {"succeeded", "dead", "cancelled"}


def pid_of(world: World, child: str) -> int | None:
    """The process of a child of `mos up`, while it runs."""
    status = json.loads((world.stack.folder / "run" / "status.json").read_text(encoding="utf-8"))
    return next((row["pid"] for row in status["children"] if row["name"] == child and row["state"] == "ready"), None)


async def test_killed_workers_and_gateways_pay_every_refund_at_most_once(world: World) -> None:
    client = world.client("u-killed")
    session = await client.sessions.create()
    books = world.business.books
    order = max(books.orders, key=lambda name: books.orders[name]["total"])
    before = Counter(refund["amount"] for refund in books.refunds)
    amounts = [round(100 + n + n / 100, 2) for n in range(TASKS)]
    submitted = [
        await client.tasks.submit(
            "assistant",
            session_id=session.id,
            input=f"Refund {amount} EUR for order {order}",
            request_id=uuid.uuid4().hex,
        )
        for amount in amounts
    ]
    killing = asyncio.create_task(kill_in_turn(world, ["harness-worker", "tool-gateway", "harness-worker"]))
    try:
        tasks = [await client.tasks.wait(task.id, timeout_s=100) for task in submitted]
        await killing
    finally:
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
    paid = Counter(refund["amount"] for refund in books.refunds)
    paid.subtract(before)
    assert max(paid.values()) <= 1
    for amount, task in zip(amounts, tasks, strict=True):
        assert task.state == "succeeded", (task.error_code, task.error_message)
        steps: list[Any] = [step async for step in client.tasks.steps(task.id)]
        calls = [step for step in steps if step.kind == "tool_call"]
        assert len(calls) == 1, "the same request was never made a second call"
        outcome = calls[0].output["outcome"]
        # Lost contact may have paid or not; it is said so, and nobody tries again.
        assert outcome in ("SUCCEEDED", "UNKNOWN")
        if outcome == "SUCCEEDED":
            assert paid[amount] == 1
        assert [step.sequence for step in steps] == list(range(1, len(steps) + 1))


async def kill_in_turn(world: World, children: list[str]) -> None:
    """Kill one child after the other with SIGKILL, each as soon as it is ready (again)."""
    killed: set[int | None] = {None}
    for child in children:
        async with asyncio.timeout(60):
            while (pid := pid_of(world, child)) in killed:  # noqa: ASYNC110 - the file is another process's
                await asyncio.sleep(0.05)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        killed.add(pid)
