"""Sentences for the model and their codes. None holds anything that an upstream, a policy rule or a caller said."""

from __future__ import annotations

from typing import Final

UNKNOWN_CODE: Final = "outcome_unknown"
UNKNOWN: Final = (
    "It is not known whether this call took effect. Do not repeat it; check the current state or ask a person."
)
NOT_SENT_CODE: Final = "not_sent"
NOT_SENT: Final = "The tool could not be reached. Nothing was done."
REFUSED_CODE: Final = "upstream_status"
NOT_FOUND: Final = "The tool knows no such thing. Nothing was done."
BUSY: Final = "The tool takes no more calls at the moment. Nothing was done."
REFUSED: Final = "The tool refused these arguments. Nothing was done."
FORBIDDEN: Final = "The tool does not let this user do that. Nothing was done."
READ_FAILED_CODE: Final = "upstream_unavailable"
READ_FAILED: Final = "The tool did not give an answer."
CHANGED_CODE: Final = "definition_changed"
CHANGED: Final = "The tool was changed or withdrawn since this call was asked for. It was not made."
INTERNAL_CODE: Final = "internal"


def refused(status: int) -> str:
    """Give the sentence for an upstream's answer of this HTTP status, 400 to 499."""
    if status in (404, 410):
        return NOT_FOUND
    if status in (401, 403):
        return FORBIDDEN
    return BUSY if status == 429 else REFUSED
