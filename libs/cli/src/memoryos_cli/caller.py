"""Who calls: options that every command has, and the client made from them."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from memoryos_core.clock import SystemClock
from memoryos_core.errors import MemoryOSError
from memoryos_core.ids import UlidSource
from memoryos_core.tokens import EDGE_AUDIENCE, ROLES, Identity, TokenSigner
from memoryos_sdk import CallError, Client, connect

from memoryos_cli.datafolder import ADDRESSES_FILE, DataFolder
from memoryos_cli.exits import CliError, Exit, of_call_error
from memoryos_cli.output import Output

TOKEN_TTL_S: Final = 3600
DEFAULT_TENANT: Final = "acme"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What main.py found in the environment; an option on the command line goes before it."""

    data: Path
    user: str
    tenant: str = DEFAULT_TENANT
    token: str = ""
    environ: Mapping[str, str]
    """The whole environment, for what `mos up` hands on to its children."""
    arguments: tuple[str, ...]
    """The command line, for `mos up --detach`, which runs it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of one command."""

    data: DataFolder
    output: Output
    user: str
    tenant: str
    roles: tuple[str, ...]
    groups: tuple[str, ...]
    clearance: int
    given_token: str
    defaults: Defaults

    def token(self, *, default_roles: tuple[str, ...], ttl_s: int = TOKEN_TTL_S) -> str:
        """Give the token given, or one of the development issuer for this user."""
        if self.given_token:
            return self.given_token
        if unknown := sorted(set(self.roles) - ROLES):
            raise CliError(f"--role {unknown[0]}: known are {', '.join(sorted(ROLES))}", exit_code=Exit.USAGE)
        signer = TokenSigner.load(self.data.dev_key(), SystemClock(), UlidSource())
        identity = Identity(
            tenant=self.tenant,
            user=self.user,
            roles=frozenset(self.roles or default_roles),
            groups=frozenset(self.groups),
            clearance=self.clearance,
        )
        try:
            return signer.subject(identity, audience=[EDGE_AUDIENCE], ttl_s=ttl_s)
        except (MemoryOSError, ValueError) as error:
            raise CliError(f"no such token can be made: {error}", exit_code=Exit.USAGE) from None

    def client(self, *default_roles: str) -> Client:
        """Give a client; `default_roles` are those of a made token when none is named. CliError when nothing runs."""
        file = self.data.file(ADDRESSES_FILE)
        try:
            addresses = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise CliError(
                f"nothing runs in {self.data.root}",
                hint="start it with `mos up`, or give --data",
                exit_code=Exit.NOT_RUNNING,
            ) from None
        return connect(token=self.token(default_roles=default_roles or ("agent", "user")), **addresses)


_DATA = Annotated[Path | None, typer.Option("--data", help="Data folder [default: ~/.memoryos].", show_default=False)]
_JSON = Annotated[bool, typer.Option("--json", help="One JSON value instead of text.")]
_OPTIONS: Final[dict[str, Any]] = {
    "data": _DATA,
    "as_json": _JSON,
    "user": Annotated[str | None, typer.Option("--user", help="Who calls.", show_default=False)],
    "tenant": Annotated[str | None, typer.Option("--tenant", help="Tenant of the caller.", show_default=False)],
    "role": Annotated[list[str] | None, typer.Option("--role", help="Role of the caller; may be repeated.")],
    "group": Annotated[list[str] | None, typer.Option("--group", help="Group of the caller; may be repeated.")],
    "clearance": Annotated[int, typer.Option("--clearance", min=0, max=9, help="Clearance of the caller.")],
    "token": Annotated[str | None, typer.Option("--token", help="Token to use instead of one made for --user.")],
}
_DEFAULTS: Final[dict[str, Any]] = {**dict.fromkeys(_OPTIONS), "as_json": False, "clearance": 0}
LOCAL: Final = ("data", "as_json")
"""Options of commands that ask no service."""


def command(app: typer.Typer, name: str, *, options: tuple[str, ...] = tuple(_OPTIONS)) -> Callable[..., Any]:
    """Add an async function `(caller, …)` to `app` as a command that also takes the caller's options.

    With the name "" it is what the group itself does without a further word.
    Its errors become one line and the exit code of memoryos_cli.exits.
    """

    def add(function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        shared = [
            inspect.Parameter(
                f"caller_{option}",
                inspect.Parameter.KEYWORD_ONLY,
                default=_DEFAULTS[option],
                annotation=_OPTIONS[option],
            )
            for option in options
        ]
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]

        @functools.wraps(function)
        def run(ctx: typer.Context, **given: Any) -> None:
            if ctx.invoked_subcommand is not None:
                _nothing_before(ctx)
                return
            shared_values = {**_DEFAULTS, **{option: given.pop(f"caller_{option}") for option in options}}
            caller = _caller(ctx.obj, shared_values)
            code = run_and_tell(lambda: function(caller, **given), caller.output)
            if code:
                raise typer.Exit(code)

        run.__signature__ = inspect.Signature([context, *own, *shared])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (context, *own, *shared)}
        del run.__wrapped__
        (app.command(name) if name else app.callback(invoke_without_command=True))(run)
        return function

    return add


def _nothing_before(ctx: typer.Context) -> None:
    """Refuse options of the group before one of its commands: they would be those of nobody."""
    sources = [ctx.get_parameter_source(name) for name in ctx.params]
    if any(source is not None and source.name == "COMMANDLINE" for source in sources):
        raise typer.BadParameter("options go after the last word of the command", ctx=ctx)


def run_and_tell(function: Callable[[], Awaitable[None]], output: Output) -> int:
    """Run a command to its end, tell what went wrong, and give its exit code."""

    async def main() -> None:
        await function()

    try:
        asyncio.run(main())
    except CallError as error:
        return _tell(of_call_error(error), output)
    except CliError as error:
        return _tell(error, output)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return Exit.DONE
    return Exit.DONE


def _tell(error: CliError, output: Output) -> int:
    output.error(error)
    return error.exit_code


def _caller(defaults: Defaults, given: dict[str, Any]) -> Caller:
    return Caller(
        data=DataFolder((given["data"] or defaults.data).expanduser().absolute()),
        output=Output(as_json=given["as_json"]),
        user=given["user"] or defaults.user,
        tenant=given["tenant"] or defaults.tenant,
        roles=tuple(given["role"] or ()),
        groups=tuple(given["group"] or ()),
        clearance=given["clearance"],
        given_token=given["token"] or ("" if given["user"] else defaults.token),
        defaults=defaults,
    )
