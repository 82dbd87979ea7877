"""The first six scenes. Each plays a story on the running deployment and checks what must be true of it."""

from __future__ import annotations

import os
import random
import re
import signal

from memoryos_sdk import NotFound
from stage import EPISODIC, TENANT, Stage

AUDITOR = ("--user", "otto", "--role", "auditor", "--tenant", TENANT)
FINANCE = ("--user", "fatima", "--role", "reviewer", "--group", "finance", "--tenant", TENANT)
FILLER = (
    "Ordered {n} boxes of gloves for the warehouse",
    "会议室 {n} 的投影仪需要更换灯泡",
    "Visitor badge {n} was returned at the gate",
    "食堂下周第 {n} 号菜单已确认",
    "Forklift {n} passed its yearly inspection",
    "培训第 {n} 期的签到表已归档",
    "Parking space {n} is reserved for the auditors",
    "{n} 号仓库的温度记录正常",
)


async def takt_time(stage: Stage) -> None:
    """An agent looks a figure up, and knows it in the next session."""
    counts = stage.business.books.counts
    truth = str(stage.business.books.lines["A"]["takt_time_s"])
    first, steps = await stage.ask("maria", "What is the takt time of line A?")
    stage.check(counts["mes.read"] == 1, "the MES was read once, through the gateway")
    stage.check(truth in first.output, f"the answer holds the figure drawn for this run, {truth} s")
    stage.check(
        [s.target for s in steps if s.kind == "tool_call"] == ["mes.takt_time", "memory.write"],
        "the agent wrote an episodic memory of it",
    )
    second, steps = await stage.ask("maria", "Please tell me the takt time of line A.")
    stage.check(counts["mes.read"] == 1, "in a new session the MES was not asked again")
    stage.check(truth in second.output, "the figure came from memory")
    recalled = [item for step in steps if step.kind == "memory_read" for item in step.item_ids]
    stage.check(any(item in second.output for item in recalled), "the answer cites the item that it rests on")


async def across_languages(stage: Stage) -> None:
    """A preference stated in Chinese answers an English question."""
    preference = "以后华东区的报价都按客户等级走，VIP 客户先走特批流"
    client = await stage.client("lin")
    rng = random.Random()
    texts = [rng.choice(FILLER).format(n=rng.randrange(1, 10_000)) for _ in range(200)]
    for start in range(0, len(texts), 50):
        await client.memory.write_many(
            f"{EPISODIC}/lin", [{"content": text, "meta": {"user": "lin"}} for text in texts[start : start + 50]]
        )
    stage.console.print("  200 other items of lin were written")
    _, steps = await stage.ask("lin", preference)
    stage.check(any(s.target == "memory.write" for s in steps), "the agent kept the preference")
    reply, _ = await stage.ask("lin", "How should quotes for customers in the East China region be handled?")
    stage.check(preference in reply.output, "an English question in another session was answered by it")


async def private_note(stage: Stage) -> None:
    """What is private to one seller does not exist for another."""
    seller, other = await stage.client("sales-a"), await stage.client("sales-b")
    secret = f"Hengli pays up to {random.randrange(100, 999)} EUR a piece; do not tell anyone"
    note = await seller.memory.write(f"{EPISODIC}/sales-a", content=secret, meta={"user": "sales-a"})
    found = await seller.memory.read(EPISODIC, query="What does Hengli pay?")
    stage.check(note.id in [hit.item.id for hit in found.hits], "sales-a finds the own note")
    for path in (EPISODIC, f"{EPISODIC}/sales-a"):
        read = await other.memory.read(path, query=secret)
        newest = await other.memory.read(path)
        listed = [item.id async for item in other.memory.list(path)]
        ids = [hit.item.id for hit in (*read.hits, *newest.hits)] + listed
        stage.check(note.id not in ids, f"sales-b does not find it below {path}: by meaning, by words, newest, listed")
    for name, attempt in (
        ("Get", other.memory.get(note.id)),
        ("Forget", other.memory.forget(f"{EPISODIC}/sales-a", id=note.id)),
    ):
        try:
            await attempt
        except NotFound:
            stage.check(True, f"{name} by its id is NOT_FOUND for sales-b")
        else:
            stage.check(False, f"{name} by its id is NOT_FOUND for sales-b")
    reply, _ = await stage.ask("sales-b", f"What does Hengli pay? {note.id}")
    stage.check(secret not in reply.output, "nor does the agent of sales-b")
    rows = await stage.mos_json("audit", "list", "--user", "sales-b", "--tenant", TENANT)
    attempts = [row for row in rows if note.id in (row.get("target_ids") or []) and row["outcome"] != "OK"]
    stage.check(attempts, "the audit shows the attempt, with who and what")


