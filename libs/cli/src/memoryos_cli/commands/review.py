"""`mos review`: approve or deny calls that policy sent to a person."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from memoryos_sdk.reviews import Review

from memoryos_cli.caller import Caller, command
from memoryos_cli.output import moment

ReviewId = Annotated[str, typer.Argument(metavar="REVIEW", show_default=False)]
Comment = Annotated[str, typer.Option("--comment", "-m", help="Why.")]
ROLES = ("reviewer", "user")


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Reviews: approve or deny single calls.", no_args_is_help=True)
    app.add_typer(group, name="review")
    command(group, "list")(list_reviews)
    for function in (show, approve, deny):
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
        ["review", "state", "skill", "asked by", "group", "expires", "reasons"],
        [(r.id, r.state, r.skill, r.requester.user, r.group, moment(r.expire_time), r.reasons) for r in found],
        empty="no review for this caller; reviews are for a group: see --group",
    )


async def show(caller: Caller, review_id: ReviewId) -> None:
    """Show one review, with the arguments that would run to those who may resolve it."""
    async with caller.client(*ROLES) as client:
        _show(caller, await client.reviews.get(review_id))


async def approve(caller: Caller, review_id: ReviewId, comment: Comment = "") -> None:
    """Say that the call may be made, once. Not for who asked for it."""
    async with caller.client(*ROLES) as client:
        _show(caller, await client.reviews.approve(review_id, comment=comment))


async def deny(caller: Caller, review_id: ReviewId, comment: Comment = "") -> None:
    """Say that the call may not be made."""
    async with caller.client(*ROLES) as client:
        _show(caller, await client.reviews.deny(review_id, comment=comment))


def _show(caller: Caller, review: Review) -> None:
    if caller.output.as_json:
        caller.output.value(review)
        return
    votes = [f"{v.verdict} by {v.reviewer}" + (f": {v.comment}" if v.comment else "") for v in review.votes]
    caller.output.fields(
        [
            ("review", review.id),
            ("state", review.state),
            ("skill", review.skill),
            ("asked by", ">".join((review.requester.user, *review.requester.agent_chain))),
            ("group", f"{review.group}, {review.quorum} needed"),
            ("why", review.reasons),
            ("call", review.call_id),
            ("decision", review.decision_id),
            ("opened", review.create_time),
            ("expires", review.expire_time),
            ("resolved", review.resolve_time),
            ("votes", votes),
        ]
    )
    if review.arguments is not None:
        caller.output.line(f"\narguments\n{json.dumps(review.arguments, ensure_ascii=False, indent=2)}")
