"""`mos`: run, inspect and use Memory OS from a terminal.

Variables: MEMORYOS_DATA (data folder), MOS_USER, MOS_TENANT, MOS_TOKEN (who
calls); an option goes before its variable.
"""

from __future__ import annotations

import getpass
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import typer

from memoryos_cli.caller import DEFAULT_TENANT, Defaults

HELP: Final = """Memory OS from a terminal.

Every command takes --json for programs. Exit codes: 0 done, 1 fault, 2 usage or
invalid argument, 3 not found, 4 not allowed, 5 conflict or runs already, 6 not
running, 7 no answer in time, 8 limit reached, 9 ended otherwise than asked.
"""
GROUPS: Final = {
    "local": ("up", "status", "logs", "down", "config", "migrate"),
    "token": ("token",),
    "mem": ("mem",),
    "job": ("job",),
    "index": ("index",),
    "skill": ("skill", "call"),
    "calls": ("calls",),
    "session": ("session",),
    "task": ("task",),
    "agent": ("agent",),
    "review": ("review",),
    "decision": ("decision",),
    "policy": ("policy",),
    "trace": ("trace",),
    "audit": ("audit",),
    "keys": ("keys",),
}
"""Module under `commands` → its first words. A command loads its own module only: loading all takes a second."""


def build(first_word: str = "") -> typer.Typer:
    """Give the application with the commands that `first_word` may mean: all when it means none."""
    app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(lambda: None)  # with it, an application of one command still has that command's name
    wanted = [module for module, words in GROUPS.items() if first_word in words] or list(GROUPS)
    for module in wanted:
        importlib.import_module(f"memoryos_cli.commands.{module}").add_to(app)
    return app


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run one command and give its exit code."""
    defaults = Defaults(
        data=Path(environ.get("MEMORYOS_DATA") or Path.home() / ".memoryos"),
        user=environ.get("MOS_USER") or getpass.getuser(),
        tenant=environ.get("MOS_TENANT") or DEFAULT_TENANT,
        token=environ.get("MOS_TOKEN", ""),
        environ=environ,
        arguments=tuple(arguments),
    )
    first_word = next((argument for argument in arguments if not argument.startswith("-")), "")
    try:
        build(first_word)(args=list(arguments), prog_name="mos", obj=defaults)
    except SystemExit as ended:  # typer ends every command so
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def main() -> None:
    """Entry point of `mos`."""
    sys.exit(run(sys.argv[1:], os.environ))


if __name__ == "__main__":
    main()
