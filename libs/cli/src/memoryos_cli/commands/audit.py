"""`mos audit`: verify the chain and list rows, straight from the database as memoryos_sealer (ADR 0004)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from memoryos_audit.head import Head, HeadInvalid
from memoryos_audit.listing import newest_rows
from memoryos_audit.seal_key import PublicSealKeys, SealKeyInvalid, public_file
from memoryos_audit.sealer.config import AuditSection
from memoryos_audit.verify import Report
from memoryos_audit.verify import verify as verify_chain
from memoryos_core.config import ConfigError, load
from memoryos_core.errors import MemoryOSError
from memoryos_core.sections import ALL_SECTIONS
from memoryos_postgres import Database, PostgresSection, roles

from memoryos_cli.caller import LOCAL, Caller, command
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import moment


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Audit: verify the sealed chain, list rows.", no_args_is_help=True)
    app.add_typer(group, name="audit")
    command(group, "verify", options=LOCAL)(verify)
    command(group, "list", options=LOCAL)(list_rows)


async def verify(
    caller: Caller,
    head_file: Annotated[
        Path | None,
        typer.Option(
            "--head", help="Head noted elsewhere (JSON) instead of the sealer's own file.", show_default=False
        ),
    ] = None,
) -> None:
    """Compare every audit row with the sealed chain; exit code 9 when they differ or the end was cut off."""
    section = _sections(caller)[1]
    if head_file is not None and not head_file.exists():
        raise CliError(f"--head {head_file}: there is no such file", exit_code=Exit.USAGE)
    try:
        keys = PublicSealKeys.load(public_file(section.seal_key_file))
        head = Head.load(head_file or section.head_file)
    except (SealKeyInvalid, HeadInvalid, OSError) as error:
        raise CliError(str(error), exit_code=Exit.OTHERWISE) from None
    async with _database(caller) as database:
        report = await verify_chain(database, keys, head)
    _tell(caller, report)


async def list_rows(
    caller: Caller,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only of this tenant.", show_default=False)] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="CALL_TOOL, MEMORY_READ, PERMISSION_DENIED, …", show_default=False)
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only on behalf of this user.", show_default=False)] = None,
    of: Annotated[
        str | None,
        typer.Option("--id", help="Only rows that name this item, task, call, decision or trace.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Rows at most.")] = 50,
) -> None:
    """List audit rows, newest first."""
    async with _database(caller) as database:
        rows = await newest_rows(database, limit=limit, where={"tenant": tenant, "kind": kind, "user": user, "id": of})
    if caller.output.as_json:
        caller.output.value(rows)
        return
    caller.output.table(
        ["when", "kind", "outcome", "tenant", "who", "names"],
        [
            (
                moment(row["create_time"]),
                row["kind"],
                " ".join(filter(None, (row["outcome"], row["reason"]))),
                row["tenant"],
                row["actor"] or row["user_name"],
                " ".join(filter(None, dict.fromkeys(_names(row)))),
            )
            for row in rows
        ],
        empty="no row",
    )


def _names(row: Mapping[str, Any]) -> tuple[str | None, ...]:
    return (row["task_id"], row["call_id"], row["decision_id"], *(row["target_ids"] or ())[:3])


def _tell(caller: Caller, report: Report) -> None:
    if caller.output.as_json:
        caller.output.value({**asdict(report), "ok": report.ok})
    else:
        caller.output.fields(
            [
                ("sealed", f"{report.sealed_rows} rows in {report.blocks} blocks"),
                ("until", _instant(report.sealed_until)),
                ("not sealed yet", report.unsealed_rows or None),
                ("since", _instant(report.unsealed_since)),
                ("head", f"block {report.head.block} {report.head.hash}" if report.head else "none"),
            ]
        )
        for failure in report.failures:
            caller.output.line(f"FAILED: {failure}", style="bold red")
    if not report.ok:
        raise CliError(
            "the audit is not what was written",
            hint="keep the database as it is",
            exit_code=Exit.OTHERWISE,
            reason="AUDIT_BROKEN",
        )
    caller.output.line("the audit is whole", style="green")


def _instant(microseconds: str) -> str:
    """Give the time that a report names in microseconds since 1970."""
    return moment(datetime.fromtimestamp(int(microseconds) / 1e6, UTC)) if microseconds.isdigit() else microseconds


def _sections(caller: Caller) -> tuple[PostgresSection, AuditSection]:
    file = caller.data.config_file()
    try:
        config = load([PostgresSection, AuditSection], file=file, environ={}, known=ALL_SECTIONS)
    except ConfigError as error:
        raise CliError(str(error), exit_code=Exit.USAGE) from None
    return config[PostgresSection], config[AuditSection]


@asynccontextmanager
async def _database(caller: Caller) -> AsyncIterator[Database]:
    section = _sections(caller)[0].model_copy(update={"pool_size": 1})
    try:
        async with Database(section, roles.SEALER) as database:
            yield database
    except MemoryOSError as error:
        raise CliError(
            f"the database does not answer: {error}", hint="does it run? `mos status`", exit_code=Exit.NOT_RUNNING
        ) from None
