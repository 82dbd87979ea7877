"""What the commands of `mos mem` share."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from memoryos_cli.caller import Caller
from memoryos_cli.exits import CliError, Exit

Path = Annotated[
    str, typer.Argument(help="/tenants/T/memory/KIND/…, or from the kind on: episodic/…", show_default=False)
]
Ids = Annotated[list[str], typer.Argument(help="Names of items (mem_…).", show_default=False)]
ItemId = Annotated[str, typer.Argument(metavar="ID", help="Name of an item (mem_…).", show_default=False)]


def full_path(caller: Caller, path: str) -> str:
    """Give a whole path: one without a leading slash starts at the kind, in the caller's tenant."""
    return path if path.startswith("/") else f"/tenants/{caller.tenant}/memory/{path}"


def counted(caller: Caller, word: str, count: int) -> None:
    """Say how many were `word`."""
    if caller.output.as_json:
        caller.output.value({f"{word}_count": count})
    else:
        caller.output.line(f"{count} {word}")


def object_of(text: str | None, option: str) -> dict[str, Any] | None:
    """Give the JSON object of an option; CliError when it is none."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise CliError(f"{option} must be one JSON object", exit_code=Exit.USAGE)
    return value
