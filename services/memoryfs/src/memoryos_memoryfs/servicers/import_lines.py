"""The lines of an import, held to the rules of Write."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2, transfer_pb2
from memoryos_grpc.validation.messages import compile_checker
from memoryos_grpc.validation.violations import Violation

from memoryos_memoryfs.domain.item_lines import FORMAT, LineInvalid, parse_line
from memoryos_memoryfs.domain.items import NO_SOURCE, Item
from memoryos_memoryfs.errors import ImportCorrupt
from memoryos_memoryfs.messages import stamp_of
from memoryos_memoryfs.operations.import_items import ImportLine

LINES_MAX: Final = 20_000
_TURN_LINES: Final = 100
"""Lines between two turns of others, some 5 ms."""
_check_entry = compile_checker(memoryfs_pb2.WriteEntry.DESCRIPTOR)


async def import_lines(request: transfer_pb2.ImportRequest) -> list[ImportLine]:
    """Give the items of a part; raises ImportCorrupt, which names the line and never quotes it.

    Other calls have their turn in between: a large part is most of a second's work.
    """
    if request.manifest.format != FORMAT:
        raise ImportCorrupt(
            "The format of this export is not known.", metadata={"format": str(request.manifest.format)}
        )
    if hashlib.sha256(request.lines).hexdigest() != request.sha256:
        raise ImportCorrupt("The checksum of the part is wrong.")
    lines = request.lines.split(b"\n")
    if lines.pop():
        raise ImportCorrupt("The last line is not whole.")
    if len(lines) > LINES_MAX:
        raise ImportCorrupt("The part has too many lines.", metadata={"lines_max": str(LINES_MAX)})
    parsed: list[ImportLine] = []
    for first in range(0, len(lines), _TURN_LINES):
        parsed += [_line(n, line) for n, line in enumerate(lines[first : first + _TURN_LINES], start=first + 1)]
        await asyncio.sleep(0)
    return parsed


def _line(number: int, line: bytes) -> ImportLine:
    try:
        item, vector = parse_line(line)
    except LineInvalid as error:
        raise ImportCorrupt(f"Line {number} {error}.", metadata={"line": str(number)}) from None
    if not item.payload.content:
        raise ImportCorrupt(f"Line {number} has no content.", metadata={"line": str(number)})
    found: list[Violation] = []
    _check_entry(_entry(item), found)
    if found:
        raise ImportCorrupt(f"Line {number}: {found[0].field} {found[0].description}.", metadata={"line": str(number)})
    return ImportLine(item, vector)


def _entry(item: Item) -> memoryfs_pb2.WriteEntry:
    """Give the item as Write would be asked for it, so that nothing is kept that Write would refuse."""
    key, source = item.payload.event_key, item.payload.source
    return memoryfs_pb2.WriteEntry(
        id=item.id,
        content=item.payload.content,
        attributes_json=item.payload.attributes,
        tags=item.tags,
        user=item.user,
        readers=[*item.readers, item.owner] if len(item.readers) < 64 else item.readers,
        sensitivity=min(item.sensitivity, 2**31 - 1),
        trust=item_pb2.Trust.ValueType(item.trust),
        origin=item_pb2.Origin.ValueType(item.origin),
        source=item_pb2.Source(
            session_id=source.session_id,
            message_ids=source.message_ids,
            task_id=source.task_id,
            call_id=source.call_id,
            document=source.document,
            page=min(source.page, 2**31 - 1),
            agent_chain=source.agent_chain,
        )
        if source != NO_SOURCE
        else None,
        confidence=item.confidence,
        importance=item.importance,
        valid_from=stamp_of(item.valid_from),
        event_key=item_pb2.EventKey(subject=key.subject, scope=key.scope, condition=key.condition) if key else None,
    )
