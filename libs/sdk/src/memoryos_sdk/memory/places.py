"""Places: what lies below them, what holds there, and moving between them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask
from memoryos.memoryfs.v1 import item_pb2, namespace_pb2

from memoryos_sdk.errors import InvalidArgument
from memoryos_sdk.invocation import new_request_id
from memoryos_sdk.memory.calls import Calls
from memoryos_sdk.names import number
from memoryos_sdk.paging import Pager
from memoryos_sdk.results import PathSettings, Stat, path_settings, stat

_DURATIONS = ("ttl", "retention", "hot_window")
_NUMBERS = ("gate", "items_max", "bytes_max", "keep_max")
SETTINGS = ("default_readers", "writers", "confidence_caps", *_DURATIONS, *_NUMBERS)
"""Parts of the settings of a path."""


class PlaceCalls(Calls):
    """The namespace."""

    async def stat(self, path: str, *, with_children: bool = False) -> Stat:
        """Count what the caller may read below a path, and below each place in it."""
        request = namespace_pb2.StatRequest(path=path, with_children=with_children)
        return stat(await self._invocation.unary(self._stub.Stat, request))

    async def move(
        self,
        from_path: str,
        to_path: str,
        *,
        ids: Sequence[str] = (),
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Move items, or all that the caller may change below `from_path`; ids, history and lineage stay."""
        request = namespace_pb2.MoveRequest(
            from_path=from_path, to_path=to_path, ids=ids, request_id=request_id or new_request_id()
        )
        answer = await self._invocation.unary(self._stub.Move, request, timeout_s=timeout_s)
        return int(answer.moved_count)

    async def settings(self, path: str) -> tuple[PathSettings, PathSettings]:
        """Give what a path itself states, and what holds there."""
        answer = await self._invocation.unary(
            self._stub.GetPathSettings, namespace_pb2.GetPathSettingsRequest(path=path)
        )
        return path_settings(answer.own), path_settings(answer.effective)

    async def set_settings(
        self, path: str, *, if_match: str = "", request_id: str | None = None, **parts: Any
    ) -> PathSettings:
        """Set parts of what holds below a path (tenant-admins); a part given as None is inherited again.

        Parts: default_readers and writers (lists of principals), gate (0..1),
        confidence_caps ((origin, role, highest), …; "" is any), ttl, retention and
        hot_window (timedeltas, zero: none), items_max, bytes_max, keep_max.
        """
        settings = namespace_pb2.PathSettings(path=path)
        for name, value in parts.items():
            if name not in SETTINGS:
                raise InvalidArgument.of(name, f"unknown; known are {', '.join(SETTINGS)}")
            if value is not None:
                _set_part(settings, name, value)
        request = namespace_pb2.SetPathSettingsRequest(
            settings=settings,
            update_mask=FieldMask(paths=sorted(parts)),
            if_match=if_match,
            request_id=request_id or new_request_id(),
        )
        return path_settings((await self._invocation.unary(self._stub.SetPathSettings, request)).settings)

    def list_settings(self, path: str) -> Pager[PathSettings]:
        """Give the settings that paths at and below `path` state themselves."""
        request = namespace_pb2.ListPathSettingsRequest(path=path)
        return self._pager(
            self._stub.ListPathSettings, request, lambda answer: [path_settings(one) for one in answer.settings]
        )


def _set_part(settings: namespace_pb2.PathSettings, name: str, value: Any) -> None:
    if name in _DURATIONS:
        if not isinstance(value, timedelta):
            raise InvalidArgument.of(name, "must be a timedelta")
        getattr(settings, name).FromTimedelta(value)
        getattr(settings, name).SetInParent()
    elif name in _NUMBERS:
        setattr(settings, name, value)
    elif name == "confidence_caps":
        settings.confidence_caps.SetInParent()
        for origin, role, highest in value:
            cap = settings.confidence_caps.caps.add(role=role, max=highest)
            if origin:
                cap.origin = number(item_pb2.Origin, origin, name)
    else:
        if isinstance(value, str):
            raise InvalidArgument.of(name, "must be a list of principals")
        getattr(settings, name).SetInParent()
        getattr(settings, name).principals.extend(value)
