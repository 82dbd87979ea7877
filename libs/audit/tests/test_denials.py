"""Refused calls leave rows, and a flood of them does not fill the disk."""

import asyncio
from dataclasses import dataclass

from memoryos_audit import DenialRecorder, ReadRecorder
from memoryos_audit.denials import ROWS_PER_WINDOW
from memoryos_audit.event import UNKNOWN_TENANT
from memoryos_core.tokens import Identity

METHOD = "/memoryos.memoryfs.v1.MemoryFS/Read"
ROWS = "SELECT tenant, user_name, kind, method, reason, outcome, count FROM core.audit ORDER BY seq"


@dataclass(frozen=True)
class Caller:
    identity: Identity
    service: str | None = None


def recorder_of(writer, **more):
    return DenialRecorder(ReadRecorder(writer), "memoryfs", **more)


async def rows_of(writer, tenant):
    async with writer.tenant(tenant) as tx:
        return await tx.fetch_all(ROWS)


async def test_an_unverified_caller_is_recorded_under_no_tenant(writer):
    denials = recorder_of(writer)
    await denials.denied("AUTH_FAILED", METHOD, None, "TOKEN_INVALID")
    (row,) = await rows_of(writer, UNKNOWN_TENANT)
    assert (row["kind"], row["reason"], row["outcome"]) == ("AUTH_FAILED", "TOKEN_INVALID", "DENIED")
    assert row["user_name"] is None
    await denials.close()


async def test_a_verified_caller_is_named(writer):
    denials = recorder_of(writer)
    caller = Caller(Identity(tenant="acme", user="u7", roles=frozenset({"user"})), "harness")
    await denials.denied("PERMISSION_DENIED", METHOD, caller, "ROLE_REQUIRED")
    (row,) = await rows_of(writer, "acme")
    assert (row["user_name"], row["kind"]) == ("u7", "PERMISSION_DENIED")
    await denials.close()


async def test_a_flood_is_counted_and_no_denial_is_lost(writer):
    denials = recorder_of(writer)
    await asyncio.gather(*(denials.denied("AUTH_FAILED", METHOD, None, "TOKEN_INVALID") for _ in range(3000)))
    await denials.denied("AUTH_FAILED", METHOD, None, "TOKEN_EXPIRED")
    await denials.close()
    rows = await rows_of(writer, UNKNOWN_TENANT)
    assert len(rows) == ROWS_PER_WINDOW + 2
    assert sum(row["count"] for row in rows) == 3001


async def test_the_count_is_written_when_the_window_ends(writer):
    denials = recorder_of(writer, window_s=0.05)
    for _ in range(ROWS_PER_WINDOW + 5):
        await denials.denied("AUTH_FAILED", METHOD, None, "TOKEN_INVALID")
    async with asyncio.timeout(10):
        while sum(row["count"] for row in await rows_of(writer, UNKNOWN_TENANT)) < ROWS_PER_WINDOW + 5:
            await rows_of(writer, "acme")  # any round trip lets the window's task go on
    await denials.close()


async def test_many_different_floods_are_bounded_too(writer, monkeypatch):
    monkeypatch.setattr("memoryos_audit.denials.KEYS_MAX", 10)
    denials = recorder_of(writer)
    calls = [denials.denied("AUTH_FAILED", f"/m/{n}", None, "TOKEN_INVALID") for n in range(500)]
    await asyncio.gather(*calls)
    await denials.close()
    rows = await rows_of(writer, UNKNOWN_TENANT)
    assert len(rows) <= 10 + ROWS_PER_WINDOW + 1
    assert sum(row["count"] for row in rows) == 500
