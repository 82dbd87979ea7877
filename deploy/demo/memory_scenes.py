"""Four scenes of what becomes of memory: facts change, doubt waits, a release goes back, a person is erased."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from memoryos_sdk import NotFound
from stage import TENANT, Stage

SEMANTIC = f"/tenants/{TENANT}/memory/semantic"


async def changed_fact(stage: Stage) -> None:
    """A fact changes: the later one answers, the earlier one keeps its time."""
    fs = (await stage.client("maria")).memory
    here = f"{SEMANTIC}/maria"
    about = {"subject": "Nordwerk", "scope": "contact"}
    old = await fs.write(
        here, content="The contact at Nordwerk is Ms Weber", meta={"event_key": about, "time": "2023-03-01"}
    )
    new = await fs.write(
        here, content="The contact at Nordwerk is Mr Okafor", meta={"event_key": about, "time": "2025-05-01"}
    )
    stage.check(new.superseded_ids == (old.id,), "the new contact supersedes the old one by its event key")
    now = await fs.read(here, query="Who is the contact at Nordwerk?")
    stage.check([hit.item.id for hit in now] == [new.id], "a question is answered by what holds now")
    then = await fs.read(here, query="Who is the contact at Nordwerk?", valid_at=datetime(2024, 1, 1, tzinfo=UTC))
    stage.check([hit.item.id for hit in then] == [old.id], "and, asked for January 2024, by what held then")


async def doubt(stage: Stage) -> None:
    """What an agent guessed stays a candidate until another source says it, too."""
    fs = (await stage.client("lin")).memory
    here, guess = f"{SEMANTIC}/lin", "苏州恒力希望在周五收货"
    meta = {"origin": "inferred", "confidence": 0.5}
    first = {"session_id": "s-1", "message_ids": ["m-7"]}
    written = await fs.write(here, content=guess, meta={**meta, "source": first})
    stage.check(written.state == "candidate", "the guess is kept as a candidate, for a day")
    read = await fs.read(here, query="恒力什么时候收货？")
    stage.check(written.id not in [hit.item.id for hit in read], "no question is answered by it")
    again = await fs.write(here, content=guess, meta={**meta, "source": first})
    stage.check((again.outcome, again.state) == ("known", "candidate"), "said again from the same message: nothing")
    other = {"session_id": "s-2", "message_ids": ["m-3"]}
    heard = await fs.write(here, content=f"{guess}。", meta={**meta, "confidence": 0.7, "source": other})
    stage.check(
        (heard.id, heard.outcome, heard.state) == (written.id, "corroborated", "active"),
        "another message says it: one item, corroborated, known",
    )
    read = await fs.read(here, query="恒力什么时候收货？")
    stage.check([hit.item.id for hit in read][:1] == [written.id], "now it answers")


async def bad_release(stage: Stage) -> None:
    """A bad release of the house rules is rolled back."""
    fs = (await stage.client("maria")).memory
    here = f"{SEMANTIC}/maria/rules"
    returns, vip = await fs.write_many(
        here, [{"content": "Returns are accepted for 30 days"}, {"content": "VIP customers are called within an hour"}]
    )
    before = await fs.create_snapshot(here, channel="release", title="rules v1")
    await fs.write(here, id=returns.id, content="Returns are accepted for 300 days")
    await fs.forget(here, id=vip.id)
    extra = await fs.write(here, content="Refunds need no receipt")
    found = {one.id: one.kind for one in await fs.diff(here, before.id).all()}
    stage.check(
        found == {returns.id: "changed", vip.id: "removed", extra.id: "added"},
        "the difference to the snapshot shows one rule changed, one removed, one added",
    )
    await fs.rollback(here, before.id)
    contents = {item.id: item.content async for item in fs.list(here)}
    stage.check(
        contents == {returns.id: "Returns are accepted for 30 days", vip.id: "VIP customers are called within an hour"},
        "after the rollback every rule is as it was",
    )
    changes = [change.cause async for change in fs.history(returns.id)]
    stage.check(len(changes) == 3, f"and its history has all three steps: {', '.join(reversed(changes))}")


async def erasure(stage: Stage) -> None:
    """A user sees what is remembered of them, and has it erased, with a receipt."""
    seller, own = (await stage.client("sales-a")).memory, (await stage.client("wang")).memory
    note = await seller.write(
        f"{SEMANTIC}/sales-a", content="王女士不喜欢电话联系", meta={"user": "wang", "readers": ["user:wang"]}
    )
    kept = await seller.write(f"{SEMANTIC}/sales-a", content="Nordwerk pays within ten days")
    mine = await own.write(f"{SEMANTIC}/wang", content="My desk is in building 3", meta={"user": "wang"})
    target = stage.data / "wang-export"
    await own.export(SEMANTIC, target)
    lines = (target / "items.jsonl").read_text(encoding="utf-8").splitlines()
    stage.check(
        {json.loads(line)["id"] for line in lines} == {note.id, mine.id},
        "wang sees and exports what is remembered, also what sales-a wrote",
    )
    client = await stage.client("wang")
    stage.console.print("  [bold]wang[/]: mos mem purge --person wang")
    job = await client.memory.purge(user="wang", reason="asked for")
    for memory, item in ((own, mine), (seller, note)):
        try:
            await memory.get(item.id)
        except NotFound:
            continue
        stage.check(False, "nobody reads it any more")
    stage.check(True, "nobody reads it any more, as soon as the call is answered")
    ended = await client.jobs.wait(job.id)
    stage.check(ended.state == "succeeded", "it was erased in every service, and searched for")
    receipt = (await client.memory.receipt(job.id)).content
    places = receipt["places"]
    stage.check(
        places and not any(place["found"] for place in places),
        f"the signed receipt names {len(places)} places, and nothing was found in any",
    )
    stage.check("wang" not in json.dumps(receipt), "and does not name the person")
    stage.check((await seller.get(kept.id)).content == "Nordwerk pays within ten days", "what concerns others is there")
