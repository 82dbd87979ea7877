"""`mos decision`: what policy decided, and for auditors why."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import fields
from typing import Annotated, Any

import typer
from memoryos_sdk.decisions import Decision, DecisionFilter

from memoryos_cli.caller import Caller, command
from memoryos_cli.output import moment, plain

ROLES = ("auditor",)
PAGE_SIZE = 500
DecisionId = Annotated[str, typer.Argument(metavar="DECISION", show_default=False)]
Effect = Annotated[str | None, typer.Option("--effect", help="allow, deny or manual_review.", show_default=False)]
Who = Annotated[str, typer.Option("--for", metavar="USER", help="Only for this user.")]
Skill = Annotated[str, typer.Option("--skill", help="Only on this skill.")]
Rule = Annotated[str, typer.Option("--reason", metavar="CODE", help="Only with a reason of this code.")]
PolicyName = Annotated[str, typer.Option("--policy", help="Only with a reason of this policy.")]
Since = Annotated[str | None, typer.Option("--since", help="Only at this time or later.", show_default=False)]
Until = Annotated[str | None, typer.Option("--until", help="Only before this time.", show_default=False)]
CallId = Annotated[str, typer.Option("--call", help="Only of this call.")]
Trace = Annotated[str, typer.Option("--trace", help="Only of this trace.")]
ReviewId = Annotated[str, typer.Option("--review", help="Only resting on this review.")]


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Decisions: what policy said, and why.", no_args_is_help=True)
    app.add_typer(group, name="decision")
    command(group, "list")(list_decisions)
    for function in (show, watch, explain, export):
        command(group, function.__name__)(function)


async def list_decisions(
    caller: Caller,
    who: Who = "",
    skill: Skill = "",
    effect: Effect = None,
    reason: Rule = "",
    policy: PolicyName = "",
    since: Since = None,
    until: Until = None,
    call_id: CallId = "",
    trace: Trace = "",
    review: ReviewId = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Decisions at most.")] = 50,
) -> None:
    """List decisions, newest first."""
    wanted = DecisionFilter(
        user=who, skill=skill, effect=effect, reason_code=reason, policy=policy, between=(since, until),
        call_id=call_id, trace_id=trace, review_id=review,
    )  # fmt: skip
    async with caller.client(*ROLES) as client:
        found = await client.decisions.list(wanted, page_size=min(limit, PAGE_SIZE)).take(limit)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ["decision", "effect", "skill", "user", "when", "reasons"],
        [(d.id, d.effect, d.skill, d.actor.user, moment(d.create_time), [r.code for r in d.reasons]) for d in found],
        empty="no decision",
    )


async def export(
    caller: Caller,
    who: Who = "",
    skill: Skill = "",
    effect: Effect = None,
    reason: Rule = "",
    policy: PolicyName = "",
    since: Since = None,
    until: Until = None,
    call_id: CallId = "",
    trace: Trace = "",
    review: ReviewId = "",
    with_input: Annotated[bool, typer.Option("--with-input", help="What the rules saw, masked; audited.")] = False,
) -> None:
    """Write all decisions that are asked for as JSON lines, newest first; without content unless --with-input."""
    wanted = DecisionFilter(
        user=who, skill=skill, effect=effect, reason_code=reason, policy=policy, between=(since, until),
        call_id=call_id, trace_id=trace, review_id=review,
    )  # fmt: skip
    async with caller.client(*ROLES) as client:
        async for found in client.decisions.list(wanted, with_input=with_input, page_size=PAGE_SIZE):
            caller.output.json_line(_exported(found, with_input=with_input))


async def show(
    caller: Caller,
    decision_id: DecisionId,
    with_input: Annotated[bool, typer.Option("--input", help="What the rules saw, masked; audited.")] = False,
) -> None:
    """Show one decision; its reasons and input to auditors only."""
    async with caller.client(*ROLES) as client:
        found = await client.decisions.get(decision_id, with_input=with_input)
    if caller.output.as_json:
        caller.output.value(found)
        return
    _show(caller, found)
    if with_input and found.input is None:
        caller.output.line("\nthe input was erased with the person whom it was about")
    elif with_input:
        caller.output.line(f"\ninput\n{json.dumps(found.input, ensure_ascii=False, indent=2)}")


async def watch(
    caller: Caller,
    effect: Effect = None,
    position: Annotated[str, typer.Option("--position", help="Go on after this position.")] = "",
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="End after so many; 0: never.")] = 0,
) -> None:
    """Follow decisions as they are kept; with --json one line each, with the position to go on from."""
    async with (
        caller.client(*ROLES) as client,
        aclosing(client.decisions.watch(effect=effect, position=position)) as events,
    ):
        async for event in _first(events, count):
            found = event.decision
            if caller.output.as_json:
                caller.output.json_line(plain(event))
                continue
            codes = ", ".join(reason.code for reason in found.reasons)
            row = (moment(found.create_time), found.effect, found.skill, found.actor.user, found.id, codes)
            caller.output.line("  ".join(row))


async def explain(caller: Caller, decision_id: DecisionId) -> None:
    """Ask the rules that decided once more, and show which of them were true."""
    async with caller.client(*ROLES) as client:
        found = await client.decisions.explain(decision_id)
    if caller.output.as_json:
        caller.output.value(found)
        return
    _show(caller, found.kept)
    caller.output.line("\nrules that were true")
    for rule in found.fired:
        caller.output.line(f"  {rule.file}:{rule.line}  {rule.head}")
    if found.same:
        caller.output.line("\nits rules say the same again")
        return
    caller.output.line("\nits rules say something else now", style="bold red")
    _show(caller, found.again)


def _show(caller: Caller, found: Decision) -> None:
    caller.output.fields(
        [
            ("decision", found.id),
            ("effect", found.effect),
            ("skill", found.skill),
            ("risk", found.risk),
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
            ("session", found.session_id),
            ("task", found.task_id),
            ("trace", found.trace_id),
            ("when", found.create_time),
            ("told to the agent", found.agent_message),
        ]
    )
    for reason in found.reasons:
        caller.output.line(f"  {reason.code}  [{reason.policy}]  {reason.text}")


def _exported(found: Decision, *, with_input: bool) -> dict[str, Any]:
    names = [field.name for field in fields(found) if with_input or field.name != "input"]
    return {name: plain(getattr(found, name)) for name in names}


async def _first(events: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    """Give the first `count` events; 0: all."""
    seen = 0
    async for event in events:
        yield event
        seen += 1
        if seen == count:
            return
