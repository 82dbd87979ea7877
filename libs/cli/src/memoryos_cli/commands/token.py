"""`mos token`: a token of the development issuer."""

from __future__ import annotations

from typing import Annotated

import typer

from memoryos_cli.caller import TOKEN_TTL_S, Caller, command


def add_to(app: typer.Typer) -> None:
    """Add the command to `app`."""
    command(app, "token")(token)


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
