"""`mos review`: approve or deny calls that policy sent to a person."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated

import typer
from memoryos_sdk.reviews import Review

from memoryos_cli import review_sheet
from memoryos_cli.caller import Caller, command
from memoryos_cli.output import moment, plain

ReviewId = Annotated[str, typer.Argument(metavar="REVIEW", show_default=False)]
Comment = Annotated[str, typer.Option("--comment", "-m", help="Why.")]
ROLES = ("reviewer", "user")
COLUMNS = ("review", "state", "skill", "asked by", "group", "expires", "reasons")


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Reviews: approve or deny single calls.", no_args_is_help=True)
    app.add_typer(group, name="review")
    command(group, "list")(list_reviews)
    for function in (show, approve, deny, watch):
        command(group, function.__name__)(function)


async def list_reviews(
    caller: Caller,
    state: Annotated[str, typer.Option("--state", help="pending, approved, denied, expired or all.")] = "pending",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Reviews at most.")] = 50,
) -> None:
    """List reviews that the caller may resolve or has asked for, newest first."""
    async with caller.client(*ROLES) as client:
        found = await client.reviews.list(state=None if state == "all" else state).take(limit)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        COLUMNS,
        review_sheet.rows_of(found),
        empty="no review for this caller; reviews are for a group: see --group",
    )


async def show(
    caller: Caller,
    review_id: ReviewId,
    full: Annotated[bool, typer.Option("--full", help="Cut nothing.")] = False,
) -> None:
    """Show one review, with the arguments that would run to those who may resolve it."""
    async with caller.client(*ROLES) as client:
        _show(caller, await client.reviews.get(review_id), full=full)


async def approve(caller: Caller, review_id: ReviewId, comment: Comment = "") -> None:
    """Say that the call may be made, once. Not for who asked for it."""
    async with caller.client(*ROLES) as client:
        _tell(caller, await client.reviews.approve(review_id, comment=comment))


async def deny(caller: Caller, review_id: ReviewId, comment: Comment = "") -> None:
    """Say that the call may not be made."""
    async with caller.client(*ROLES) as client:
        _tell(caller, await client.reviews.deny(review_id, comment=comment))


async def watch(
    caller: Caller,
    position: Annotated[str, typer.Option("--position", help="Go on after this position.")] = "",
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="End after so many; 0: never.")] = 0,
) -> None:
    """Show what is pending, then every review as it opens, is voted on and ends; with --json one line each."""
    seen = 0
    async with caller.client(*ROLES) as client, aclosing(client.reviews.watch(position=position)) as events:
        async for event in events:
            if caller.output.as_json:
                caller.output.json_line(plain(event))
            else:
                (row,) = review_sheet.rows_of([event.review])
                *first, reasons = row
                caller.output.line("  ".join(map(str, first)))
                for reason in event.review.reasons if reasons else ():
                    caller.output.line(f"  {review_sheet.shown(reason)}", style="dim")
            seen += 1
            if seen == count:
                return


def _tell(caller: Caller, review: Review) -> None:
    """Say where the review stands now."""
    if caller.output.as_json:
        caller.output.value(review)
        return
    approvals = sum(vote.verdict == "approve" for vote in review.votes)
    missing = f": {approvals} of {review.quorum} approvals" if review.state == "pending" else ""
    caller.output.line(f"{review.id} is {review.state}{missing}")


def _show(caller: Caller, review: Review, *, full: bool) -> None:
    if caller.output.as_json:
        caller.output.value(review)
        return
    now = datetime.now(UTC)
    caller.output.fields(review_sheet.sheet(review, now, full=full))
    if review.arguments is not None:
        rows, more = review_sheet.arguments(review, full=full)
        remarks = any(remark for *_, remark in rows)
        caller.output.line()
        caller.output.table(
            ["argument", *(["look out"] if remarks else []), "value"],
            [(name, *([remark] if remarks else []), value) for name, value, remark in rows],
            empty="no arguments",
        )
        if more:
            caller.output.line(f"and {more} more arguments: --full shows them", style="bold")
    caller.output.line()
    names = [("call", review.call_id), ("decision", review.decision_id), ("opened", moment(review.create_time))]
    caller.output.fields(names)
    for number, answer in enumerate(review_sheet.answers(review)):
        caller.output.line(("" if number else "\n") + answer, style="bold")
