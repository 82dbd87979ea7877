"""MemoryFS: write, recall, name, list, forget and bring back memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2

from memoryos_sdk import items
from memoryos_sdk.entries import Embedding, read_filter, write_entry
from memoryos_sdk.errors import InvalidArgument
from memoryos_sdk.invocation import Invocation, new_request_id
from memoryos_sdk.items import Item, ReadResult, WriteResult
from memoryos_sdk.names import number
from memoryos_sdk.paging import Pager

_ENTRY_KEYS = frozenset({"content", "meta", "id", "if_match", "embedding"})


class MemoryFS:
    """Path-addressed memory of the caller's tenant."""

    def __init__(self, stub: Any, invocation: Invocation) -> None:
        self._stub = stub
        self._invocation = invocation

    async def write(
        self,
        path: str,
        *,
        content: str | None = None,
        meta: Mapping[str, Any] | None = None,
        id: str | None = None,
        if_match: str | None = None,
        embedding: Embedding | None = None,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> WriteResult:
        """Keep one item at `path`, or with `id` make a new revision of that item.

        `meta`: user (whom it concerns), time (first instant at which it holds),
        valid_to, confidence, importance, tags, attributes, readers, sensitivity,
        trust, origin, source, event_key, expire_time or ttl. `if_match`: Aborted
        unless the item still has that etag.
        """
        entry = {"content": content, "meta": meta, "id": id, "if_match": if_match, "embedding": embedding}
        return (await self.write_many(path, [entry], request_id=request_id, timeout_s=timeout_s))[0]

    async def write_many(
        self,
        path: str,
        entries: Sequence[Mapping[str, Any]],
        *,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> list[WriteResult]:
        """Keep up to 500 items in one transaction: all or none. Entries have the keywords of `write`."""
        request = memoryfs_pb2.WriteRequest(path=path, request_id=request_id or new_request_id())
        for index, entry in enumerate(entries):
            field = f"entries[{index}]."
            for key in entry.keys() - _ENTRY_KEYS:
                raise InvalidArgument.of(f"{field}{key}", f"unknown; known are {', '.join(sorted(_ENTRY_KEYS))}")
            request.entries.append(
                write_entry(
                    content=entry.get("content"),
                    meta=entry.get("meta"),
                    item_id=entry.get("id"),
                    if_match=entry.get("if_match"),
                    embedding=entry.get("embedding"),
                    zone=self._invocation.zone,
                    field=field if len(entries) > 1 else "",
                )
            )
        answer = await self._invocation.unary(self._stub.Write, request, timeout_s=timeout_s)
        return [items.write_result(result) for result in answer.results]

    async def read(
        self,
        path: str,
        *,
        query: str = "",
        top_k: int = 10,
        filters: Mapping[str, Any] | None = None,
        min_score: float | None = None,
        embedding: Embedding | None = None,
        timeout_s: float | None = None,
    ) -> ReadResult:
        """Recall items at `path` and below, best first; without a query the newest.

        `filters`: user, tags (all), tags_any, time and create_time (half-open
        pairs), min_confidence. All conditions must hold.
        """
        request = memoryfs_pb2.ReadRequest(
            path=path, query=query, top_k=top_k, filter=read_filter(filters, self._invocation.zone), min_score=min_score
        )
        if embedding is not None:
            request.embedding.CopyFrom(memoryfs_pb2.Embedding(model=embedding[0], values=embedding[1]))
        return items.read_result(await self._invocation.unary(self._stub.Read, request, timeout_s=timeout_s))

    async def get(self, id: str, *, timeout_s: float | None = None) -> Item:
        """Give one item by name, or NotFound when it is not there or not visible."""
        request = memoryfs_pb2.GetRequest(id=id)
        return items.item((await self._invocation.unary(self._stub.Get, request, timeout_s=timeout_s)).item)

    def list(
        self,
        path: str,
        *,
        filters: Mapping[str, Any] | None = None,
        state: str | None = None,
        page_size: int = 50,
    ) -> Pager[Item]:
        """Give all items at `path` and below, newest first: `async for item in fs.list(path)`."""
        request = memoryfs_pb2.ListRequest(
            path=path, page_size=page_size, filter=read_filter(filters, self._invocation.zone)
        )
        if state is not None:
            request.state = number(item_pb2.State, state, "state")

        async def fetch(token: str) -> tuple[list[Item], str]:
            request.page_token = token
            answer = await self._invocation.unary(self._stub.List, request)
            return [items.item(found) for found in answer.items], answer.next_page_token

        return Pager(fetch)

    async def forget(
        self,
        path: str,
        *,
        id: str | None = None,
        ids: Sequence[str] | None = None,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Take items out of every read path and give their count; any outside `path` is NotFound for all."""
        request = lifecycle_pb2.ForgetRequest(path=path, ids=_ids(id, ids), request_id=request_id or new_request_id())
        answer = await self._invocation.unary(self._stub.Forget, request, timeout_s=timeout_s)
        return int(answer.forgotten_count)

    async def restore(
        self,
        path: str,
        *,
        id: str | None = None,
        ids: Sequence[str] | None = None,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Bring forgotten items back as they were and give their count."""
        request = lifecycle_pb2.RestoreRequest(path=path, ids=_ids(id, ids), request_id=request_id or new_request_id())
        answer = await self._invocation.unary(self._stub.Restore, request, timeout_s=timeout_s)
        return int(answer.restored_count)


def _ids(one: str | None, many: Sequence[str] | None) -> list[str]:
    if isinstance(many, str):
        raise InvalidArgument.of("ids", "must be a list; for one item use id")
    if (one is None) == (many is None):
        raise InvalidArgument.of("ids", "give either id or ids")
    return [one] if one is not None else list(many or ())
