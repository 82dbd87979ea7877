"""Sentences for the model and their codes. None holds anything that an upstream, a policy rule or a caller said."""

from __future__ import annotations

import math
from typing import Final

UNKNOWN_CODE: Final = "outcome_unknown"
UNKNOWN: Final = (
    "It is not known whether this call took effect. Do not repeat it; check the current state or ask a person."
)
NOT_SENT_CODE: Final = "not_sent"
NOT_SENT: Final = "The tool could not be reached. Nothing was done."
REFUSED_CODE: Final = "upstream_status"
THROTTLED_CODE: Final = "upstream_throttled"
NOT_FOUND: Final = "The tool knows no such thing. Nothing was done."
BUSY: Final = "The tool takes no more calls at the moment. Nothing was done."
REFUSED: Final = "The tool refused these arguments. Nothing was done."
FORBIDDEN: Final = "The tool does not let this user do that. Nothing was done."
READ_FAILED_CODE: Final = "upstream_unavailable"
READ_FAILED: Final = "The tool did not give an answer."
NETWORK_REFUSED_CODE: Final = "network_refused"
NO_IDENTITY_CODE: Final = "no_upstream_identity"
RESULT_INVALID_CODE: Final = "result_invalid"
RESULT_INVALID: Final = "It was done, but the tool's answer is not of the agreed form. Do not repeat it; ask a person."
READ_INVALID: Final = "The tool's answer is not of the agreed form."
CHANGED_CODE: Final = "definition_changed"
CHANGED: Final = "The tool was changed or withdrawn since this call was asked for. It was not made."
INTERNAL_CODE: Final = "internal"
DENIED_CODE: Final = "denied"
OBLIGATION_UNKNOWN_CODE: Final = "obligation_unknown"
NO_SANDBOX_CODE: Final = "sandbox_unavailable"
READ_ONLY_CODE: Final = "read_only"
CHANNEL_UNKNOWN_CODE: Final = "channel_unknown"
REWRITE_INVALID_CODE: Final = "rewrite_invalid"
REWRITE_AGAIN_CODE: Final = "rewrite_again"
RATE_LIMITED_CODE: Final = "rate_limited"
UPSTREAM_OPEN_CODE: Final = "upstream_open"
UPSTREAM_BUSY_CODE: Final = "upstream_busy"
CANCELLED_CODE: Final = "cancelled"
CANCELLED: Final = "This call was withdrawn before it was made. Nothing was done."
DID_NOT_HAPPEN_CODE: Final = "did_not_happen"
DID_NOT_HAPPEN: Final = "It was found out that this call did not take effect."
HAPPENED: Final = "It was found out that this call took effect; its result is not known."


def refused_code(status: int) -> str:
    """Give the code for an upstream's answer of this HTTP status, 400 to 499; that it is too much may pass."""
    return THROTTLED_CODE if status == 429 else REFUSED_CODE


def refused(status: int) -> str:
    """Give the sentence for an upstream's answer of this HTTP status, 400 to 499."""
    if status in (404, 410):
        return NOT_FOUND
    if status in (401, 403):
        return FORBIDDEN
    return BUSY if status == 429 else REFUSED


def rate_limited(retry_after_s: float) -> str:
    """Give the sentence for a call that its rate or budget does not let through now."""
    return f"This was done as often as is allowed for now. Nothing was done. {_later(retry_after_s)}"


def upstream_closed(retry_after_s: float) -> str:
    """Give the sentence for a call whose upstream is not called at the moment."""
    return f"The tool is out of order at the moment. Nothing was done. {_later(retry_after_s)}"


def _later(retry_after_s: float) -> str:
    return f"Do not try again before {max(math.ceil(retry_after_s), 1)} s have passed."
