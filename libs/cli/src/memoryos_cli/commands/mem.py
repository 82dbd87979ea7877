"""`mos mem`: write, recall, name and list memory."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from memoryos_sdk.items import Item

from memoryos_cli.caller import Caller, command
from memoryos_cli.commands import mem_erase, mem_life, mem_places, mem_points, mem_transfer
from memoryos_cli.commands.mem_shared import Path, full_path, object_of
from memoryos_cli.output import moment, short

About = Annotated[
    list[str] | None, typer.Option("--about", help="Whom it concerns; may be repeated.", show_default=False)
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", help="Tag; may be repeated: all must be there.", show_default=False)
]
Since = Annotated[str | None, typer.Option("--since", help="Held at this date or later.", show_default=False)]
Until = Annotated[str | None, typer.Option("--until", help="Held before this date.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Memory: write, recall, correct, roll back, move, erase.", no_args_is_help=True)
    app.add_typer(group, name="mem")
    for function in (write, read, get):
        command(group, function.__name__)(function)
    command(group, "list")(list_items)
    for more in (mem_life, mem_places, mem_points, mem_transfer, mem_erase):
        more.add_to(group)


async def write(
    caller: Caller,
    path: Path,
    content: Annotated[str, typer.Argument(help="What is remembered; - reads standard input.", show_default=False)],
    about: Annotated[str | None, typer.Option("--about", help="Whom it concerns.", show_default=False)] = None,
    time: Annotated[
        str | None, typer.Option("--time", help="First instant at which it holds.", show_default=False)
    ] = None,
    confidence: Annotated[float | None, typer.Option("--confidence", help="0..1.", show_default=False)] = None,
    importance: Annotated[float | None, typer.Option("--importance", help="0..1.", show_default=False)] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Tag; may be repeated.", show_default=False)] = None,
    reader: Annotated[
        list[str] | None,
        typer.Option("--reader", help="Principal that may read it, e.g. group:sales-east.", show_default=False),
    ] = None,
    attributes: Annotated[str | None, typer.Option("--attributes", help="One JSON object.", show_default=False)] = None,
    item_id: Annotated[
        str | None, typer.Option("--id", help="Change this item instead of making one.", show_default=False)
    ] = None,
    if_match: Annotated[
        str | None, typer.Option("--if-match", help="Only if it still has this etag.", show_default=False)
    ] = None,
    request_id: Annotated[
        str | None, typer.Option("--request-id", help="Makes repeating the command safe.", show_default=False)
    ] = None,
) -> None:
    """Keep an item, or with --id a new revision of one."""
    given: dict[str, Any] = {
        "user": about,
        "time": time,
        "confidence": confidence,
        "importance": importance,
        "tags": tag,
        "readers": reader,
        "attributes": object_of(attributes, "--attributes"),
    }
    async with caller.client() as client:
        result = await client.memory.write(
            full_path(caller, path),
            content=sys.stdin.read() if content == "-" else content,
            meta={key: value for key, value in given.items() if value is not None},
            id=item_id,
            if_match=if_match,
            request_id=request_id,
        )
    if caller.output.as_json:
        caller.output.value(result)
        return
    words = "" if result.embed_state == "done" else " (found by words only until its vector is there)"
    gated = " (below the confidence gate: a candidate, not recalled)" if result.gated else ""
    known = {"corroborated": " (known: one more source)", "known": " (known already)"}.get(result.outcome, "")
    caller.output.line(f"{result.id}  revision {result.revision}  {result.state}{known}{gated}{words}")
    if result.superseded_ids:
        caller.output.line(f"replaces {', '.join(result.superseded_ids)}", style="dim")


async def read(
    caller: Caller,
    path: Path,
    query: Annotated[str, typer.Argument(help="What to recall; nothing: the newest.")] = "",
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=200, help="Hits at most.")] = 10,
    about: About = None,
    tag: Tags = None,
    since: Since = None,
    until: Until = None,
    min_confidence: Annotated[float | None, typer.Option("--min-confidence", show_default=False)] = None,
    min_score: Annotated[float | None, typer.Option("--min-score", show_default=False)] = None,
    where: Annotated[
        str | None,
        typer.Option("--filter", help="More conditions as one JSON object, see the SDK's filters.", show_default=False),
    ] = None,
    also: Annotated[list[str] | None, typer.Option("--also", help="A further place; may be repeated.")] = None,
    valid_at: Annotated[str | None, typer.Option("--valid-at", help="What held then.", show_default=False)] = None,
    as_of: Annotated[str | None, typer.Option("--as-of", help="What was known then.", show_default=False)] = None,
    cold: Annotated[bool, typer.Option("--cold", help="Cold items, too.")] = False,
) -> None:
    """Recall items by meaning and words, or show the newest."""
    filters = {**_filters(about, tag, since, until), **(object_of(where, "--filter") or {})}
    if min_confidence is not None:
        filters["min_confidence"] = min_confidence
    async with caller.client() as client:
        result = await client.memory.read(
            [full_path(caller, place) for place in (path, *(also or ()))],
            query=query,
            top_k=top_k,
            filters=filters,
            min_score=min_score,
            valid_at=valid_at,
            as_of=as_of,
            include_cold=cold,
        )
    if caller.output.as_json:
        caller.output.value(result)
        return
    for hit in result:
        _head(caller, hit.item, f"{hit.score:.3f}" if query else "", moment(hit.item.valid_from))
    if not result:
        caller.output.line("nothing found", style="dim")
    notes = [result.exactness] if result.exactness != "exact" else []
    if notes := [*notes, *result.degradations]:
        caller.output.note(f"note: {', '.join(notes)}")


async def get(caller: Caller, item_id: Annotated[str, typer.Argument(metavar="ID", show_default=False)]) -> None:
    """Show one item."""
    async with caller.client() as client:
        found = await client.memory.get(item_id)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.fields(_fields(found))
    caller.output.line(f"\n{found.content}")


async def list_items(
    caller: Caller,
    path: Path,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Items at most.")] = 50,
    state: Annotated[
        str | None,
        typer.Option("--state", help="candidate, superseded or forgotten instead of active.", show_default=False),
    ] = None,
    about: About = None,
    tag: Tags = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """List the items at a path and below, newest first."""
    async with caller.client() as client:
        pager = client.memory.list(
            full_path(caller, path),
            state=state,
            filters=_filters(about, tag, since, until),
            page_size=min(limit, 500),
        )
        found = await pager.take(limit)
    if caller.output.as_json:
        caller.output.value(found)
        return
    for item in found:
        _head(caller, item, moment(item.create_time), item.path)
    if not found:
        caller.output.line("nothing here", style="dim")


def _head(caller: Caller, item: Item, *more: str) -> None:
    """Print an item in two lines: names, then its content."""
    about = f"about {item.user}" if item.user else ""
    caller.output.line("  ".join(part for part in (item.id, *more, about) if part), style="dim")
    caller.output.line(f"  {short(item.content, 400)}")


def _filters(about: list[str] | None, tag: list[str] | None, since: str | None, until: str | None) -> dict[str, Any]:
    filters: dict[str, Any] = {}
    if about:
        filters["user"] = about
    if tag:
        filters["tags"] = tag
    if since or until:
        filters["time"] = (since, until)
    return filters


def _fields(found: Item) -> list[tuple[str, object]]:
    return [
        ("id", found.id),
        ("path", found.path),
        ("owner", found.owner),
        ("about", found.user),
        ("readers", found.readers),
        ("tags", found.tags),
        ("state", found.state),
        ("trust", found.trust),
        ("origin", found.origin),
        ("confidence", found.confidence),
        ("importance", found.importance),
        ("sensitivity", found.sensitivity or None),
        ("holds from", found.valid_from),
        ("holds until", found.valid_to),
        ("made", found.create_time),
        ("changed", found.update_time),
        ("expires", found.expire_time),
        ("revision", found.revision),
        ("etag", found.etag),
        ("event key", found.event_key),
        ("attributes", found.attributes),
        ("source", " ".join(f"{name}={value}" for name, value in _source(found) if value)),
        ("superseded by", found.superseded_by),
        ("made from", found.derived_from),
        ("pinned", "yes" if found.pinned else ""),
        ("other sources", found.corroboration_count or None),
        ("flags", found.flags),
        ("tier", found.tier if found.tier != "hot" else ""),
    ]


def _source(found: Item) -> list[tuple[str, object]]:
    source = found.source
    return [
        ("session", source.session_id),
        ("task", source.task_id),
        ("call", source.call_id),
        ("document", source.document),
        ("page", source.page),
        ("agents", ">".join(source.agent_chain)),
    ]
