"""What holds below a path, part by part: each is inherited from the nearest path above that states it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final

from memoryos_core import principals
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.gate import GATE
from memoryos_memoryfs.domain.items import Origin
from memoryos_memoryfs.errors import NotWriter, ReadersTooWide

SETTINGS_MAX: Final = 5_000
"""Paths with settings in one tenant: they are listed in the order of their names, which stand sealed."""
FOREVER: Final = timedelta()
"""Of a ttl, a retention or a hot window: no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceCap:
    """The highest confidence of a kind of writer; absent parts mean any."""

    origin: Origin | None = None
    role: str = ""
    max: float

    def applies(self, origin: Origin, roles: frozenset[str]) -> bool:
        """Tell whether it is about this writer."""
        return (self.origin is None or self.origin is origin) and (not self.role or self.role in roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSettings:
    """What one path states, or (see `effective`) what holds there. None: not stated."""

    default_readers: tuple[str, ...] | None = None
    writers: tuple[str, ...] | None = None
    gate: float | None = None
    confidence_caps: tuple[ConfidenceCap, ...] | None = None
    ttl: timedelta | None = None
    retention: timedelta | None = None
    hot_window: timedelta | None = None
    items_max: int | None = None
    bytes_max: int | None = None
    keep_max: int | None = None

    @property
    def empty(self) -> bool:
        """Tell whether nothing is stated."""
        return self == NOTHING_STATED


_TICK: Final = timedelta(microseconds=1)
NOTHING_STATED: Final = PathSettings()
PARTS: Final = tuple(field.name for field in fields(PathSettings))
DEFAULTS: Final = PathSettings(
    gate=GATE,
    confidence_caps=(),
    ttl=FOREVER,
    retention=FOREVER,
    hot_window=timedelta(days=90),
    items_max=0,
    bytes_max=0,
    keep_max=0,
)
"""What stands above all paths where the configuration says nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What holds at a path, every part of it; None of readers and writers: nobody stated any."""

    default_readers: tuple[str, ...] | None
    writers: tuple[str, ...] | None
    gate: float
    confidence_caps: tuple[ConfidenceCap, ...]
    ttl: timedelta
    retention: timedelta
    hot_window: timedelta
    items_max: int
    bytes_max: int
    keep_max: int
    version: int
    """How often settings of the tenant had been set when this was true."""

    def capped(self, confidence: float, origin: Origin, roles: frozenset[str]) -> float:
        """Give the confidence below every cap of the path that applies."""
        if not self.confidence_caps:
            return confidence
        caps = [cap.max for cap in self.confidence_caps if cap.applies(origin, roles)]
        return min([confidence, *caps])

    def expire_time(self, now: datetime) -> datetime | None:
        """Give when a new item that states no end stops being served."""
        return now + self.ttl if self.ttl else None

    def may_write(self, scope: Scope) -> bool:
        """Tell whether the caller may add items here."""
        return self.writers is None or self.is_writer(scope)

    def is_writer(self, scope: Scope) -> bool:
        """Tell whether the caller may change items of others here: only where writers are stated."""
        if self.writers is None:
            return False
        return access.WIDE_ROLE in scope.roles or not set(self.writers).isdisjoint(scope.principals)

    def check_writer(self, scope: Scope) -> None:
        """Raise NotWriter unless the caller may add items here."""
        if not self.may_write(scope):
            raise NotWriter

    def check_readers(self, scope: Scope, readers: Iterable[str]) -> None:
        """Raise ReadersTooWide unless the caller may let each of `readers` in.

        Where the path states its readers nobody opens an item to others than them; elsewhere the
        general rule holds (`access.check_readers`).
        """
        if self.default_readers is None:
            access.check_readers(scope, readers)
            return
        if principals.EVERYONE in self.default_readers:
            return
        for reader in readers:
            if reader not in self.default_readers:
                raise ReadersTooWide(metadata={"principal": reader})

    def narrowed(self, readers: tuple[str, ...]) -> tuple[str, ...]:
        """Give those of `readers` that may stay when an item comes here: never more than there were."""
        allowed = self.default_readers
        if allowed is None or principals.EVERYONE in allowed:
            return readers
        if principals.EVERYONE in readers:
            return allowed
        return tuple(reader for reader in readers if reader in allowed)


def effective(stated: Sequence[PathSettings], defaults: PathSettings = DEFAULTS, *, version: int = 0) -> Holding:
    """Give what holds where `stated` are the settings of the path and of all above it, nearest first."""
    values: dict[str, Any] = {}
    for part in PARTS:
        chain = (getattr(settings, part) for settings in (*stated, defaults, DEFAULTS))
        values[part] = next((value for value in chain if value is not None), None)
    return Holding(**values, version=version)


def merged(before: PathSettings, given: PathSettings, parts: Iterable[str]) -> PathSettings:
    """Give `before` with the named parts of `given`; one that is named and absent is inherited again."""
    return replace(before, **{part: getattr(given, part) for part in parts})


def encode_settings(settings: PathSettings) -> dict[str, Any]:
    """Give the stated parts as JSON values."""
    values = {part: value for part in PARTS if (value := getattr(settings, part)) is not None}
    if settings.confidence_caps is not None:
        values["confidence_caps"] = [[cap.origin, cap.role, cap.max] for cap in settings.confidence_caps]
    return {part: value / _TICK if isinstance(value, timedelta) else value for part, value in values.items()}


def decode_settings(values: Mapping[str, Any]) -> PathSettings:
    """Give the settings of JSON values."""
    parts = dict(values)
    for part in ("default_readers", "writers"):
        if part in parts:
            parts[part] = tuple(parts[part])
    if "confidence_caps" in parts:
        parts["confidence_caps"] = tuple(
            ConfidenceCap(origin=Origin(origin) if origin else None, role=role, max=most)
            for origin, role, most in parts["confidence_caps"]
        )
    for part in ("ttl", "retention", "hot_window"):
        if part in parts:
            parts[part] = parts[part] * _TICK
    return PathSettings(**parts)
