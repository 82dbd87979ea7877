"""Three scenes at the edge of the factory: whom the CRM sees, which mails leave, and what the work group is told."""

from __future__ import annotations

import json

from stage import TENANT, Stage

OFFICE = ("--user", "olga", "--role", "reviewer", "--group", "office", "--tenant", TENANT)


async def customers(stage: Stage) -> None:
    """The CRM sees the person who asks: what is one seller's customer does not exist for another."""
    books = stage.business.books
    number, record = next((name, found) for name, found in books.customers.items() if found["seller"] == "sales-a")
    question = f"Show me customer {number}"
    own, steps = await stage.ask("sales-a", question)
    stage.check(record["name"] in own.output, "sales-a reads the own customer, by a token exchanged for the own one")
    stage.check("seller" not in own.output, "what the skill does not pick of the answer stays with the CRM")
    other, _ = await stage.ask("sales-b", question)
    stage.check(record["name"] not in other.output, "sales-b asks the same and gets nothing")
    stage.check(books.crm_asked_by == ["sales-a", "sales-b"], "the CRM saw two people, and no account that is both")
    client = await stage.client("sales-a")
    call = await client.tools.get_call(next(step.call_id for step in steps if step.target == "crm.customer"))
    stage.check("Bearer" not in json.dumps(call.result), "no token is kept with the call")


async def mails(stage: Stage) -> None:
    """A mail to a colleague goes out; one that leaves waits for a person, and carries no customer's data."""
    post = stage.post
    await stage.ask("maria", "Mail to fatima@example.com: A 线今晚停机检修 / line A is down tonight")
    recipients, mail = post.mails[-1]
    stage.check(
        (recipients, str(mail["subject"])) == (["fatima@example.com"], "A 线今晚停机检修 / line A is down tonight"),
        "the mail server got one mail for fatima, its subject in both languages",
    )
    stage.check(str(mail["message-id"]).startswith("<call_"), f"its Message-ID names the call: {mail['message-id']}")
    client = await stage.client("maria")
    task = await stage.submit("maria", "Mail to buyer@elsewhere.test: Your order leaves on Friday")

    async def waiting() -> bool:
        return bool((await client.tasks.get(task.id)).state == "waiting_review")

    await stage.until(waiting, "the task waits for a review")
    stage.check(len(post.mails) == 1, "the one to a stranger waits for the office")
    review = next(row for row in await stage.mos_json("review", "list", *OFFICE) if row["state"] == "pending")
    stage.console.print(f"  [bold]olga[/] of the office: mos review approve {review['id']}")
    await stage.mos("review", "approve", review["id"], "--comment", "as agreed", *OFFICE)
    await stage.ended("maria", task.id)
    stage.check([to for to, _ in post.mails[1:]] == [["buyer@elsewhere.test"]], "approved, it was sent once")
    seller, number = await stage.client("sales-a"), next(iter(stage.business.books.customers))
    session = await seller.sessions.create()
    for question in (f"Show me customer {number}", "Mail to buyer@elsewhere.test: the customer's level"):
        asked = await stage.submit("sales-a", question, session_id=session.id)
        reply, _ = await stage.ended("sales-a", asked.id)
    stage.check("not done" in reply.output and len(post.mails) == 2, "after a customer was read, no mail leaves")


async def work_group(stage: Stage) -> None:
    """The robot of the work group is told something, and its key is nowhere."""
    text = "今晚 22:00 停机检修，请提前收尾"
    _, steps = await stage.ask("maria", f"告诉班组：A 线{text}")
    told = stage.business.books.group_messages
    stage.check(told == [f"【产线 A】{text}"], f"the work group reads: {''.join(told)}")
    client = await stage.client("maria")
    call = await client.tools.get_call(next(step.call_id for step in steps if step.target == "group.notify"))
    stage.check(call.result == {"errcode": 0}, "the call holds what the skill picks of the answer")
    key = stage.business.login.robot_key
    places = [*stage.data.rglob("*.log"), *(stage.data / "spans").rglob("*")]
    found = [path for path in places if path.is_file() and key.encode() in path.read_bytes()]
    stage.check(not found and places, f"and the robot's key is in none of {len(places)} logs and spans")
