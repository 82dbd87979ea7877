"""From the obligations of a result to their types, or to a Fault: each kind has exactly its keys.

The same forms and limits stand in schemas/result.schema.json; a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from memoryos_policy.adapters.faults import Fault
from memoryos_policy.domain.obligations import (
    DETECTORS,
    FACTS,
    Approval,
    Notify,
    Obligation,
    OutputLimit,
    Patch,
    RateLimit,
    ReadOnly,
    Redact,
    RewriteArgs,
    Sandbox,
    Taint,
)

OBLIGATIONS_MAX: Final = 16
NAME_CHARS_MAX: Final = 128
KEY_CHARS_MAX: Final = 256
TEXT_CHARS_MAX: Final = 500
POINTER_CHARS_MAX: Final = 512
PATCHES_MAX: Final = 32
POINTERS_MAX: Final = 64
QUORUM_MAX: Final = 10
EXPIRES_IN_S_MAX: Final = 7 * 24 * 3600
WINDOW_S_MAX: Final = 31 * 24 * 3600
AMOUNT_MAX: Final = 1e15
"""Beyond it a double no longer counts single units."""
SANDBOX_LEVEL_MAX: Final = 3
OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024

_NAME: Final = re.compile(r"[\w.@:/+\-]+")
_CHANNEL: Final = re.compile(r"[a-z][a-z0-9_.\-]*", re.ASCII)
_TEXT: Final = re.compile(r"[^\0]*")
_POINTER: Final = re.compile(r"(?:/(?:[^~/\0]|~[01])*)+")


def parse_obligations(value: Any) -> tuple[Obligation, ...]:
    """Give the obligations of a list; one that is not known in every part is a Fault."""
    if not isinstance(value, list) or len(value) > OBLIGATIONS_MAX:
        raise Fault("obligations")
    return tuple(parse_obligation(item) for item in value)


def parse_obligation(value: Any) -> Obligation:
    """Give one obligation, or raise Fault."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or value["kind"] not in _KINDS:
        raise Fault("obligations")
    keys, build = _KINDS[value["kind"]]
    if value.keys() != keys:
        raise Fault("obligations")
    return build(value)


def _approval(value: Mapping[str, Any]) -> Approval:
    group = _matched(value["group"], _NAME, NAME_CHARS_MAX)
    return Approval(group, whole(value["quorum"], QUORUM_MAX), whole(value["expires_in_s"], EXPIRES_IN_S_MAX))


def _rewrite_args(value: Mapping[str, Any]) -> RewriteArgs:
    patches = []
    for item in _listed(value["patches"], PATCHES_MAX, least=1):
        if not isinstance(item, dict) or item.keys() != {"pointer", "value"}:
            raise Fault("obligations")
        patches.append(Patch(_matched(item["pointer"], _POINTER, POINTER_CHARS_MAX), item["value"]))
    return RewriteArgs(tuple(patches))


def _redact(value: Mapping[str, Any]) -> Redact:
    pointers = [_matched(one, _POINTER, POINTER_CHARS_MAX) for one in _listed(value["pointers"], POINTERS_MAX)]
    return Redact(tuple(pointers), _chosen(value["detectors"], DETECTORS))


def _rate_limit(value: Mapping[str, Any]) -> RateLimit:
    key = _matched(value["key"], _TEXT, KEY_CHARS_MAX)
    if not key:
        raise Fault("obligations")
    return RateLimit(key, _amount(value["limit"]), whole(value["window_s"], WINDOW_S_MAX), _amount(value["cost"]))


def _read_only(value: Mapping[str, Any]) -> ReadOnly:
    return ReadOnly()


def _sandbox(value: Mapping[str, Any]) -> Sandbox:
    return Sandbox(whole(value["level"], SANDBOX_LEVEL_MAX))


def _output_limit(value: Mapping[str, Any]) -> OutputLimit:
    return OutputLimit(whole(value["bytes"], OUTPUT_BYTES_MAX))


def _taint(value: Mapping[str, Any]) -> Taint:
    return Taint(_chosen(value["facts"], FACTS, least=1))


def _notify(value: Mapping[str, Any]) -> Notify:
    channel = _matched(value["channel"], _CHANNEL, NAME_CHARS_MAX)
    return Notify(channel, _matched(value["text"], _TEXT, TEXT_CHARS_MAX))


_KINDS: Final[dict[str, tuple[frozenset[str], Callable[[Mapping[str, Any]], Obligation]]]] = {
    "approval": (frozenset({"kind", "group", "quorum", "expires_in_s"}), _approval),
    "rewrite_args": (frozenset({"kind", "patches"}), _rewrite_args),
    "redact": (frozenset({"kind", "pointers", "detectors"}), _redact),
    "rate_limit": (frozenset({"kind", "key", "limit", "window_s", "cost"}), _rate_limit),
    "read_only": (frozenset({"kind"}), _read_only),
    "sandbox": (frozenset({"kind", "level"}), _sandbox),
    "output_limit": (frozenset({"kind", "bytes"}), _output_limit),
    "taint": (frozenset({"kind", "facts"}), _taint),
    "notify": (frozenset({"kind", "channel", "text"}), _notify),
}


def whole(value: Any, maximum: int) -> int:
    """Give a whole number from 1 to `maximum`; 1.0 is one, as JSON has it, and true is none."""
    if type(value) not in (int, float) or not 1 <= value <= maximum or value != int(value):
        raise Fault("obligations")
    return int(value)


def _amount(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= AMOUNT_MAX:
        raise Fault("obligations")
    return float(value)


def _matched(value: Any, form: re.Pattern[str], chars_max: int) -> str:
    if not isinstance(value, str) or len(value) > chars_max or not form.fullmatch(value):
        raise Fault("obligations")
    return value


def _listed(value: Any, count_max: int, *, least: int = 0) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= count_max:
        raise Fault("obligations")
    return value


def _chosen(value: Any, known: frozenset[str], *, least: int = 0) -> tuple[str, ...]:
    """Give a list of known words, each at most once."""
    words = _listed(value, len(known), least=least)
    if not all(isinstance(word, str) and word in known for word in words) or len(set(words)) != len(words):
        raise Fault("obligations")
    return tuple(words)
