"""What becomes of items: forget, bring back, vouch for, dispute, merge, revert, and where they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2

from memoryos_sdk import items
from memoryos_sdk.entries import json_object
from memoryos_sdk.filters import Filters, read_filter
from memoryos_sdk.invocation import new_request_id
from memoryos_sdk.items import Item
from memoryos_sdk.memory.calls import Calls, one_or_many
from memoryos_sdk.paging import Pager
from memoryos_sdk.results import Change, Job, Lineage, Preview, change, job, lineage


class LifecycleCalls(Calls):
    """The life of items."""

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
        request = lifecycle_pb2.ForgetRequest(
            path=path, ids=one_or_many(id, ids), request_id=request_id or new_request_id()
        )
        answer = await self._invocation.unary(self._stub.Forget, request, timeout_s=timeout_s)
        return int(answer.forgotten_count)

    async def preview_forget(self, path: str, filters: Filters) -> Preview:
        """Say how many items of the caller a filter meets below `path`; forgets nothing."""
        request = lifecycle_pb2.ForgetRequest(
            path=path, filter=read_filter(filters, self._invocation.zone), preview=True, request_id=new_request_id()
        )
        request.filter.SetInParent()
        answer = await self._invocation.unary(self._stub.Forget, request)
        return Preview(matched_count=answer.matched_count, token=answer.preview_token)

    async def forget_previewed(
        self,
        path: str,
        filters: Filters,
        preview: Preview,
        *,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Forget exactly what was previewed and give the count; Aborted when one of the items has changed or gone."""
        request = lifecycle_pb2.ForgetRequest(
            path=path,
            filter=read_filter(filters, self._invocation.zone),
            preview_token=preview.token,
            request_id=request_id or new_request_id(),
        )
        request.filter.SetInParent()
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
        request = lifecycle_pb2.RestoreRequest(
            path=path, ids=one_or_many(id, ids), request_id=request_id or new_request_id()
        )
        answer = await self._invocation.unary(self._stub.Restore, request, timeout_s=timeout_s)
        return int(answer.restored_count)

    async def promote(
        self,
        path: str,
        id: str,
        *,
        reason: str = "",
        evidence: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Item:
        """Let a candidate through the gate: by an independent source (`evidence`), or a person vouches for it."""
        request = lifecycle_pb2.PromoteRequest(
            path=path, id=id, reason=reason, request_id=request_id or new_request_id()
        )
        if evidence is not None:
            request.evidence.CopyFrom(item_pb2.Source(**evidence))
        return items.item((await self._invocation.unary(self._stub.Promote, request)).item)

    async def dispute(self, path: str, id: str, *, reason: str = "", request_id: str | None = None) -> Item:
        """Send an active item back behind the gate: a candidate again, for 24 h."""
        request = lifecycle_pb2.DisputeRequest(
            path=path, id=id, reason=reason, request_id=request_id or new_request_id()
        )
        return items.item((await self._invocation.unary(self._stub.Dispute, request)).item)

    async def merge(
        self,
        path: str,
        ids: Sequence[str],
        *,
        content: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        event_key: Mapping[str, str] | None = None,
        request_id: str | None = None,
    ) -> Item | Job:
        """Make one item of several, which become superseded.

        Without `content` a model writes it, as a job. FailedPrecondition where there is no model.
        """
        request = lifecycle_pb2.MergeRequest(
            path=path, ids=ids, content=content or "", tags=tags, request_id=request_id or new_request_id()
        )
        if attributes is not None:
            request.attributes_json = json_object(attributes, "attributes")
        if event_key is not None:
            request.event_key.CopyFrom(item_pb2.EventKey(**event_key))
        answer = await self._invocation.unary(self._stub.Merge, request)
        return items.item(answer.item) if answer.HasField("item") else job(answer.job)

    def history(self, id: str, *, page_size: int = 50) -> Pager[Change]:
        """Give what became of an item, newest first: `async for change in fs.history(id)`."""
        request = lifecycle_pb2.HistoryRequest(id=id, page_size=page_size)
        return self._pager(self._stub.History, request, lambda answer: [change(one) for one in answer.changes])

    async def revert(
        self, path: str, id: str, revision: int, *, if_match: str = "", request_id: str | None = None
    ) -> Item:
        """Give an item the values of an earlier revision, as a new revision."""
        request = lifecycle_pb2.RevertRequest(
            path=path, id=id, revision=revision, if_match=if_match, request_id=request_id or new_request_id()
        )
        return items.item((await self._invocation.unary(self._stub.Revert, request)).item)

    async def lineage(self, id: str, *, depth: int = 0) -> Lineage:
        """Give where an item came from and what came of it, as far as the caller may read."""
        request = lifecycle_pb2.LineageRequest(id=id, depth=depth)
        return lineage(await self._invocation.unary(self._stub.Lineage, request))
