"""Items: write, recall, name, list, explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2

from memoryos_sdk import items
from memoryos_sdk.entries import Embedding, write_entry
from memoryos_sdk.errors import InvalidArgument
from memoryos_sdk.filters import Filters, read_filter
from memoryos_sdk.invocation import new_request_id
from memoryos_sdk.items import Item, ReadResult, WriteResult
from memoryos_sdk.memory.calls import Calls
from memoryos_sdk.names import number
from memoryos_sdk.paging import Pager
from memoryos_sdk.results import Explanation, explanation
from memoryos_sdk.times import When, timestamp

_ENTRY_KEYS = frozenset({"content", "meta", "id", "if_match", "embedding"})
_BOOSTS = ("recency", "importance", "use", "recency_half_life")


class ItemCalls(Calls):
    """Items by name, by place and by meaning."""

    async def write(
        self,
        path: str,
        *,
        content: str | None = None,
        meta: Mapping[str, Any] | None = None,
        id: str | None = None,
        if_match: str | None = None,
        embedding: Embedding | None = None,
        on_conflict: str | None = None,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> WriteResult:
        """Keep one item at `path`, or with `id` make a new revision of that item.

        `meta`: user (whom it concerns), time (first instant at which it holds),
        valid_to, confidence, importance, tags, attributes, readers, sensitivity,
        trust, origin, source, event_key, pinned, expire_time or ttl. `if_match`:
        Aborted unless the item still has that etag. `on_conflict`: merge (what is
        there already is corroborated, the default) or add.
        """
        entry = {"content": content, "meta": meta, "id": id, "if_match": if_match, "embedding": embedding}
        many = await self.write_many(path, [entry], on_conflict=on_conflict, request_id=request_id, timeout_s=timeout_s)
        return many[0]

    async def write_many(
        self,
        path: str,
        entries: Sequence[Mapping[str, Any]],
        *,
        on_conflict: str | None = None,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> list[WriteResult]:
        """Keep up to 500 items in one transaction: all or none. Entries have the keywords of `write`.

        `on_conflict`: merge (the default up to 8 entries) or add (above).
        """
        request = memoryfs_pb2.WriteRequest(path=path, request_id=request_id or new_request_id())
        if on_conflict is not None:
            request.on_conflict = number(memoryfs_pb2.OnConflict, on_conflict, "on_conflict")
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
        path: str | Sequence[str],
        *,
        query: str = "",
        top_k: int = 10,
        filters: Filters | None = None,
        min_score: float | None = None,
        valid_at: When | None = None,
        as_of: When | None = None,
        include_cold: bool = False,
        boosts: Mapping[str, Any] | None = None,
        diversity: float = 0.0,
        rerank: bool | None = None,
        embedding: Embedding | None = None,
        timeout_s: float | None = None,
    ) -> ReadResult:
        """Recall items at one or several paths and below, best first; without a query the newest.

        `filters`: see `memoryos_sdk.filters`. `valid_at`: what held in the world
        then; `as_of`: what was known then. `boosts`: recency, importance and use
        (0..1 each), recency_half_life (a timedelta). `diversity`: 0..1. `rerank`:
        ask the configured reranker or not; None: as the deployment says.
        """
        request = self._read_request(path, query, top_k, filters)
        zone = self._invocation.zone
        request.include_cold, request.diversity = include_cold, diversity
        if min_score is not None:
            request.min_score = min_score
        if valid_at is not None:
            request.valid_at.CopyFrom(timestamp(valid_at, zone, "valid_at"))
        if as_of is not None:
            request.as_of.CopyFrom(timestamp(as_of, zone, "as_of"))
        if rerank is not None:
            request.rerank = rerank
        if boosts:
            _set_boosts(request.boosts, boosts)
        if embedding is not None:
            request.embedding.CopyFrom(memoryfs_pb2.Embedding(model=embedding[0], values=embedding[1]))
        return items.read_result(await self._invocation.unary(self._stub.Read, request, timeout_s=timeout_s))

    async def get(self, id: str, *, with_access: bool = False, timeout_s: float | None = None) -> Item:
        """Give one item by name, or NotFound when it is not there or not visible; `with_access`: how it was used."""
        request = memoryfs_pb2.GetRequest(id=id, with_access=with_access)
        return items.item((await self._invocation.unary(self._stub.Get, request, timeout_s=timeout_s)).item)

    def list(
        self,
        path: str,
        *,
        filters: Filters | None = None,
        state: str | None = None,
        page_size: int = 50,
    ) -> Pager[Item]:
        """Give all items at `path` and below, newest first: `async for item in fs.list(path)`."""
        request = memoryfs_pb2.ListRequest(
            path=path, page_size=page_size, filter=read_filter(filters, self._invocation.zone)
        )
        if state is not None:
            request.state = number(item_pb2.State, state, "state")
        return self._pager(self._stub.List, request, lambda answer: [items.item(found) for found in answer.items])

    async def explain(
        self,
        path: str | Sequence[str],
        expected_ids: Sequence[str],
        *,
        user: str,
        groups: Sequence[str] = (),
        roles: Sequence[str] = (),
        clearance: int = 0,
        query: str = "",
        top_k: int = 10,
        filters: Filters | None = None,
    ) -> tuple[Explanation, ...]:
        """Say, for auditors, why each expected item is in what `user` would read, or why not."""
        request = memoryfs_pb2.ExplainRequest(
            read=self._read_request(path, query, top_k, filters),
            principal=memoryfs_pb2.ExplainedPrincipal(user=user, groups=groups, roles=roles, clearance=clearance),
            expected_ids=expected_ids,
        )
        answer = await self._invocation.unary(self._stub.Explain, request)
        return tuple(explanation(one) for one in answer.explanations)

    def _read_request(
        self, path: str | Sequence[str], query: str, top_k: int, filters: Filters | None
    ) -> memoryfs_pb2.ReadRequest:
        paths = [path] if isinstance(path, str) else list(path)
        if not paths:
            raise InvalidArgument.of("path", "is required")
        return memoryfs_pb2.ReadRequest(
            path=paths[0], paths=paths[1:], query=query, top_k=top_k, filter=read_filter(filters, self._invocation.zone)
        )


def _set_boosts(target: memoryfs_pb2.Boosts, boosts: Mapping[str, Any]) -> None:
    for name, value in boosts.items():
        if name not in _BOOSTS:
            raise InvalidArgument.of(f"boosts.{name}", f"unknown; known are {', '.join(_BOOSTS)}")
        if name == "recency_half_life":
            if not isinstance(value, timedelta):
                raise InvalidArgument.of(f"boosts.{name}", "must be a timedelta")
            target.recency_half_life.FromTimedelta(value)
        else:
            setattr(target, name, value)
