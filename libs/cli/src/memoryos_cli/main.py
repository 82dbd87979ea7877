"""`mos`: run, inspect and use Memory OS from a terminal.

Variables: MEMORYOS_DATA (data folder), MOS_USER, MOS_TENANT, MOS_TOKEN (who
calls); an option goes before its variable.
"""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path

import typer

from memoryos_cli.caller import DEFAULT_TENANT, Defaults
from memoryos_cli.commands import audit, decision, local, mem, review, session, skill, task, token, trace

HELP = """Memory OS from a terminal.

Every command takes --json for programs. Exit codes: 0 done, 1 fault, 2 usage or
invalid argument, 3 not found, 4 not allowed, 5 conflict or runs already, 6 not
running, 7 no answer in time, 8 limit reached, 9 ended otherwise than asked.
"""


def build() -> typer.Typer:
    """Give the whole application."""
    app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
    for group in (local, token, mem, skill, session, task, review, decision, trace, audit):
        group.add_to(app)
    return app


def main() -> None:
    """Entry point of `mos`."""
    environ = os.environ
    defaults = Defaults(
        data=Path(environ.get("MEMORYOS_DATA") or Path.home() / ".memoryos"),
        user=environ.get("MOS_USER") or getpass.getuser(),
        tenant=environ.get("MOS_TENANT") or DEFAULT_TENANT,
        token=environ.get("MOS_TOKEN", ""),
        environ=environ,
    )
    sys.exit(build()(obj=defaults))


if __name__ == "__main__":
    main()
