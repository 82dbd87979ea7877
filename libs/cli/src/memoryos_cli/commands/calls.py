"""`mos calls`: the calls of the effect journal, followed, withdrawn and settled."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, TypeVar

import typer
from memoryos_sdk import NotFound, PermissionDenied
from memoryos_sdk.calls import Call

from memoryos_cli.call_story import STATES, Told, next_steps, sent, story
from memoryos_cli.caller import Caller, command
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import moment
from memoryos_cli.review_sheet import shown

T = TypeVar("T")
READER = ("agent", "user", "auditor")
DECIDER = ("user", "operator")
ENDS = {"denied": Exit.NOT_ALLOWED, "failed": Exit.OTHERWISE, "cancelled": Exit.OTHERWISE}
CallId = Annotated[str, typer.Argument(metavar="CALL", help="Name of a call (call_…).", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Calls of skills: list, show, watch, withdraw, settle.", no_args_is_help=True)
    app.add_typer(group, name="calls")
    command(group, "list")(list_calls)
    for function in (show, watch, cancel, reconcile):
        command(group, function.__name__)(function)


async def list_calls(
    caller: Caller,
    state: Annotated[str | None, typer.Option("--state", help=f"{', '.join(STATES)}.", show_default=False)] = None,
    skill: Annotated[str, typer.Option("--skill", help="Only of this skill.")] = "",
    session_id: Annotated[str, typer.Option("--session", help="Only of this session.")] = "",
    task_id: Annotated[str, typer.Option("--task", help="Only of this task.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Calls at most.")] = 50,
) -> None:
    """List the caller's calls, newest first; with --role auditor or operator all of the tenant."""
    async with caller.client() as client:
        calls = client.tools.list_calls(
            state=state, skill=skill, session_id=session_id, task_id=task_id, page_size=min(limit, 500)
        )
        found = await calls.take(limit)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ["call", "state", "skill", "user", "asked", "sent", "why not"],
        [
            (c.id, c.state, shown(c.skill), shown(c.actor.user), moment(c.create_time), c.dispatches, c.error_code)
            for c in found
        ],
        empty="no call of this caller",
    )


async def show(
    caller: Caller,
    call_id: CallId,
    full: Annotated[bool, typer.Option("--full", help="The whole result, where it was cut.")] = False,
) -> None:
    """Tell one call: asked, decided, reviewed, sent, what came of it, and what can be done next."""
    async with caller.client(*READER) as client:
        call = await client.tools.get_call(call_id, full_result=full)
        if caller.output.as_json:
            caller.output.value(call)
            return
        told = Told(
            call=call,
            decision=await _visible(client.decisions.get(call.decision_id)) if call.decision_id else None,
            review=await _visible(client.reviews.get(call.review_id)) if call.review_id else None,
        )
    caller.output.fields(story(told, datetime.now(UTC)))
    _result(caller, call, full=full)
    for number, (wanted, meaning) in enumerate(next_steps(told)):
        caller.output.line(("" if number else "\n") + wanted, style="bold")
        caller.output.line(f"    {meaning}")


async def watch(caller: Caller, call_id: CallId) -> None:
    """Follow a call until it has ended; with --json a line for every change.

    One of unknown outcome is followed until it is settled. Exit codes as those of `mos call`.
    """
    async with caller.client(*READER) as client, aclosing(client.tools.watch_call(call_id)) as changes:
        async for call in changes:
            if caller.output.as_json:
                caller.output.json_line(call)
            else:
                caller.output.line(f"{call.state:<10}  {_step(call)}".rstrip())
    if call.state in ENDS:
        message = call.agent_message or f"the call is {call.state}"
        raise CliError(
            message,
            hint=f"`mos calls show {call.id}`",
            exit_code=ENDS[call.state],
            reason=call.error_code or call.state,
        )


async def cancel(
    caller: Caller,
    call_id: Annotated[str, typer.Argument(metavar="[CALL]", help="Name of a call (call_…).", show_default=False)] = "",
    request_id: Annotated[
        str, typer.Option("--request-id", help="Instead: the id it was, or would be, asked for with.")
    ] = "",
) -> None:
    """Withdraw a call that was not sent, also one that has not come yet. Exit code 5 when it was sent before."""
    async with caller.client() as client:
        found = await client.tools.cancel_call(call_id, call_request_id=request_id)
    if caller.output.as_json:
        caller.output.value(found)
    if found.proof == "sent":
        raise CliError(
            f"it was sent before: {found.call.state}",
            hint=f"`mos calls show {found.call.id}`",
            exit_code=Exit.CONFLICT,
            reason="SENT",
        )
    earlier = f" (it had ended before: {found.call.state})" if found.proof == "ended_unsent" else ""
    caller.output.line(f"{found.call.id} was not sent, and never will be{earlier}")


async def reconcile(
    caller: Caller,
    call_id: CallId,
    happened: Annotated[
        bool | None,
        typer.Option("--happened/--did-not-happen", help="Say it yourself, as an operator.", show_default=False),
    ] = None,
    comment: Annotated[str, typer.Option("--comment", "-m", help="How you know.")] = "",
) -> None:
    """End the doubt about a call of unknown outcome: ask its upstream, or say what you know.

    Exit code 9 when the upstream could not tell.
    """
    outcome = None if happened is None else "happened" if happened else "did_not_happen"
    async with caller.client(*(("agent", "user") if outcome is None else DECIDER)) as client:
        found = await client.tools.reconcile_call(call_id, outcome=outcome, comment=comment)
    if caller.output.as_json:
        caller.output.value(found)
    if found.state == "unknown":
        raise CliError(
            "the upstream could not tell; the call is unknown still",
            hint=f"an operator who knows says --happened or --did-not-happen: `mos calls show {found.id}`",
            exit_code=Exit.OTHERWISE,
            reason="UNKNOWN",
        )
    caller.output.line(f"{found.id} is {found.state}: {found.agent_message or 'it happened'}")


def _result(caller: Caller, call: Call, *, full: bool) -> None:
    if call.result is not None:
        caller.output.line()
        caller.output.value(call.result if call.full_result is None else call.full_result)
    if full and call.full_result_bytes and call.full_result is None:
        caller.output.note("the whole result is not kept any more, or not this caller's to see")


def _step(call: Call) -> str:
    if call.state == "parked":
        return f"a person must decide: mos review show {call.review_id}"
    if call.state in ("dispatched", "unknown"):
        return f"sent {sent(call)}"
    return call.agent_message if call.state != "succeeded" else ""


async def _visible(found: Awaitable[T]) -> T | None:
    """Give what is found, or None where it is not this caller's to see."""
    try:
        return await found
    except (NotFound, PermissionDenied):
        return None
