"""The path grammar, decided once for every service and backend.

A path is /tenants/{tenant}/memory/{kind}/{segment…}. Segments are 1–255 code
points in NFC, case-sensitive, of any script, without control, format, private
or unassigned characters, not "." or "..". At most 20 segments below the kind
and 1,024 bytes in all. Containment holds on segment borders only.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from memoryos_core.errors import Code, FieldViolation, MemoryOSError

SEGMENTS_MAX: Final = 20
SEGMENT_CODE_POINTS_MAX: Final = 255
PATH_BYTES_MAX: Final = 1024
# Control, format (zero-width, bidirectional), surrogate, private use, unassigned,
# line and paragraph separators: none can be seen, so none can be told apart.
_FORBIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class PathInvalid(MemoryOSError):
    """The path breaks the grammar /tenants/{tenant}/memory/{kind}/{segment…}."""

    code = Code.INVALID_ARGUMENT
    reason = "PATH_INVALID"


class Kind(StrEnum):
    """The three kinds of memory."""

    WORKING = "working"
    EPISODIC = "episodic"
    SEMANTIC = "semantic"


def check_segment(segment: str) -> str | None:
    """Say what is wrong with a segment, or None."""
    if not segment:
        return "a segment is empty"
    if segment in (".", ".."):
        return "a segment is . or .."
    if len(segment) > SEGMENT_CODE_POINTS_MAX:
        return f"a segment has more than {SEGMENT_CODE_POINTS_MAX} code points"
    if any(unicodedata.category(c) in _FORBIDDEN for c in segment):
        return "a segment has a control, format or unassigned character"
    if segment.isspace():
        return "a segment is only white space"
    if not unicodedata.is_normalized("NFC", segment):
        return "a segment is not in Unicode normal form C"
    return None


@dataclass(frozen=True, slots=True)
class MemoryPath:
    """A place in memory, known to be well-formed."""

    tenant: str
    kind: Kind
    segments: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, *, field: str = "path") -> MemoryPath:
        """Give the path that `text` spells, or raise PathInvalid naming `field`."""
        try:
            return _parsed(text)
        except ValueError as error:
            raise PathInvalid(f"{field}: {error}", violations=(FieldViolation(field, str(error)),)) from None

    def __str__(self) -> str:
        return "/".join(("", "tenants", self.tenant, "memory", str(self.kind), *self.segments))

    def contains(self, other: MemoryPath) -> bool:
        """Tell whether `other` is this place or below it."""
        return (
            self.tenant == other.tenant
            and self.kind == other.kind
            and other.segments[: len(self.segments)] == self.segments
        )


@lru_cache(maxsize=8_192)
def _parsed(text: str) -> MemoryPath:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("the path has a lone surrogate") from None
    if size_bytes > PATH_BYTES_MAX:
        raise ValueError(f"the path has more than {PATH_BYTES_MAX} bytes")
    parts = text.split("/")
    if len(parts) < 5 or parts[0] or parts[1] != "tenants" or parts[3] != "memory":
        raise ValueError("a path starts with /tenants/{tenant}/memory/{kind}")
    for segment in (parts[2], *parts[5:]):
        wrong = check_segment(segment)
        if wrong:
            raise ValueError(wrong)
    if parts[4] not in Kind.__members__.values():
        raise ValueError("the kind is working, episodic or semantic")
    segments = tuple(parts[5:])
    if len(segments) > SEGMENTS_MAX:
        raise ValueError(f"the path has more than {SEGMENTS_MAX} segments")
    return MemoryPath(tenant=parts[2], kind=Kind(parts[4]), segments=segments)
