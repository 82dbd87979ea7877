"""A call is sent to people, reviewed at the command line, and explained afterwards: as a person does it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from .conftest import World

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]
RLO = "\u202e"


async def mos(world: World, *arguments: str, user: str, roles: tuple[str, ...], groups: tuple[str, ...] = ()) -> str:
    """Run a command as somebody and give what it printed."""
    who = ["--user", user, *(f"--role={role}" for role in roles), *(f"--group={group}" for group in groups)]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "memoryos_cli.main", *arguments, *who, "--data", str(world.stack.folder),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(60):
            out, errors = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
    assert child.returncode == 0, errors.decode()
    return out.decode()


async def parked(world: World, user: str) -> Any:
    order = max(world.business.books.orders, key=lambda name: world.business.books.orders[name]["total"])
    call = await world.client(user).tools.call("refund.create", {"order_id": order, "amount": 1500})
    assert call.state == "parked", call
    return call


async def test_from_the_list_to_the_approval_and_its_explanation(world):
    call = await parked(world, "u-reviewed")
    finance: dict[str, Any] = {"user": "r-finance", "roles": ("reviewer",), "groups": ("finance",)}
    assert call.review_id in await mos(world, "review", "list", **finance)
    seen = await mos(world, "review", "show", call.review_id, **finance)
    for text in ("u-reviewed", "refund.create", "counts as denied in ", "1500", f"mos review approve {call.review_id}"):
        assert text in seen
    event = json.loads(await mos(world, "review", "watch", "--json", "-n", "1", user="u-reviewed", roles=("user",)))
    assert (event["review"]["id"], event["review"]["state"]) == (call.review_id, "pending")
    own = await mos(world, "review", "show", call.review_id, user="u-reviewed", roles=("user",))
    assert "1500" not in own
    assert "approve rev" not in own
    position = event["position"]
    said = await mos(world, "review", "approve", call.review_id, "-m", "可以", **finance)
    assert said.strip() == f"{call.review_id} is approved"
    more = ("review", "watch", "--json", "-n", "1", "--position", position)
    event = json.loads(await mos(world, *more, user="u-reviewed", roles=("user",)))
    assert (event["review"]["id"], event["review"]["state"]) == (call.review_id, "approved")


async def test_a_call_is_told_from_its_asking_to_its_end(world):
    call = await parked(world, "u-told")
    own: dict[str, Any] = {"user": "u-told", "roles": ("user",)}
    assert call.id in await mos(world, "calls", "list", "--state", "parked", **own)
    told = await mos(world, "calls", "show", call.id, **own)
    for text in ("waits for a person", "refund.create", call.decision_id, "pending by finance", "not yet", "mos calls"):
        assert text in told
    finance: dict[str, Any] = {"user": "r-finance", "roles": ("reviewer",), "groups": ("finance",)}
    await mos(world, "review", "approve", call.review_id, "-m", "可以", **finance)
    told = await mos(world, "calls", "show", call.id, user="u-told", roles=("user", "auditor"))
    for text in ("approved by finance", "not yet", "--request-id THE-SAME"):
        assert text in told
    assert "never will be" in await mos(world, "calls", "cancel", call.id, **own)
    told = await mos(world, "calls", "show", call.id, **own)
    assert "cancelled: withdrawn, and never sent" in told
    assert not world.business.books.counts["refund.create"]


async def test_the_log_at_the_command_line(world):
    call = await parked(world, "u-logged")
    audit: dict[str, Any] = {"user": "aud", "roles": ("auditor",)}
    listed = await mos(world, "decision", "list", "--for", "u-logged", "--effect", "manual_review", **audit)
    assert call.decision_id in listed
    explained = await mos(world, "decision", "explain", call.decision_id, **audit)
    assert "its rules say the same again" in explained
    assert "memoryos/skills/refund.create/refund.create.rego:" in explained
    lines = (await mos(world, "decision", "export", "--for", "u-logged", **audit)).splitlines()
    assert [json.loads(line)["id"] for line in lines] == [call.decision_id]
    assert "input" not in json.loads(lines[0])
    lines = (await mos(world, "decision", "export", "--call", call.id, "--with-input", **audit)).splitlines()
    assert json.loads(lines[0])["input"]["args"]["amount"] == 1500
    assert '"amount": 1500' in await mos(world, "decision", "show", call.decision_id, "--input", **audit)


async def test_decisions_are_followed_at_the_command_line(world):
    watching = asyncio.create_task(
        mos(
            world, "decision", "watch", "--json", "-n", "2", "--effect", "manual_review", user="aud", roles=("auditor",)
        )
    )
    made = []
    while not watching.done():  # it tells nobody that it has begun
        made.append((await parked(world, "u-followed")).decision_id)
    events = [json.loads(line) for line in (await watching).splitlines()]
    assert [event["decision"]["id"] for event in events] == made[made.index(events[0]["decision"]["id"]) :][:2]
    assert all(event["position"] and event["decision"]["reasons"] for event in events)


async def test_an_agents_disguise_is_seen_through(world):
    client = world.client("u-disguised")
    call = await client.tools.call("refund.create", {"order_id": f"O-1{RLO}0051", "amount": 1500})
    assert call.state == "parked", call
    seen = await mos(world, "review", "show", call.review_id, user="r", roles=("reviewer",), groups=("finance",))
    assert RLO not in seen
    assert "\\u202e" in seen
