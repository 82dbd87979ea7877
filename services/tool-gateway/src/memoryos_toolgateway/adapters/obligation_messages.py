"""Obligations of a decision as they come over the wire: known in every part, or not at all.

A kind, a field or a value that this release does not know makes the whole list
None, and the call is denied: half an obligation is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from google.protobuf.unknown_fields import UnknownFieldSet
from memoryos.policy.v1 import policy_pb2
from memoryos_core.canonical import parse_json
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.domain.obligations import DETECTORS, FACTS, NONE, Notice, Obligations, Patch, RateLimit

OBLIGATIONS_MAX: Final = 16
PATCHES_MAX: Final = 32
POINTERS_MAX: Final = 64
POINTER_CHARS_MAX: Final = 512
VALUE_BYTES_MAX: Final = 65_536
KEY_CHARS_MAX: Final = 256
TEXT_CHARS_MAX: Final = 500
WINDOW_S_MAX: Final = 366 * 24 * 3600
AMOUNT_MAX: Final = 1e15
"""Beyond it a double no longer counts single units."""
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)+")
_CHANNEL: Final = re.compile(r"[a-z][a-z0-9_.\-]{0,127}", re.ASCII)


class _Unknown(Exception):
    """Something in it is not known here."""


def obligations_of(messages: Iterable[policy_pb2.Obligation]) -> Obligations | None:
    """Give the obligations of a decision, or None where one of them is not known in every part."""
    found = NONE
    listed = list(messages)
    if len(listed) > OBLIGATIONS_MAX:
        return None
    for message in listed:
        kind = message.WhichOneof("kind")
        if kind is None or kind not in _KINDS:
            return None
        inner = getattr(message, kind)
        try:
            _check_known(message)
            _check_known(inner)
            found = _KINDS[kind](found, inner)
        except (_Unknown, InvalidField):
            return None
    return found


def _check_known(message: Any) -> None:
    if len(UnknownFieldSet(message)):
        raise _Unknown


def _approval(found: Obligations, message: policy_pb2.ApprovalObligation) -> Obligations:
    return replace(found, approval=True)  # group, quorum and expiry are policy's own: OpenReview reads them there


def _rewrite_args(found: Obligations, message: policy_pb2.RewriteArgsObligation) -> Obligations:
    if not 1 <= len(message.patches) <= PATCHES_MAX:
        raise _Unknown
    patches = []
    for patch in message.patches:
        _check_known(patch)
        value = parse_json(patch.value_json, max_bytes=VALUE_BYTES_MAX)
        patches.append(Patch(_pointer(patch.pointer), value))
    return replace(found, rewrites=(*found.rewrites, *patches))


def _redact(found: Obligations, message: policy_pb2.RedactObligation) -> Obligations:
    pointers, detectors = list(message.pointers), frozenset(message.detectors)
    if len(pointers) > POINTERS_MAX or not detectors <= DETECTORS:
        raise _Unknown
    together = tuple(dict.fromkeys([*found.pointers, *map(_pointer, pointers)]))
    return replace(found, pointers=together, detectors=found.detectors | detectors)


def _rate_limit(found: Obligations, message: policy_pb2.RateLimitObligation) -> Obligations:
    window = message.window
    fits = 1 <= window.seconds <= WINDOW_S_MAX and window.nanos == 0 and 1 <= len(message.key) <= KEY_CHARS_MAX
    if not fits or not all(math.isfinite(n) and 0 <= n <= AMOUNT_MAX for n in (message.limit, message.cost)):
        raise _Unknown
    rate = RateLimit(message.key, message.limit, window.seconds, message.cost)
    return replace(found, rates=(*found.rates, rate))


def _read_only(found: Obligations, message: policy_pb2.ReadOnlyObligation) -> Obligations:
    return replace(found, read_only=True)


def _sandbox(found: Obligations, message: policy_pb2.SandboxObligation) -> Obligations:
    return replace(found, sandbox=True)


def _output_limit(found: Obligations, message: policy_pb2.OutputLimitObligation) -> Obligations:
    if message.bytes < 1:
        raise _Unknown
    least = min(message.bytes, found.output_limit_bytes or message.bytes)
    return replace(found, output_limit_bytes=least)


def _taint(found: Obligations, message: policy_pb2.TaintObligation) -> Obligations:
    facts = frozenset(message.facts)
    if not facts or not facts <= FACTS:
        raise _Unknown
    return replace(found, taints=found.taints | facts)


def _notify(found: Obligations, message: policy_pb2.NotifyObligation) -> Obligations:
    if not _CHANNEL.fullmatch(message.channel) or len(message.text) > TEXT_CHARS_MAX:
        raise _Unknown
    notice = Notice(message.channel, message.text)
    return replace(found, notices=tuple(dict.fromkeys([*found.notices, notice])))


def _pointer(text: str) -> str:
    if len(text) > POINTER_CHARS_MAX or not _POINTER.fullmatch(text):
        raise _Unknown
    return text


_KINDS: Final[Mapping[str, Callable[[Obligations, Any], Obligations]]] = {
    "approval": _approval,
    "rewrite_args": _rewrite_args,
    "redact": _redact,
    "rate_limit": _rate_limit,
    "read_only": _read_only,
    "sandbox": _sandbox,
    "output_limit": _output_limit,
    "taint": _taint,
    "notify": _notify,
}
