"""`mos up`, `status`, `logs`, `down`, `config`, `migrate`: the processes of one data folder."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from memoryos_core.errors import MemoryOSError
from memoryos_postgres.config import PostgresSection
from memoryos_postgres.migrate import MigrationRefused

from memoryos_cli import settings
from memoryos_cli.caller import LOCAL, Caller, command
from memoryos_cli.datafolder import ADDRESSES_FILE, LOCK_FILE, STATUS_FILE, DataFolder
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import Output
from memoryos_cli.supervisor.database import apply_migrations
from memoryos_cli.supervisor.files import read_json
from memoryos_cli.supervisor.lock import is_held
from memoryos_cli.supervisor.plan import Plan
from memoryos_cli.supervisor.processes import kill_if_same
from memoryos_cli.supervisor.up import UpRequest, addresses, run_up

POLL_S: Final = 0.1
STATE_STYLES: Final = {"ready": "green", "back-off": "red", "stopped": "dim"}


def add_to(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for function, name in (
        (up, "up"),
        (status, "status"),
        (logs, "logs"),
        (down, "down"),
        (config, "config"),
        (migrate, "migrate"),
    ):
        command(app, name, options=LOCAL)(function)


async def up(
    caller: Caller,
    detach: Annotated[bool, typer.Option("--detach", help="Return once everything serves.")] = False,
    dsn: Annotated[
        str,
        typer.Option(
            "--dsn",
            help="Administrator's DSN of your own PostgreSQL, passfile=… for its password; none: the embedded one.",
        ),
    ] = "",
    dev_issuer: Annotated[
        bool, typer.Option("--dev-issuer", help="Trust tokens of `mos token` also with --dsn.")
    ] = False,
    config_file: Annotated[
        Path | None,
        typer.Option("--config", help="YAML file [default: config.yaml in the data folder].", show_default=False),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="section.field=value for this run; may be repeated.")
    ] = None,
    opa: Annotated[Path | None, typer.Option("--opa", help="OPA binary.", show_default=False)] = None,
    without: Annotated[list[str] | None, typer.Option("--without", help="Child to leave out; may be repeated.")] = None,
) -> None:
    """Start everything and supervise it until Ctrl-C.

    PostgreSQL, OPA, the four services, the harness worker and the audit sealer
    run as children of this process on 127.0.0.1. Data is in one folder and stays.
    """
    if detach:
        await _detach(caller)
        return
    request = UpRequest(
        folder=caller.data,
        overrides=tuple(overrides or ()),
        config_file=config_file,
        dsn=dsn,
        dev_issuer=dev_issuer,
        opa=opa,
        without=frozenset(without or ()),
        environ=caller.defaults.environ,
    )
    caller.output.line(f"starting in {caller.data.root} …", style="dim")

    def on_ready(plan: Plan) -> None:
        _welcome(caller.output, caller.data, addresses(plan))
        caller.output.line("\nCtrl-C stops it.", style="dim")

    await run_up(request, on_ready=on_ready, say=lambda text: caller.output.line(text, style="dim"))
    caller.output.line("stopped", style="dim")


async def _detach(caller: Caller) -> None:
    """Start the same command without --detach in a session of its own, and wait until it serves or ends."""
    argv = [argument for argument in caller.defaults.arguments if argument not in ("--detach", "--json")]
    caller.data.create()
    log_file = caller.data.logs / "supervisor.log"
    with log_file.open("ab") as log:
        start = log.tell()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "memoryos_cli.main", *argv, "--json", stdin=asyncio.subprocess.DEVNULL, stdout=log,
            stderr=log, start_new_session=True, env=dict(caller.defaults.environ),
        )  # fmt: skip
    addresses_file = caller.data.file(ADDRESSES_FILE)
    while process.returncode is None:
        found = read_json(caller.data.file(STATUS_FILE)) or {}
        if (found.get("pid"), found.get("phase")) == (process.pid, "running") and addresses_file.exists():
            _welcome(caller.output, caller.data, read_json(addresses_file))
            return
        await asyncio.sleep(POLL_S)
    raise _told_error(log_file.read_bytes()[start:].decode(errors="replace"), process.returncode)


def _told_error(text: str, code: int) -> CliError:
    """Give the error that a detached process printed as its last JSON line."""
    for line in reversed(text.splitlines()):
        try:
            told = json.loads(line)["error"]
        except (ValueError, KeyError, TypeError):
            continue
        exit_code = Exit(told["exit_code"])
        return CliError(told["message"], hint=told["hint"], reason=told["reason"], exit_code=exit_code)
    return CliError(f"it ended with exit code {code}", hint=text[-2000:].strip())


def _welcome(output: Output, folder: DataFolder, services: dict[str, str]) -> None:
    if output.as_json:
        output.value({"data": str(folder.root), "addresses": services})
        return
    output.line("Memory OS runs.", style="bold green")
    output.fields([*services.items(), ("data", folder.root)])
    if not any(child["name"] == "harness-worker" for child in read_json(folder.file(STATUS_FILE))["children"]):
        output.line(
            "No chat model is configured: `mos task run` waits until there is one. "
            f"Set models.chat_url and models.chat_model in {folder.file('config.yaml')}, then stop and start again."
        )
    output.line("\nTry:")
    for line in _to_try(folder, services):
        output.line(f"  {line}")


def _to_try(folder: DataFolder, services: dict[str, str]) -> tuple[str, ...]:
    """Give commands that can be pasted as they are, from any folder."""
    beside = Path(sys.executable).with_name("mos")
    mos = "mos" if shutil.which("mos") == str(beside) or not beside.exists() else shlex.quote(str(beside))
    data = "" if folder.root == Path.home() / ".memoryos" else f" --data {shlex.quote(str(folder.root))}"
    memoryfs = services.get("memoryfs", "HOST:PORT")
    return (
        f'{mos} mem write{data} /tenants/acme/memory/episodic "客户 A 确认了 Q3 交付计划" --about user_123',
        f'{mos} mem read{data} /tenants/acme/memory/episodic "Q3 delivery plan"',
        f"{mos} skill list{data}",
        f'{mos} task run{data} assistant "When is Q3 delivered?"',
        f"{mos} audit verify{data}",
        f"TOKEN=$({mos} token{data})",
        f"grpcurl -plaintext {memoryfs} describe memoryos.memoryfs.v1.MemoryFS",
        'grpcurl -plaintext -H "authorization: Bearer $TOKEN" '
        """-d '{"path": "/tenants/acme/memory/episodic", "query": "Q3 delivery plan"}' """
        f"{memoryfs} memoryos.memoryfs.v1.MemoryFS/Read",
    )


async def status(caller: Caller) -> None:
    """Show every child: state, pid, address, restarts, last exit."""
    found = read_json(caller.data.file(STATUS_FILE)) or {}
    held = is_held(caller.data.file(LOCK_FILE))
    if not held:
        raise CliError(f"nothing runs in {caller.data.root}", hint="start it with `mos up`", exit_code=Exit.NOT_RUNNING)
    children: list[dict[str, Any]] = found.get("children", [])
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.fields([("phase", found.get("phase")), ("pid", found.get("pid")), ("since", found.get("start_time"))])
    caller.output.table(
        ["child", "state", "pid", "address", "restarts", "last exit"],
        [(c["name"], c["state"], c["pid"] or "", c["address"], c["restarts"], c["last_exit"]) for c in children],
    )


async def logs(
    caller: Caller,
    name: Annotated[str | None, typer.Argument(help="Child; all of them when not given.", show_default=False)] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more is written.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Lines of each file to begin with.")] = 20,
) -> None:
    """Show what children wrote to their logs."""
    known = {file.stem: file for file in sorted(caller.data.logs.glob("*.log"))}
    if not known:
        raise CliError(
            f"there are no logs in {caller.data.root}",
            hint="start it with `mos up`, or give --data",
            exit_code=Exit.NOT_FOUND,
        )
    if name is not None and name not in known:
        raise CliError(
            f"there is no log of {name!r}", hint=f"there are: {', '.join(known) or 'none'}", exit_code=Exit.NOT_FOUND
        )
    files = {name: known[name]} if name is not None else known
    ends: dict[str, int] = {}
    for stem, file in files.items():
        text = file.read_bytes()
        ends[stem] = len(text)
        for line in text.decode(errors="replace").splitlines()[-lines:] if lines else ():
            _log_line(caller, stem, line, named=len(files) > 1)
    while follow:
        await asyncio.sleep(POLL_S)
        for stem, file in files.items():
            ends[stem] = _follow(caller, stem, file, ends[stem], named=len(files) > 1)


def _follow(caller: Caller, stem: str, file: Path, start: int, *, named: bool) -> int:
    """Print the whole lines written after `start` and give where they end; a rotated file begins anew."""
    if file.stat().st_size < start:
        start = 0
    with file.open("rb") as source:
        source.seek(start)
        text = source.read()
    whole = text[: text.rfind(b"\n") + 1]
    for line in whole.decode(errors="replace").splitlines():
        _log_line(caller, stem, line, named=named)
    return start + len(whole)


def _log_line(caller: Caller, stem: str, line: str, *, named: bool) -> None:
    if caller.output.as_json:
        caller.output.value({"child": stem, "line": line})
    else:
        caller.output.line(f"{stem:<14} {line}" if named else line)


async def down(
    caller: Caller,
    timeout_s: Annotated[float, typer.Option("--timeout-s", min=1, help="Longest wait for the drain.")] = 120.0,
) -> None:
    """Drain and stop what runs in the data folder."""
    lock_file = caller.data.file(LOCK_FILE)
    if not is_held(lock_file):
        raise CliError(f"nothing runs in {caller.data.root}", exit_code=Exit.NOT_RUNNING)
    found = read_json(caller.data.file(STATUS_FILE)) or {}
    if not kill_if_same(int(found.get("pid", 0)), found.get("ticks"), signal.SIGTERM):
        raise CliError("it is just starting or ending", hint="try again", exit_code=Exit.CONFLICT)
    deadline = time.monotonic() + timeout_s
    while is_held(lock_file):
        if time.monotonic() > deadline:
            raise CliError(
                f"it has not ended within {timeout_s:g} s",
                hint="`mos status` shows who still runs",
                exit_code=Exit.TOO_LATE,
            )
        await asyncio.sleep(POLL_S)
    caller.output.line("stopped")


async def config(caller: Caller) -> None:
    """Print the effective configuration; secrets appear as the paths of their files."""
    file = caller.data.config_file()
    values = settings.checked(file).effective()
    if caller.output.as_json:
        caller.output.value(values)
    else:
        caller.output.line(settings.dump(values).rstrip())


async def migrate(caller: Caller) -> None:
    """Apply the database migrations that are missing (role memoryos_owner)."""
    file = caller.data.config_file()
    try:
        applied = await apply_migrations(settings.checked(file)[PostgresSection])
    except MigrationRefused as error:
        raise CliError(str(error), exit_code=Exit.CONFLICT, reason="MIGRATION_REFUSED") from None
    except (MemoryOSError, OSError) as error:
        raise CliError(
            f"the database does not answer: {error}", hint="does it run? `mos status`", exit_code=Exit.NOT_RUNNING
        ) from None
    if caller.output.as_json:
        caller.output.value({"applied": applied})
    else:
        caller.output.line("\n".join(applied) or "nothing to apply")
