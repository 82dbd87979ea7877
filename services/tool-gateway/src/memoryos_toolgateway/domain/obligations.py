"""What policy asks of the gateway beside yes or no, and in which order it is met.

Before anything is sent, in this order:

1. a kind, key or value that is not known denies (the adapter gives None for the whole list);
2. sandbox denies, for there is none;
3. read_only denies what does not read;
4. notify denies when its channel is not configured;
5. rewrite_args changes the arguments, which are validated and decided again: the obligations
   of that second decision hold, and a rewrite that would change them once more denies;
6. approval parks the call;
7. rate_limit takes its cost in the transaction that makes the call DISPATCHED.

After the upstream has answered, before the result is kept or shown: 8. redact by pointers,
9. redact by detectors, 10. output_limit; then, in the transaction that ends the call,
11. taint and 12. notify.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from memoryos_core.canonical import JsonValue

DETECTORS: Final = frozenset({"secret", "email", "phone", "cn_id_card", "card_number", "iban"})
FACTS: Final = frozenset({"untrusted_content", "personal_data"})


@dataclass(frozen=True, slots=True)
class Patch:
    """One value to put into the arguments."""

    pointer: str
    value: JsonValue


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `limit` under `key` within `window_s` seconds, of which this call takes `cost`."""

    key: str
    limit: float
    window_s: int
    cost: float


@dataclass(frozen=True, slots=True)
class Notice:
    """`text` goes to a configured channel when the call has ended."""

    channel: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Obligations:
    """All obligations of one decision, those of one kind together: the stricter of two holds."""

    approval: bool = False
    rewrites: tuple[Patch, ...] = ()
    pointers: tuple[str, ...] = ()
    """Places of the result that are masked; "*" is every element of a list."""
    detectors: frozenset[str] = frozenset()
    rates: tuple[RateLimit, ...] = ()
    read_only: bool = False
    sandbox: bool = False
    output_limit_bytes: int | None = None
    taints: frozenset[str] = frozenset()
    notices: tuple[Notice, ...] = ()


NONE: Final = Obligations()
