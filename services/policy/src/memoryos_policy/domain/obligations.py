"""What whoever follows a decision must do or see to: one type a kind, exactly its keys.

`document_of` gives the form in which rules state an obligation, and in which it
is kept; adapters/obligation_parser.py reads it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from memoryos_core.canonical import JsonValue

DETECTORS: Final = frozenset({"secret", "email", "phone", "cn_id_card", "card_number", "iban"})
FACTS: Final = frozenset({"untrusted_content", "personal_data"})


@dataclass(frozen=True, slots=True)
class Approval:
    """`quorum` people of `group` must approve within `expires_in_s` seconds."""

    group: str
    quorum: int
    expires_in_s: int


@dataclass(frozen=True, slots=True)
class Patch:
    """One value to put into the arguments. The value is content; `withheld`: it is not shown."""

    pointer: str
    value: JsonValue
    withheld: bool = False


@dataclass(frozen=True, slots=True)
class RewriteArgs:
    """The arguments are changed, validated and decided again."""

    patches: tuple[Patch, ...]


@dataclass(frozen=True, slots=True)
class Redact:
    """These parts of the result are masked, and whatever these detectors find in it."""

    pointers: tuple[str, ...]
    detectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `limit` under `key` in `window_s` seconds, of which this call takes `cost`."""

    key: str
    limit: float
    window_s: int
    cost: float


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """Only a skill that reads may go ahead."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The call runs in a sandbox of at least this level."""

    level: int


@dataclass(frozen=True, slots=True)
class OutputLimit:
    """At most so many bytes of the result are given back."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class Taint:
    """The session counts from now on as having seen this."""

    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Notify:
    """`text` goes to a channel of the gateway when the call has ended."""

    channel: str
    text: str


Obligation = Approval | RewriteArgs | Redact | RateLimit | ReadOnly | Sandbox | OutputLimit | Taint | Notify


def approval_in(obligations: tuple[Obligation, ...]) -> Approval | None:
    """Give the one approval that these obligations ask for, if they do."""
    return next((one for one in obligations if isinstance(one, Approval)), None)


def document_of(obligation: Obligation) -> dict[str, Any]:
    """Give an obligation as the rules state it."""
    match obligation:
        case Approval(group, quorum, expires_in_s):
            return {"kind": "approval", "group": group, "quorum": quorum, "expires_in_s": expires_in_s}
        case RewriteArgs(patches):
            return {"kind": "rewrite_args", "patches": [{"pointer": p.pointer, "value": p.value} for p in patches]}
        case Redact(pointers, detectors):
            return {"kind": "redact", "pointers": list(pointers), "detectors": list(detectors)}
        case RateLimit(key, limit, window_s, cost):
            return {"kind": "rate_limit", "key": key, "limit": limit, "window_s": window_s, "cost": cost}
        case ReadOnly():
            return {"kind": "read_only"}
        case Sandbox(level):
            return {"kind": "sandbox", "level": level}
        case OutputLimit(size_bytes):
            return {"kind": "output_limit", "bytes": size_bytes}
        case Taint(facts):
            return {"kind": "taint", "facts": list(facts)}
        case Notify(channel, text):
            return {"kind": "notify", "channel": channel, "text": text}


def without_values(document: dict[str, Any]) -> dict[str, Any]:
    """Give the form that may stand outside sealed rows: a rewrite without the values that it puts in."""
    if document["kind"] != "rewrite_args":
        return document
    return {**document, "patches": [{"pointer": patch["pointer"]} for patch in document["patches"]]}


def withheld(obligation: Obligation) -> Obligation:
    """Give an obligation without the values that a rewrite puts in."""
    if not isinstance(obligation, RewriteArgs):
        return obligation
    return RewriteArgs(tuple(Patch(patch.pointer, None, withheld=True) for patch in obligation.patches))


def values_of(obligations: Iterable[Obligation]) -> list[JsonValue]:
    """Give the values that rewrites put in, in their order."""
    return [patch.value for one in obligations if isinstance(one, RewriteArgs) for patch in one.patches]