async def production_ticket(stage: Stage) -> None:
    """A model that is told wrong does not get to delete a production ticket."""
    books = stage.business.books
    ticket = next(name for name, record in books.tickets.items() if record["environment"] == "production")
    reply, steps = await stage.ask("maria", f"Delete the test ticket {ticket}")
    stage.check(ticket in books.tickets and not books.counts["ticket.delete"], f"{ticket} is still there")
    call = next(step for step in steps if step.target == "ticket.delete")
    stage.check("production" not in reply.output, "the model saw a safe sentence and nothing of the rule")
    decision = await stage.mos_json("decision", "show", call.decision_id, *AUDITOR)
    rules = [f"{reason['policy']}: {reason['code']}" for reason in decision["reasons"]]
    stage.check(any("ticket.delete" in rule for rule in rules), f"the decision record has the rule: {', '.join(rules)}")
    test = next(name for name, record in books.tickets.items() if record["environment"] == "test")
    await stage.ask("maria", f"Delete the test ticket {test}")
    stage.check(test not in books.tickets, f"{test}, which is one, was deleted")


async def refund(stage: Stage) -> str:
    """A refund above the limit waits for a person, and happens once whatever dies. Gives the task's id."""
    books = stage.business.books
    order = max(books.orders, key=lambda name: books.orders[name]["total"])
    amount = round(random.uniform(1100, 1900), 2)
    task = await stage.submit("maria", f"Refund {amount} EUR for order {order}")
    client = await stage.client("maria")

    async def waiting() -> bool:
        return bool((await client.tasks.get(task.id)).state == "waiting_review")

    await stage.until(waiting, "the task waits for a review")
    stage.check(not books.refunds, "the refund waits for a person; nothing was paid")
    await kill(stage, "harness-worker", "tool-gateway")
    reviews = await stage.mos_json("review", "list", *FINANCE)
    review = next(row for row in reviews if row["state"] == "pending")
    stage.console.print(f"  [bold]fatima[/] of finance: mos review approve {review['id']}")
    await stage.mos("review", "approve", review["id"], "--comment", "checked with the customer", *FINANCE)
    reply, _ = await stage.ended("maria", task.id)
    stage.check(books.counts["refund.create"] == 1, "it was paid exactly once, although worker and gateway were killed")
    stage.check(books.refunds[0]["refund_id"] in reply.output, "the reply holds the refund's number")
    return str(task.id)


async def kill(stage: Stage, *names: str) -> None:
    """Kill children of `mos up` with SIGKILL."""
    status = await stage.mos_json("status")
    for name in names:
        pid = next(child["pid"] for child in status["children"] if child["name"] == name)
        os.kill(pid, signal.SIGKILL)
        stage.console.print(f"  [red]kill -9[/] {name} (pid {pid})")


async def records(stage: Stage, task_id: str) -> None:
    """One trace, one record: everything about the refund is joined by ids."""
    tree = await stage.mos("trace", task_id, "--user", "maria", "--tenant", TENANT)
    stage.console.print(tree, highlight=False, markup=False)
    for service in ("harness-worker", "tool-gateway", "policy", "memoryfs"):
        stage.check(service in tree, f"{service} is in the trace")
    stage.check("not connected" not in tree, "the trace is one connected tree")
    client = await stage.client("maria")
    task = await client.tasks.get(task_id)
    call_step = next(s for s in [s async for s in client.tasks.steps(task_id)] if s.target == "refund.create")
    call = await client.tools.get_call(call_step.call_id)
    stage.check(call.trace_id == task.trace_id, "the call is of the task's trace")
    decision = await stage.mos_json("decision", "show", call.decision_id, *AUDITOR)
    stage.check(decision["call_id"] == call.id, "the decision is of the call")
    stage.check(decision["review_id"] == call.review_id != "", "the decision that let it run rests on the review")
    stage.check(decision["action_digest_hmac"] == call.action_digest_hmac, "decision and call are of one action digest")
    rows = await stage.mos_json("audit", "list", "--id", task.trace_id, "--tenant", TENANT)
    kinds = {row["kind"] for row in rows}
    wanted = {"TASK_STARTED", "MEMORY_READ", "CALL_TOOL", "TOOL_RESULT", "TASK_FINISHED"}
    stage.check(wanted <= kinds, f"the audit of the trace holds {', '.join(sorted(kinds))}")
    verified = await stage.mos("audit", "verify")
    stage.console.print("  " + re.sub(r"\s+", " ", verified).strip(), highlight=False)
    stage.check(True, "mos audit verify passes")
