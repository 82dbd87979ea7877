"""`mos mem`: the change feed, exports and imports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path as FilePath
from typing import Annotated

import typer
from memoryos_sdk import InvalidArgument
from memoryos_sdk.memory.transfer import Progress as Tell
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from memoryos_cli.caller import Caller, command
from memoryos_cli.commands.mem_life import change_row
from memoryos_cli.commands.mem_shared import Path, full_path
from memoryos_cli.exits import CliError, Exit

Folder = Annotated[FilePath, typer.Argument(help="A folder.", show_default=False)]


def add_to(group: typer.Typer) -> None:
    """Add the commands to the group."""
    for function in (watch, export):
        command(group, function.__name__)(function)
    command(group, "import")(import_folder)


async def watch(
    caller: Caller,
    path: Path,
    position: Annotated[str, typer.Option("--position", help="Go on after this position.")] = "",
    from_start: Annotated[bool, typer.Option("--from-start", help="From the first change that is kept.")] = False,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="End after so many; 0: never.")] = 0,
) -> None:
    """Follow the changes of a subtree; with --json one line each, with the position to go on from."""
    seen = 0
    async with caller.client() as client:
        events = client.memory.watch(full_path(caller, path), position=position, from_start=from_start)
        async with aclosing(events):
            async for event in events:
                if caller.output.as_json:
                    caller.output.value(event)
                else:
                    caller.output.line("  ".join(str(part) for part in (*change_row(event.change)[:-1], event.id)))
                    if event.change.item:
                        caller.output.line(f"  {change_row(event.change)[-1]}", style="dim")
                seen += 1
                if seen == count:
                    return


async def export(
    caller: Caller,
    path: Path,
    folder: Folder,
    layout: Annotated[str, typer.Option("--layout", help="items (lossless) or readable (per user).")] = "items",
    vectors: Annotated[bool, typer.Option("--vectors", help="Vectors, too: an import need not embed again.")] = False,
    history: Annotated[bool, typer.Option("--history", help="Earlier revisions, too.")] = False,
) -> None:
    """Write a subtree into a folder, with a manifest of checksums."""
    with _refused_plainly(), _bar(caller, "exporting") as tell:
        async with caller.client() as client:
            manifest = await client.memory.export(
                full_path(caller, path),
                folder,
                layout=layout,
                with_vectors=vectors,
                with_history=history,
                progress=tell,
            )
    if caller.output.as_json:
        caller.output.value(manifest)
        return
    caller.output.line(f"{manifest.get('item_count', 0)} items in {len(manifest.get('files', []))} files in {folder}")


async def import_folder(
    caller: Caller,
    path: Path,
    folder: Folder,
    replace: Annotated[
        bool, typer.Option("--replace", help="An item that is there with other values gets a new revision.")
    ] = False,
    request_id: Annotated[
        str | None, typer.Option("--request-id", help="Go on with an import that broke off.", show_default=False)
    ] = None,
) -> None:
    """Take in what export wrote, with the same names."""
    with _refused_plainly(), _bar(caller, "importing") as tell:
        async with caller.client("user") as client:
            done = await client.memory.import_folder(
                full_path(caller, path),
                folder,
                conflict="replace" if replace else "skip_equal",
                request_id=request_id,
                progress=tell,
            )
    if caller.output.as_json:
        caller.output.value(done)
        return
    caller.output.line(
        f"{done.created_count} made, {done.replaced_count} replaced, {done.skipped_count} there already"
        + (f", {done.pending_count} wait for their vector" if done.pending_count else "")
    )


@contextmanager
def _bar(caller: Caller, word: str) -> Iterator[Tell]:
    columns = (TextColumn(word), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=caller.output.as_json, transient=True) as progress:
        bar = progress.add_task(word, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total or None)


@contextmanager
def _refused_plainly() -> Iterator[None]:
    try:
        yield
    except InvalidArgument as error:
        said = "; ".join(f"{violation.field}: {violation.description}" for violation in error.violations)
        raise CliError(said or error.message, exit_code=Exit.USAGE, reason=error.reason) from None
