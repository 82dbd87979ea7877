"""`mos token`: a token of the development issuer, tokens of agents, and revocations."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from memoryos_cli.caller import TOKEN_TTL_S, Caller, command

Agent = Annotated[str, typer.Argument(metavar="AGENT", show_default=False)]
Subject = Annotated[
    str,
    typer.Argument(metavar="SUBJECT", help="user:NAME, agent:USER/NAME or the name of a task.", show_default=False),
]


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer()
    app.add_typer(group, name="token")
    command(group, "")(token)
    for function in (exchange, keys, revoke, restore, revoked):
        command(group, function.__name__)(function)


async def token(
    caller: Caller,
    ttl_s: Annotated[int, typer.Option("--ttl", min=1, help="Seconds that it lives; 86400 at most.")] = TOKEN_TTL_S,
) -> None:
    """Print a token of the development issuer: --user, --role, --group, --tenant, --clearance.

    The issuer's key is in the data folder, and services trust it only where
    `mos up` runs the embedded default. Without --role it has agent and user.
    """
    text = caller.token(default_roles=("agent", "user"), ttl_s=ttl_s)
    if caller.output.as_json:
        caller.output.value({"token": text, "user": caller.user, "tenant": caller.tenant, "ttl_s": ttl_s})
    else:
        caller.output.line(text)


async def exchange(
    caller: Caller,
    agent: Agent,
    audience: Annotated[
        list[str] | None, typer.Option("--audience", help="Service that it is good for; may be repeated.")
    ] = None,
    read: Annotated[list[str] | None, typer.Option("--read", help="Place that it may read; may be repeated.")] = None,
    write: Annotated[
        list[str] | None, typer.Option("--write", help="Place that it may write; may be repeated.")
    ] = None,
    ttl_s: Annotated[int, typer.Option("--ttl", min=0, max=300, help="Seconds that it lives; 0: 300.")] = 0,
) -> None:
    """Print a token of an agent that works for the caller: never more than the caller's, five minutes at most.

    Memory that is not named by --read and --write is out of its reach.
    """
    async with caller.client() as client:
        made = await client.tokens.exchange(
            agent, audience=audience or (), read_paths=read or (), write_paths=write or (), ttl_s=ttl_s
        )
    if caller.output.as_json:
        caller.output.value(made)
    else:
        caller.output.line(made.access_token)


async def keys(caller: Caller) -> None:
    """Print the public keys of agents' and tasks' tokens, a JWK set: for whoever checks them (identity.keys_file)."""
    async with caller.client() as client:
        found = await client.tokens.keys()
    caller.output.line(json.dumps(found, indent=2))


async def revoke(caller: Caller, subject: Subject) -> None:
    """Stop every token to be made for a user, an agent of a user or a task; running tasks end."""
    async with caller.client("tenant-admin") as client:
        made = await client.tokens.revoke(subject)
    if caller.output.as_json:
        caller.output.value(made)
    else:
        caller.output.line(f"{made.subject} is revoked since {made.create_time.isoformat()}")


async def restore(caller: Caller, subject: Subject) -> None:
    """Take a revocation back; tasks that ended by it stay ended."""
    async with caller.client("tenant-admin") as client:
        await client.tokens.restore(subject)
    if caller.output.as_json:
        caller.output.value({"subject": subject, "revoked": False})
    else:
        caller.output.line(f"{subject} is not revoked")


async def revoked(caller: Caller) -> None:
    """List what no token is made for, newest first."""
    async with caller.client("tenant-admin") as client:
        found = await client.tokens.revoked()
    if caller.output.as_json:
        caller.output.value(list(found))
        return
    caller.output.table(["SUBJECT", "BY", "SINCE"], [(one.subject, one.actor, one.create_time) for one in found])
