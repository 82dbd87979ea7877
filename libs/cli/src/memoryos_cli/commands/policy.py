"""`mos policy`: rules before OPA is given them. The policy package does the work, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from memoryos_cli.caller import LOCAL, Caller, command
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.supervisor.up import find_opa

WORKBENCH: Final = "memoryos_policy.workbench"
Bundle = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        "-b",
        exists=True,
        file_okay=False,
        help="Folder of the rules [default: those of Memory OS].",
        show_default=False,
    ),
]
Opa = Annotated[Path | None, typer.Option("--opa", help="The OPA executable.", show_default=False)]
_SUFFIXES: Final = {".yaml", ".yml", ".json"}


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Rules: check, test and try them.", no_args_is_help=True)
    app.add_typer(group, name="policy")
    command(group, "check", options=LOCAL)(check)
    command(group, "test", options=LOCAL)(run_tests)
    command(group, "try", options=LOCAL)(try_rules)


async def check(
    caller: Caller,
    bundle: Bundle = None,
    skills: Annotated[
        list[Path] | None,
        typer.Option("--skills", help="Folder of skill files: rules for other skills are faults.", show_default=False),
    ] = None,
    opa: Opa = None,
) -> None:
    """Parse rules, check them against the input schema and for what a missing field makes true.

    Exit code 9 when there are faults; each says file and line and how to mend it.
    """
    names = [f"--skill={name}" for folder in skills or () for name in _names(folder)]
    code, found = await _workbench(opa, bundle, "check", *(names if skills else ["--any-skill"]))
    if caller.output.as_json:
        caller.output.value(found)
    for one in found:
        place = f"{one['file']}:{one['line']}" if one["line"] else one["file"]
        caller.output.line(f"{place}: {one['text']} [{one['rule']}]\n  {one['mend']}")
    if code:
        raise CliError(f"{len(found)} faults in the rules", exit_code=Exit.OTHERWISE, reason="RULES_FAULTY")
    caller.output.line("the rules are sound")


async def run_tests(caller: Caller, bundle: Bundle = None, opa: Opa = None) -> None:
    """Run the tests beside the rules, with coverage. Exit code 9 when one fails or none ran."""
    code, found = await _workbench(opa, bundle, "test")
    if caller.output.as_json:
        caller.output.value(found)
    for name in found["failed"]:
        caller.output.line(f"failed: {name}")
    for file, line in found["uncovered"]:
        caller.output.line(f"no test reaches {file}:{line}")
    if code:
        text = f"{len(found['failed'])} tests failed" if found["failed"] else "no test ran"
        raise CliError(text, exit_code=Exit.OTHERWISE, reason="RULES_FAILED")
    caller.output.line(f"{found['passed']} tests passed, {found['coverage']:g} % of the lines covered")


async def try_rules(
    caller: Caller,
    skill: Annotated[str, typer.Argument(help="Name of the skill.", show_default=False)],
    arguments: Annotated[str, typer.Argument(help="Arguments of the call, one JSON object.")] = "{}",
    given: Annotated[
        str, typer.Option("--input", help="Further parts of the input, one JSON object; - reads standard input.")
    ] = "{}",
    bundle: Bundle = None,
    opa: Opa = None,
) -> None:
    """Ask the rules about one call that is not made, and show which of them were true.

    What is not given is as in an ordinary call of a user: see docs/reference/rules.md for the parts of the input.
    """
    document = _object(sys.stdin.read() if given == "-" else given, "--input")
    document["args"] = _object(arguments, "ARGUMENTS")
    document["action"] = {**document.get("action", {}), "skill": skill}
    _, found = await _workbench(opa, bundle, "try", stdin=json.dumps(document))
    if caller.output.as_json:
        caller.output.value(found)
        return
    decision = found["decision"]
    if not isinstance(decision, dict):
        raise CliError("the rules give no decision object", exit_code=Exit.OTHERWISE, reason="RULES_FAULTY")
    caller.output.line(str(decision.get("decision", "")), style="bold")
    for reason in decision.get("reasons", ()):
        caller.output.line(f"  {reason['code']}  [{reason['policy']}]  {reason['text']}")
    for obligation in decision.get("obligations", ()):
        caller.output.line(f"  obligation {json.dumps(obligation, ensure_ascii=False)}")
    caller.output.line("\nrules that were true")
    for fired in found["fired"]:
        caller.output.line(f"  {fired['file']}:{fired['line']}  {fired['head']}")


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise CliError(f"{where}: is no JSON object", exit_code=Exit.USAGE)
    return value


def _names(folder: Path) -> Iterator[str]:
    """Give the names of the skills in a folder of skill files."""
    if not folder.is_dir():
        raise CliError(f"--skills {folder}: there is no such folder", exit_code=Exit.USAGE)
    for path in sorted(folder.rglob("*")):
        if path.suffix in _SUFFIXES:
            try:
                document = yaml.safe_load(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, yaml.YAMLError):
                continue  # `mos skill lint` says what is wrong with it
            if isinstance(document, dict) and isinstance(document.get("name"), str):
                yield document["name"]


async def _workbench(
    opa: Path | None, bundle: Path | None, what: str, *arguments: str, stdin: str = ""
) -> tuple[int, Any]:
    """Run the workbench and give its exit code and answer; CliError when it could not do it."""
    line: Sequence[str] = (
        sys.executable,
        "-m",
        WORKBENCH,
        what,
        f"--opa={find_opa(opa)}",
        *([f"--bundle={bundle}"] if bundle else []),
        *arguments,
    )
    child = await asyncio.create_subprocess_exec(
        *line, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await child.communicate(stdin.encode())
    if child.returncode not in (0, 1):
        text = errors.decode(errors="replace").strip().splitlines()
        raise CliError(text[-1] if text else "the rules could not be tried", exit_code=Exit.OTHERWISE)
    try:
        return child.returncode, json.loads(out)
    except ValueError:
        raise CliError("the rules could not be tried", exit_code=Exit.FAULT) from None
