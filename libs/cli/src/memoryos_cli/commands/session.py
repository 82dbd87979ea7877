"""`mos session`: conversations."""

from __future__ import annotations

from typing import Annotated

import typer

from memoryos_cli.caller import Caller, command

SessionId = Annotated[str, typer.Argument(metavar="SESSION", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Sessions: conversations with agents.", no_args_is_help=True)
    app.add_typer(group, name="session")
    for function in (create, show, say):
        command(group, function.__name__)(function)


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
    caller.output.fields([("session", found.id), ("user", found.user), ("made", found.create_time)])
    caller.output.line()
    for message in messages:
        who = f"{message.role} {message.tool_name}".strip()
        caller.output.line(f"{who}: {message.content}")


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
