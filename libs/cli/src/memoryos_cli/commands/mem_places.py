"""`mos mem`: places, what lies below them and what holds there."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final

import typer
from memoryos_sdk.results import PathSettings, Usage

from memoryos_cli.caller import Caller, command
from memoryos_cli.commands.mem_shared import Path, counted, full_path
from memoryos_cli.exits import CliError, Exit

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PARTS: Final = (
    "default_readers", "writers", "gate", "confidence_caps", "ttl", "retention", "hot_window",
    "items_max", "bytes_max", "keep_max",
)  # fmt: skip
Principals = Annotated[list[str] | None, typer.Option(show_default=False)]
Lasting = Annotated[str | None, typer.Option(help="e.g. 90d, 12h; 0: no end.", show_default=False)]
Count = Annotated[int | None, typer.Option(min=0, help="0: no limit.", show_default=False)]


def add_to(group: typer.Typer) -> None:
    """Add the commands to the group."""
    for function in (stat, move):
        command(group, function.__name__)(function)
    command(group, "du")(du)
    settings = typer.Typer(help="What holds below a path: show, list, set.", no_args_is_help=True)
    group.add_typer(settings, name="settings")
    command(settings, "show")(show_settings)
    command(settings, "list")(list_settings)
    command(settings, "set")(set_settings)


async def stat(caller: Caller, path: Path) -> None:
    """Count what you may read below a place."""
    async with caller.client() as client:
        found = await client.memory.stat(full_path(caller, path))
    if caller.output.as_json:
        caller.output.value(found.usage)
        return
    caller.output.fields(_usage_fields(found.usage))


async def du(caller: Caller, path: Path) -> None:
    """Show how much lies in each place directly below a path, largest first."""
    async with caller.client() as client:
        found = await client.memory.stat(full_path(caller, path), with_children=True)
    if caller.output.as_json:
        caller.output.value(found)
        return
    rows = [(found.usage.content_bytes, found.usage.active_count, full_path(caller, path))]
    rows += [(usage.content_bytes, usage.active_count, place) for place, usage in found.children.items()]
    caller.output.table(("bytes", "items", "place"), rows)
    if found.children_truncated:
        caller.output.note("note: there are more places")


async def move(
    caller: Caller,
    from_path: Path,
    to_path: Path,
    item_id: Annotated[list[str] | None, typer.Option("--id", help="Only this item; may be repeated.")] = None,
) -> None:
    """Move items or a whole subtree; names, history and lineage stay."""
    async with caller.client() as client:
        count = await client.memory.move(
            full_path(caller, from_path), full_path(caller, to_path), ids=item_id or (), timeout_s=120
        )
    counted(caller, "moved", count)


async def show_settings(caller: Caller, path: Path) -> None:
    """Show what holds at a path, and what it states itself."""
    async with caller.client() as client:
        own, effective = await client.memory.settings(full_path(caller, path))
    if caller.output.as_json:
        caller.output.value({"own": own, "effective": effective})
        return
    caller.output.table(
        ("setting", "stated here", "holds"), ((part, _said(own, part), _said(effective, part)) for part in _PARTS)
    )


async def list_settings(caller: Caller, path: Path) -> None:
    """List the paths at and below one that state something themselves."""
    async with caller.client() as client:
        found = await client.memory.list_settings(full_path(caller, path)).all()
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ("path", "states"),
        (
            (one.path, ", ".join(f"{part}={_said(one, part)}" for part in _PARTS if getattr(one, part) is not None))
            for one in found
        ),
        empty="no path states anything",
    )


async def set_settings(
    caller: Caller,
    path: Path,
    default_reader: Principals = None,
    writer: Principals = None,
    gate: Annotated[float | None, typer.Option(min=0, max=1, show_default=False)] = None,
    ttl: Lasting = None,
    retention: Lasting = None,
    hot_window: Lasting = None,
    items_max: Count = None,
    bytes_max: Count = None,
    keep_max: Count = None,
    cap: Annotated[
        list[str] | None,
        typer.Option(help="ORIGIN:ROLE:MAX, e.g. inferred::0.7; may be repeated.", show_default=False),
    ] = None,
    inherit: Annotated[
        list[str] | None, typer.Option(help="A part to inherit again, e.g. gate; may be repeated.", show_default=False)
    ] = None,
) -> None:
    """Set what holds below a path (tenant-admins)."""
    given: dict[str, Any] = {
        "default_readers": default_reader,
        "writers": writer,
        "gate": gate,
        "ttl": _lasting(ttl, "--ttl"),
        "retention": _lasting(retention, "--retention"),
        "hot_window": _lasting(hot_window, "--hot-window"),
        "items_max": items_max,
        "bytes_max": bytes_max,
        "keep_max": keep_max,
        "confidence_caps": [_cap(text) for text in cap] if cap else None,
    }
    parts = {name: value for name, value in given.items() if value is not None}
    parts.update(dict.fromkeys((name.replace("-", "_") for name in inherit or ()), None))
    if not parts:
        raise CliError("nothing to set", exit_code=Exit.USAGE)
    async with caller.client("tenant-admin") as client:
        found = await client.memory.set_settings(full_path(caller, path), **parts)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.fields([(part, _said(found, part)) for part in _PARTS])


def _usage_fields(usage: Usage) -> list[tuple[str, object]]:
    return [
        ("active", usage.active_count),
        ("of them cold", usage.cold_count),
        ("of them without a vector", usage.pending_count),
        ("your candidates", usage.candidate_count),
        ("superseded", usage.superseded_count),
        ("forgotten by you", usage.forgotten_count),
        ("bytes", usage.content_bytes),
        ("newest", usage.newest_time),
    ]


def _said(settings: PathSettings, part: str) -> object:
    value = getattr(settings, part)
    if isinstance(value, timedelta):
        return str(value) if value else "no end"
    return "nobody" if value == () else value


def _lasting(text: str | None, option: str) -> timedelta | None:
    if text is None:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        return timedelta(seconds=float(number) * _UNITS[unit])
    except (ValueError, OverflowError):
        raise CliError(f"{option}: a number and s, m, h or d, e.g. 90d", exit_code=Exit.USAGE) from None


def _cap(text: str) -> tuple[str, str, float]:
    parts = text.split(":")
    try:
        origin, role, highest = parts
        return origin, role, float(highest)
    except ValueError:
        raise CliError("--cap: ORIGIN:ROLE:MAX, e.g. inferred::0.7", exit_code=Exit.USAGE) from None
