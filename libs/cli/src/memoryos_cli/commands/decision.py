"""`mos decision`: what policy decided, and for auditors why."""

from __future__ import annotations

from typing import Annotated

import typer

from memoryos_cli.caller import Caller, command
from memoryos_cli.output import moment

ROLES = ("auditor",)


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Decisions: what policy said, and why.", no_args_is_help=True)
    app.add_typer(group, name="decision")
    command(group, "list")(list_decisions)
    command(group, "show")(show)


async def list_decisions(
    caller: Caller,
    call_id: Annotated[str, typer.Option("--call", help="Only of this call.")] = "",
    effect: Annotated[
        str | None, typer.Option("--effect", help="allow, deny or manual_review.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Decisions at most.")] = 50,
) -> None:
    """List decisions, newest first."""
    async with caller.client(*ROLES) as client:
        found = await client.decisions.list(call_id=call_id, effect=effect).take(limit)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ["decision", "effect", "skill", "user", "when", "reasons"],
        [(d.id, d.effect, d.skill, d.actor.user, moment(d.create_time), [r.code for r in d.reasons]) for d in found],
        empty="no decision",
    )


async def show(
    caller: Caller, decision_id: Annotated[str, typer.Argument(metavar="DECISION", show_default=False)]
) -> None:
    """Show one decision; its reasons to auditors only."""
    async with caller.client(*ROLES) as client:
        found = await client.decisions.get(decision_id)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.fields(
        [
            ("decision", found.id),
            ("effect", found.effect),
            ("skill", found.skill),
            ("for", ">".join((found.actor.user, *found.actor.agent_chain))),
            ("call", found.call_id),
            ("review", found.review_id),
            (
                "approval",
                [f"{a.quorum} of {a.group} within {a.expires_in.total_seconds():g} s" for a in found.approvals],
            ),
            ("bundle", found.bundle_revision),
            ("bundle age", f"{found.bundle_age.total_seconds():g} s"),
            ("action hmac", found.action_digest_hmac),
            ("trace", found.trace_id),
            ("when", found.create_time),
            ("told to the agent", found.agent_message),
        ]
    )
    for reason in found.reasons:
        caller.output.line(f"  {reason.code}  [{reason.policy}]  {reason.text}")
