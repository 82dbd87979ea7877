"""`mos mem`: erasure with a receipt, and explanations for auditors."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated

import typer
from memoryos_audit.seal_key import RECEIPT_DOMAIN, PublicSealKeys, SealKeyInvalid, public_file

from memoryos_cli.caller import Caller, command
from memoryos_cli.commands.job import follow
from memoryos_cli.commands.mem_shared import Ids, Path, full_path
from memoryos_cli.exits import CliError, Exit


def add_to(group: typer.Typer) -> None:
    """Add the commands to the group."""
    for function in (purge, receipt, explain):
        command(group, function.__name__)(function)


async def purge(
    caller: Caller,
    path: Annotated[str | None, typer.Argument(help="Place of the items.", show_default=False)] = None,
    ids: Annotated[list[str] | None, typer.Argument(help="Names of items (mem_…).", show_default=False)] = None,
    person: Annotated[
        str, typer.Option("--person", help="Instead: everything of and about this user, in every service.")
    ] = "",
    subtree: Annotated[bool, typer.Option("--subtree", help="Everything at and below the path.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the audit.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Erase items, a subtree or a whole person for good, and show the receipt."""
    if sum(map(bool, (person, ids, subtree))) != 1 or (not person and path is None):
        raise CliError("give --person, or a path with names of items or --subtree", exit_code=Exit.USAGE)
    where = full_path(caller, path) if path else ""
    target = (
        f"everything of and about {person}"
        if person
        else f"all below {where}"
        if subtree
        else f"{len(ids or [])} items"
    )
    if not yes and not typer.confirm(f"Erase {target}? It cannot be undone.", err=True):
        raise CliError("nothing was erased", exit_code=Exit.INTERRUPTED)
    async with caller.client("user") as client:
        job = await client.memory.purge(user=person, path=where, ids=ids or (), subtree=subtree, reason=reason)
        await follow(caller, client, job)
    caller.output.line(f"receipt: mos mem receipt {job.id}", style="dim")


async def receipt(
    caller: Caller,
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="The purge.", show_default=False)],
    keys: Annotated[
        FilePath | None,
        typer.Option(
            "--keys", help="Public keys to check it with [default: those of the data folder].", show_default=False
        ),
    ] = None,
) -> None:
    """Show the receipt of a purge, whose signature is checked first."""
    async with caller.client("user") as client:
        found = await client.memory.receipt(job_id)
    file = keys or public_file(caller.data.keys / "receipts.pem")
    try:
        genuine = PublicSealKeys.load(file).signed(found.key_id, found.signature, found.raw, RECEIPT_DOMAIN)
    except SealKeyInvalid as error:
        raise CliError(
            f"the receipt cannot be checked: {error}", hint="give --keys", exit_code=Exit.OTHERWISE
        ) from None
    if not genuine:
        raise CliError("the signature of the receipt is wrong", exit_code=Exit.OTHERWISE)
    caller.output.value({"receipt": found.content, "signature": found.signature.hex(), "key_id": found.key_id})
    caller.output.note(f"signed by {found.key_id}, a key of {file}")


async def explain(
    caller: Caller,
    path: Path,
    ids: Ids,
    principal: Annotated[str, typer.Option("--for", help="User for whom the Read is explained.", show_default=False)],
    query: Annotated[str, typer.Option("--query", help="What was asked.")] = "",
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=200)] = 10,
    principal_group: Annotated[list[str] | None, typer.Option(help="Group of that user; may be repeated.")] = None,
    principal_role: Annotated[list[str] | None, typer.Option(help="Role of that user; may be repeated.")] = None,
    principal_clearance: Annotated[int, typer.Option(min=0, max=9, help="Clearance of that user.")] = 0,
) -> None:
    """Say, for auditors, why items are in what a user would read, or why not."""
    async with caller.client("auditor") as client:
        found = await client.memory.explain(
            full_path(caller, path),
            ids,
            user=principal,
            groups=principal_group or (),
            roles=principal_role or (),
            clearance=principal_clearance,
            query=query,
            top_k=top_k,
        )
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ("item", "verdict", "rank", "score"), ((one.id, one.verdict, one.rank or "", one.score) for one in found)
    )
