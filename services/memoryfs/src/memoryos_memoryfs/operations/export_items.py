"""Export: a subtree as files of one instant, streamed as they are made."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Final

from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.item_lines import FORMAT, line_of
from memoryos_memoryfs.domain.readable_layout import ReadableFolder
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.transfer import PastItem, Point

_METHOD: Final = "memoryos.memoryfs.v1.MemoryFS/Export"
ITEMS_FILE: Final = "items.jsonl"
PAGE_SIZE: Final = 500
DATA_BYTES: Final = 256 * 1024
"""About how much one message of the stream carries."""


class Layout(IntEnum):
    """How files are laid out; numbers of the proto."""

    ITEMS = 1
    READABLE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportQuery:
    """A parsed Export."""

    path: MemoryPath
    layout: Layout
    with_vectors: bool
    with_history: bool


@dataclass(frozen=True, slots=True)
class FileBegins:
    """The data that follows belongs to this file."""

    path: str


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of the file that began last."""

    data: bytes


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One file that was sent."""

    path: str
    size_bytes: int
    sha256: str
    line_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What was sent; the last part."""

    format: int
    path: MemoryPath
    export_time: datetime
    item_count: int
    files: Sequence[ExportedFile]
    embedding_model: str


@dataclass(slots=True)
class _OpenFile:
    """Counts and digests a file while it is sent."""

    path: str
    size_bytes: int = 0
    line_count: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def add(self, data: bytes) -> Data:
        self.size_bytes += len(data)
        self.line_count += data.count(b"\n")
        self.digest.update(data)
        return Data(data)

    def done(self) -> ExportedFile:
        return ExportedFile(self.path, self.size_bytes, self.digest.hexdigest(), self.line_count)


Part = FileBegins | Data | Manifest


async def export_items(parts: Parts, scope: Scope, query: ExportQuery) -> AsyncGenerator[Part, None]:
    """Give the files of a subtree, then the manifest.

    Everything is as it was at one instant, whatever is written meanwhile; what
    is forgotten or closed to the caller meanwhile is left out. Active and
    superseded items that the caller may read, and its own candidates. Every
    page is audited before it is given. Without its manifest an export is not
    whole.
    """
    access.check_read(scope, query.path)
    started = parts.clock.now()
    point = await parts.past.point(scope, query.path, by_user=query.layout is Layout.READABLE)
    files: list[ExportedFile] = []
    count = 0
    sending = _items_file if query.layout is Layout.ITEMS else _readable_files
    async for part in sending(parts, scope, query, point):
        if isinstance(part, ExportedFile):
            files.append(part)
        elif isinstance(part, int):
            count += part
        else:
            yield part
    yield Manifest(
        format=FORMAT,
        path=query.path,
        export_time=started,
        item_count=count,
        files=files,
        embedding_model=parts.embedder.model_id if query.with_vectors else "",
    )


_Sending = AsyncGenerator[FileBegins | Data | ExportedFile | int, None]


async def _items_file(parts: Parts, scope: Scope, query: ExportQuery, point: Point) -> _Sending:
    file = _OpenFile(ITEMS_FILE)
    yield FileBegins(file.path)
    buffer = bytearray()
    async for page in _pages(parts, scope, query, point):
        yield len({one.item.id for one in page})
        for one in page:
            buffer += line_of(one.item, one.vector)
            if len(buffer) >= DATA_BYTES:
                yield file.add(bytes(buffer))
                buffer.clear()
    if buffer:
        yield file.add(bytes(buffer))
    yield file.done()


async def _readable_files(parts: Parts, scope: Scope, query: ExportQuery, point: Point) -> _Sending:
    folder: ReadableFolder | None = None
    async for page in _pages(parts, scope, query, point):
        yield len({one.item.id for one in page})
        for one in page:
            if folder is None or not folder.holds(one.item):
                if folder is not None:
                    for sent in _folder_parts(folder):
                        yield sent
                folder = ReadableFolder(one.item)
            folder.add(one.item)
    if folder is not None:
        for sent in _folder_parts(folder):
            yield sent


def _folder_parts(folder: ReadableFolder) -> Sequence[FileBegins | Data | ExportedFile]:
    sent: list[FileBegins | Data | ExportedFile] = []
    for path, data in folder.files():
        file = _OpenFile(path)
        sent.append(FileBegins(path))
        sent.extend(file.add(data[at : at + DATA_BYTES]) for at in range(0, len(data), DATA_BYTES))
        sent.append(file.done())
    return sent


async def _pages(parts: Parts, scope: Scope, query: ExportQuery, point: Point) -> AsyncGenerator[list[PastItem], None]:
    for start in range(0, len(point.ids), PAGE_SIZE):
        ids = point.ids[start : start + PAGE_SIZE]
        found = await parts.past.items(scope, point, ids, vectors=query.with_vectors, history=query.with_history)
        page = [one for one in found if query.path.contains(one.item.path) and access.visible(scope, one.item)]
        shown = [one.item for one in page]
        await parts.trail.gave(_METHOD, scope, query.path, shown, ids=sorted({item.id for item in shown}))
        yield page
