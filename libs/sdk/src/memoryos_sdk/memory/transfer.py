"""Memory on its way: the change feed, exports into folders, imports from them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, BinaryIO, Final

from google.protobuf import json_format
from memoryos.memoryfs.v1 import transfer_pb2

from memoryos_sdk.errors import InvalidArgument, Unavailable
from memoryos_sdk.following import resumed
from memoryos_sdk.invocation import new_request_id
from memoryos_sdk.memory.calls import Calls
from memoryos_sdk.names import number
from memoryos_sdk.results import FeedEvent, Imported, feed_event

MANIFEST: Final = "manifest.json"
ITEMS: Final = "items.jsonl"
PART_BYTES: Final = 2 * 1024 * 1024
_STREAM_S: Final = 3_600.0

Progress = Callable[[int, int], None]
"""Called with what is done and what there is in all (bytes, or items)."""


class TransferCalls(Calls):
    """In and out."""

    async def watch(
        self, path: str, *, position: str = "", from_start: bool = False
    ) -> AsyncGenerator[FeedEvent, None]:
        """Give the changes of a subtree as they come, without end; a lost connection is taken up where it broke.

        Keep the `position` of the last event handled, and give it back to go on after it.
        """

        def open_at(at: str) -> AsyncGenerator[Any, None]:
            request = transfer_pb2.WatchRequest(path=path, position=at, from_start=from_start and not at)
            return self._invocation.stream(self._stub.Watch, request)

        async with aclosing(resumed(self._invocation, open_at, position)) as messages:
            async for message in messages:
                if not message.heartbeat:
                    yield feed_event(message)

    async def export(
        self,
        path: str,
        folder: Path | str,
        *,
        layout: str = "items",
        with_vectors: bool = False,
        with_history: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Write a subtree into a folder (made, and empty) and give the manifest, which is its last file.

        `layout`: items (lossless, for `import_folder`) or readable (per user, for
        people). A file without its checksum in manifest.json is not whole.
        """
        target = _empty_folder(folder)
        request = transfer_pb2.ExportRequest(
            path=path,
            layout=number(transfer_pb2.ExportLayout, layout, "layout"),
            with_vectors=with_vectors,
            with_history=with_history,
        )
        manifest: transfer_pb2.ExportManifest | None = None
        open_file: BinaryIO | None = None
        written = 0
        try:
            async with aclosing(self._invocation.stream(self._stub.Export, request, timeout_s=_STREAM_S)) as messages:
                async for message in messages:
                    if message.HasField("file"):
                        if open_file is not None:
                            open_file.close()
                        open_file = _inside(target, message.file)
                    elif message.HasField("data") and open_file is not None:
                        open_file.write(message.data)
                        written += len(message.data)
                        if progress:
                            progress(written, 0)
                    else:
                        manifest = message.manifest
        finally:
            if open_file is not None:
                open_file.close()
        if manifest is None:
            raise Unavailable("the export ended before its manifest")
        _check(target, manifest)
        said = json_format.MessageToJson(manifest, ensure_ascii=False)
        (target / MANIFEST).write_text(said + "\n", encoding="utf-8")
        found: dict[str, Any] = json_format.MessageToDict(manifest, preserving_proto_field_name=True)
        return found

    async def import_folder(
        self,
        path: str,
        folder: Path | str,
        *,
        conflict: str = "skip_equal",
        request_id: str | None = None,
        progress: Progress | None = None,
    ) -> Imported:
        """Take in what `export` wrote (layout items), with the same ids, and give what became of it.

        Checksums are compared before anything is sent. With the same `request_id`
        an import that broke off goes on: parts that were kept are passed over.
        """
        source = Path(folder)
        manifest = transfer_pb2.ExportManifest()
        try:
            json_format.Parse((source / MANIFEST).read_text(encoding="utf-8"), manifest)
        except (OSError, json_format.ParseError):
            raise InvalidArgument.of("folder", "holds no manifest.json of an export") from None
        _check(source, manifest)
        total = sum(file.size_bytes for file in manifest.files if file.path == ITEMS)
        name, sent, result = request_id or new_request_id(), 0, Imported()
        for part, lines in enumerate(_parts(source / ITEMS), start=1):
            request = transfer_pb2.ImportRequest(
                path=path,
                manifest=manifest,
                conflict=number(transfer_pb2.ImportConflict, conflict, "conflict"),
                request_id=name,
                part=part,
                lines=lines,
                sha256=hashlib.sha256(lines).hexdigest(),
            )
            result = result.plus(await self._invocation.unary(self._stub.Import, request, timeout_s=120))
            sent += len(lines)
            if progress:
                progress(sent, total)
        return result


def _empty_folder(folder: Path | str) -> Path:
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise InvalidArgument.of("folder", "is not empty")
    return target


def _inside(folder: Path, relative: str) -> BinaryIO:
    """Open a file of an export; a path that leaves the folder is refused, whoever sent it."""
    file = folder / relative
    if os.path.isabs(relative) or ".." in Path(relative).parts or not relative:
        raise InvalidArgument.of("file", "the export names a file outside its folder")
    file.parent.mkdir(parents=True, exist_ok=True)
    return file.open("xb")


def _check(folder: Path, manifest: transfer_pb2.ExportManifest) -> None:
    for file in manifest.files:
        digest = hashlib.sha256()
        with (folder / file.path).open("rb") as data:
            while block := data.read(1024 * 1024):
                digest.update(block)
        if digest.hexdigest() != file.sha256:
            raise InvalidArgument.of("folder", f"{file.path} is not what the manifest says")


def _parts(file: Path) -> Iterator[bytes]:
    """Give whole lines, about PART_BYTES at a time; revisions of one item stay together."""
    buffer: list[bytes] = []
    size, last = 0, b""
    with file.open("rb") as data:
        for line in data:  # only a line feed ends a line of a binary file
            item = _item_of(line)
            if size >= PART_BYTES and item != last:
                yield b"".join(buffer)
                buffer, size = [], 0
            buffer.append(line)
            size += len(line)
            last = item
    if buffer:
        yield b"".join(buffer)


def _item_of(line: bytes) -> bytes:
    """Give the id of the item of a line, without parsing it: keys are sorted and ids have a fixed form."""
    start = line.rfind(b'"id":"mem_')
    return line[start + 6 : start + 36] if start >= 0 else line
