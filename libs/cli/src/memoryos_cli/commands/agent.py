"""`mos agent`: what agents there are, their files, and who gets which version.

The harness's package reads and writes the files, in a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from memoryos_cli.caller import LOCAL, Caller, command
from memoryos_cli.datafolder import CONFIG_FILE
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import short

TOOL: Final = "memoryos_harness.agent_tool"
Name = Annotated[str, typer.Argument(metavar="AGENT", show_default=False)]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--dir", exists=True, file_okay=False, help="Folder instead of the installation's.", show_default=False
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Agents: their files, versions and releases.")
    app.add_typer(group, name="agent")
    command(group, "list")(list_agents)
    command(group, "show")(show)
    command(group, "lint", options=LOCAL)(lint)
    command(group, "release", options=LOCAL)(release)
    command(group, "back", options=LOCAL)(back)


async def list_agents(caller: Caller) -> None:
    """List the agents, each in the version that the caller would get."""
    async with caller.client() as client:
        found = await client.agents.list()
    if caller.output.as_json:
        caller.output.value(asdict(found))
        return
    rows = [(one.name, one.label or "-", one.version[:12], short(one.description, 80)) for one in found.agents]
    caller.output.table(["agent", "label", "version", "description"], rows, empty="no agent file")
    if found.files_fault:
        caller.output.line(f"the files are wrong, the last good ones stand: {found.files_fault}", style="yellow")


async def show(caller: Caller, name: Name) -> None:
    """Show an agent: who gets which version, and its definition as the caller would get it."""
    async with caller.client() as client:
        found = await client.agents.get(name)
    if caller.output.as_json:
        caller.output.value(asdict(found))
        return
    caller.output.line(f"{found.name} {found.label or '(own file)'} {found.version[:12]}…")
    for one in found.releases:
        groups = f", and {', '.join(one.groups)}" if one.groups else ""
        caller.output.line(f"  {one.label or '(own file)'} {one.version[:12]}…: {one.percent} %{groups}")
    caller.output.line(yaml.safe_dump(dict(found.definition or {}), allow_unicode=True, sort_keys=False).rstrip())


async def lint(
    caller: Caller,
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Agent files.", show_default=False)],
    skills: Annotated[
        Path | None, typer.Option("--skills", exists=True, file_okay=False, help="Skill files that there are.")
    ] = None,
) -> None:
    """Say what is wrong with agent files, versions and releases, each with its place. Exit code 9 when something is."""
    code, found = await _tool("lint", str(folder), *([f"--skills={skills}"] if skills else []))
    if caller.output.as_json:
        caller.output.value(found)
    else:
        for remark in found.get("remarks", []):
            caller.output.line(f"{remark['file']}:{remark['line']}: {remark['text']} [{remark['rule']}]")
    if code:
        raise CliError("not every agent can be run as it is", exit_code=Exit.OTHERWISE, reason="AGENTS_FAULTY")
    if not caller.output.as_json:
        caller.output.line("all of them can be run")


async def release(
    caller: Caller,
    name: Name,
    label: Annotated[str, typer.Argument(help='Version; "" is the agent\'s own file.', show_default=False)],
    percent: Annotated[int | None, typer.Option(min=0, max=100, help="Share of the users.")] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--to", metavar="GROUP", help="Group that gets it in any case; may be repeated.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Everybody gets it.")] = False,
    folder: Folder = None,
) -> None:
    """Give a version to a share of the users, to groups, or to everybody. Running tasks keep theirs."""
    if everybody:
        percent = 100
    if percent is None and not groups:
        raise CliError("say who gets it: --percent, --to or --all", exit_code=Exit.USAGE)
    options = [*([] if percent is None else [f"--percent={percent}"]), *(f"--group={group}" for group in groups or ())]
    _say(caller, await _tool("release", str(_where(caller, folder)), name, label, *options))


async def back(caller: Caller, name: Name, folder: Folder = None) -> None:
    """Take the last release of an agent back; a second time brings it again."""
    _say(caller, await _tool("back", str(_where(caller, folder)), name))


def _say(caller: Caller, answered: tuple[int, dict[str, Any]]) -> None:
    found = answered[1]
    if "error" in found:
        raise CliError(found["error"], exit_code=Exit.OTHERWISE, reason="AGENTS_FAULTY")
    if caller.output.as_json:
        caller.output.value(found)
        return
    for one in found["releases"]:
        groups = f", and {', '.join(one['groups'])}" if one["groups"] else ""
        caller.output.line(f"{found['agent']} {one['label'] or '(own file)'}: {one['percent']} %{groups}")
    rest = 100 - sum(one["percent"] for one in found["releases"])
    if rest:
        caller.output.line(f"{found['agent']} (own file): the other {rest} %")


def _where(caller: Caller, folder: Path | None) -> Path:
    if folder is not None:
        return folder
    config = caller.data.file(CONFIG_FILE)
    section = yaml.safe_load(config.read_text(encoding="utf-8")).get("harness", {}) if config.exists() else {}
    if "agents_dir" not in section:
        raise CliError("no folder of agent files is known", hint="name it with --dir", exit_code=Exit.USAGE)
    return Path(section["agents_dir"])


async def _tool(*arguments: str) -> tuple[int, dict[str, Any]]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", TOOL, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await child.communicate()
    try:
        answer: dict[str, Any] = json.loads(out)
    except ValueError:
        text = errors.decode(errors="replace").strip().splitlines()
        raise CliError(text[-1] if text else "the agent files could not be read", exit_code=Exit.FAULT) from None
    return int(child.returncode or 0), answer
