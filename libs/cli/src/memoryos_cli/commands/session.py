"""`mos session`: conversations."""

from __future__ import annotations

from typing import Annotated

import typer

from memoryos_cli.caller import Caller, command
from memoryos_cli.output import moment
from memoryos_cli.review_sheet import cut, shown
from memoryos_cli.task_story import EXCERPT_CELLS, readable

SessionId = Annotated[str, typer.Argument(metavar="SESSION", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Sessions: conversations with agents.", no_args_is_help=True)
    app.add_typer(group, name="session")
    command(group, "list")(list_sessions)
    for function in (create, show, say, search):
        command(group, function.__name__)(function)


async def list_sessions(
    caller: Caller,
    all_users: Annotated[bool, typer.Option("--all-users", help="Of the whole tenant, for operators.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Sessions at most.")] = 50,
) -> None:
    """List sessions, last active first: the caller's own, or with --all-users whose there are."""
    async with caller.client(*(("operator",) if all_users else ("agent", "user"))) as client:
        found = await client.sessions.list(all_users=all_users, page_size=min(limit, 500)).take(limit)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ["session", "user", "turns", "last active", "made"],
        [(s.id, shown(s.user), s.turn_count, moment(s.last_active_time), moment(s.create_time)) for s in found],
        empty="no session of this caller",
    )


async def search(
    caller: Caller,
    words: Annotated[list[str], typer.Argument(help="What is looked for.", show_default=False)],
    role: Annotated[
        str | None, typer.Option("--said-by", help="user, assistant, tool or system.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=50, help="Messages at most.")] = 10,
) -> None:
    """Find what was said in the caller's own sessions, by its words."""
    async with caller.client() as client:
        found = await client.sessions.search(" ".join(words), top_k=limit, role=role)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ["score", "said", "session", "by", "what"],
        [
            (
                hit.score, moment(hit.message.create_time), hit.session_id, hit.message.role,
                cut(shown(hit.message.content), EXCERPT_CELLS),
            )
            for hit in found
        ],
        empty="nothing in this caller's sessions",
    )  # fmt: skip


async def create(caller: Caller) -> None:
    """Start a session and print its name."""
    async with caller.client() as client:
        made = await client.sessions.create()
    if caller.output.as_json:
        caller.output.value(made)
    else:
        caller.output.line(made.id)


async def show(caller: Caller, session_id: SessionId) -> None:
    """Show the messages of a session, oldest first."""
    async with caller.client() as client:
        found = await client.sessions.get(session_id)
        messages = await client.sessions.messages(session_id).all()
    if caller.output.as_json:
        caller.output.value({"session": found, "messages": messages})
        return
    caller.output.fields([("session", found.id), ("user", shown(found.user)), ("made", found.create_time)])
    caller.output.line()
    for message in messages:
        who = shown(f"{message.role} {message.tool_name}".strip())
        caller.output.line(f"{who}: {readable(message.content)}")


async def say(
    caller: Caller,
    session_id: SessionId,
    content: Annotated[str, typer.Argument(show_default=False)],
    as_role: Annotated[str, typer.Option("--as", help="user, assistant, tool or system.")] = "user",
) -> None:
    """Add a message at the end of a session."""
    async with caller.client() as client:
        kept = await client.sessions.append(session_id, [{"role": as_role, "content": content}])
    if caller.output.as_json:
        caller.output.value(kept[0])
    else:
        caller.output.line(kept[0].id)
