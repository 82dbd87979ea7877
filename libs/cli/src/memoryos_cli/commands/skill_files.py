"""`mos skill lint|list --all|try|accept`: skill files themselves.

The tool gateway's package does the work, in a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from memoryos_cli.caller import LOCAL, Caller, command
from memoryos_cli.datafolder import CONFIG_FILE
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import short

TOOL: Final = "memoryos_toolgateway.skill_tool"
_EXITS: Final = {"SKILL_NOT_FOUND": Exit.NOT_FOUND, "ARGUMENTS_INVALID": Exit.USAGE, "DIGEST_MISMATCH": Exit.CONFLICT}
Folders = Annotated[
    list[Path] | None,
    typer.Option(
        "--dir", exists=True, file_okay=False, help="Folder instead of the installation's.", show_default=False
    ),
]
_COLUMNS: Final = ("name", "version", "effect_class", "risk")
Name = Annotated[str, typer.Argument(metavar="SKILL", show_default=False)]


def add_to(group: typer.Typer) -> None:
    """Add the commands to the group `skill`."""
    command(group, "lint", options=LOCAL)(lint)
    command(group, "try", options=LOCAL)(try_arguments)
    command(group, "accept", options=LOCAL)(accept)


async def lint(
    caller: Caller,
    paths: Annotated[list[Path], typer.Argument(exists=True, help="Files or folders.", show_default=False)],
) -> None:
    """Say what keeps skill files away, what a person must look at, and what may be forgotten.

    Exit code 9 unless there is advice at most.
    """
    code, found = await _tool("lint", *map(str, paths))
    if caller.output.as_json:
        caller.output.value(found)
    else:
        for remark in found.get("remarks", []):
            place = f"{remark['file']}:{remark['line']}: {remark['pointer']}"
            caller.output.line(f"{place}: {remark['level']}: {remark['text']} [{remark['rule']}]")
    if code:
        raise CliError("not every skill can be registered as it is", exit_code=Exit.OTHERWISE, reason="SKILLS_FAULTY")
    if not caller.output.as_json:
        caller.output.line("all of them can be registered")


async def list_files(caller: Caller, folders: Sequence[Path] | None) -> None:
    """List every skill of the files, with what keeps it out of reach."""
    found = _checked(await _tool(*_where(caller, folders), "list"))["skills"]
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ["skill", "version", "effect", "risk", "opened", "pinned", "quarantined"],
        [(*(s[key] for key in _COLUMNS), *_yes(s["opened"], s["pinned"]), short(s["quarantined"], 160)) for s in found],
        empty="no skill file",
    )


async def try_arguments(
    caller: Caller,
    name: Name,
    arguments: Annotated[str, typer.Argument(help="One JSON object.", show_default=False)],
    folders: Folders = None,
) -> None:
    """Check arguments as the gateway does before it asks policy. What the rules say: `mos policy try`."""
    code, found = await _tool(*_where(caller, folders), "try", name, arguments)
    if "error" in found:
        raise _refused(found)
    if caller.output.as_json:
        caller.output.value(found)
    else:
        for violation in found["violations"]:
            where = violation["pointer"] or "/"
            caller.output.line(f"{where}: {violation['rule']}: expected {violation['expectation']}")
        if found["quarantined"]:
            caller.output.line(f"quarantined: {found['quarantined']}")
    if code:
        raise CliError("the arguments would be refused", exit_code=Exit.USAGE, reason="ARGUMENTS_INVALID")
    if not caller.output.as_json:
        caller.output.line("the arguments hold; `mos policy try` says what the rules decide")


async def accept(
    caller: Caller,
    name: Name,
    opened: Annotated[bool, typer.Option("--open", help="It may do more than read.")] = False,
    digest: Annotated[str, typer.Option("--digest", help="First digits of the digest that you looked at.")] = "",
    folders: Folders = None,
) -> None:
    """Pin the definition of a skill as its file is now, in the skills.lock beside it. The next start takes it."""
    options = [*(["--open"] if opened else []), *([f"--digest={digest}"] if digest else [])]
    found = _checked(await _tool(*_where(caller, folders), "accept", name, f"--by={caller.defaults.user}", *options))
    if caller.output.as_json:
        caller.output.value(found)
        return
    for remark in found["remarks"]:
        caller.output.line(f"accepted although {remark['pointer']} {remark['text']} [{remark['rule']}]")
    word = "accepted and opened" if found["opened"] else "accepted, not opened: it may read only"
    caller.output.line(f"{found['skill']} {found['digest'][:12]}… {word}")


def _yes(*values: bool) -> tuple[str, ...]:
    return tuple("yes" if value else "no" for value in values)


def _where(caller: Caller, folders: Sequence[Path] | None) -> list[str]:
    if folders:
        return [f"--dir={folder}" for folder in folders]
    config = caller.data.file(CONFIG_FILE)
    return [f"--config={config}"] if config.exists() else []


def _checked(answered: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    if "error" in answered[1]:
        raise _refused(answered[1])
    return answered[1]


def _refused(found: dict[str, Any]) -> CliError:
    return CliError(found["error"], exit_code=_EXITS.get(found["reason"], Exit.OTHERWISE), reason=found["reason"])


async def _tool(*arguments: str) -> tuple[int, dict[str, Any]]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", TOOL, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await child.communicate()
    if child.returncode not in (0, 1):
        text = errors.decode(errors="replace").strip().splitlines()
        raise CliError(text[-1] if text else "the skill files could not be read", exit_code=Exit.USAGE)
    try:
        answer: dict[str, Any] = json.loads(out)
    except ValueError:
        raise CliError("the skill files could not be read", exit_code=Exit.FAULT) from None
    return child.returncode, answer
