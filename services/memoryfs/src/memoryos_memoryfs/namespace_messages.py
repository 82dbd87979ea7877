"""Settings and usage as protos, and back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from memoryos.memoryfs.v1 import item_pb2, namespace_pb2
from memoryos_core.errors import InvalidField
from memoryos_core.paths import MemoryPath

from memoryos_memoryfs.domain.items import Origin
from memoryos_memoryfs.domain.settings import PARTS, ConfidenceCap, Holding, PathSettings
from memoryos_memoryfs.messages import stamp_of
from memoryos_memoryfs.ports.namespace import Stated, Usage

_DURATIONS: Final = ("ttl", "retention", "hot_window")
_NUMBERS: Final = ("gate", "items_max", "bytes_max", "keep_max")
_LONGEST: Final = timedelta(days=36_500)


def settings_of(message: namespace_pb2.PathSettings) -> PathSettings:
    """Give the parts that a message states."""
    values: dict[str, Any] = {}
    has = {descriptor.name for descriptor, _ in message.ListFields()}
    for part in ("default_readers", "writers"):
        if part in has:
            values[part] = tuple(dict.fromkeys(getattr(message, part).principals))
    if "confidence_caps" in has:
        values["confidence_caps"] = tuple(
            ConfidenceCap(origin=Origin(cap.origin) if cap.origin else None, role=cap.role, max=cap.max)
            for cap in message.confidence_caps.caps
        )
    for part in _DURATIONS:
        if part in has:
            values[part] = span_of(getattr(message, part), f"settings.{part}")
    for part in _NUMBERS:
        if part in has:
            values[part] = getattr(message, part)
    return PathSettings(**values)


def parts_of(request: namespace_pb2.SetPathSettingsRequest) -> frozenset[str]:
    """Give the names of the parts to set."""
    if not request.HasField("update_mask"):
        return frozenset(descriptor.name for descriptor, _ in request.settings.ListFields()) & frozenset(PARTS)
    if set(request.update_mask.paths) - set(PARTS):
        raise InvalidField.of("update_mask", "names a part that settings do not have")
    return frozenset(request.update_mask.paths)


def span_of(duration: Duration, field: str) -> timedelta:
    """Give a span of time that is not negative; raises InvalidField."""
    try:
        span = timedelta(seconds=duration.seconds, microseconds=duration.nanos // 1000)
    except OverflowError:
        raise InvalidField.of(field, "is too long") from None
    if not timedelta() <= span <= _LONGEST:
        raise InvalidField.of(field, "must be at least 0 and at most 36500 days")
    return span


def settings_message(path: MemoryPath, settings: PathSettings | Holding) -> namespace_pb2.PathSettings:
    """Give the message of settings; absent parts are not stated."""
    message = namespace_pb2.PathSettings(path=str(path))
    for part in ("default_readers", "writers"):
        names = getattr(settings, part)
        if names is not None:
            getattr(message, part).CopyFrom(namespace_pb2.PrincipalList(principals=names))
    if settings.confidence_caps is not None:
        message.confidence_caps.CopyFrom(
            namespace_pb2.ConfidenceCaps(
                caps=[
                    namespace_pb2.ConfidenceCap(
                        origin=item_pb2.Origin.ValueType(cap.origin or 0), role=cap.role, max=cap.max
                    )
                    for cap in settings.confidence_caps
                ]
            )
        )
    for part in _DURATIONS:
        span = getattr(settings, part)
        if span is not None:
            getattr(message, part).CopyFrom(
                Duration(seconds=span.days * 86_400 + span.seconds, nanos=span.microseconds * 1000)
            )
    for part in _NUMBERS:
        value = getattr(settings, part)
        if value is not None:
            setattr(message, part, value)
    return message


def stated_message(stated: Stated) -> namespace_pb2.PathSettings:
    """Give what a path itself states."""
    message = settings_message(stated.path, stated.settings)
    message.etag = stated.etag
    message.update_time.CopyFrom(stamp_of(stated.update_time))
    return message


def usage_message(usage: Usage) -> namespace_pb2.Usage:
    """Give the message of counts."""
    return namespace_pb2.Usage(
        active_count=usage.active_count,
        candidate_count=usage.candidate_count,
        superseded_count=usage.superseded_count,
        forgotten_count=usage.forgotten_count,
        cold_count=usage.cold_count,
        pending_count=usage.pending_count,
        content_bytes=usage.content_bytes,
        newest_time=stamp_of(usage.newest_time) if usage.newest_time else None,
    )
