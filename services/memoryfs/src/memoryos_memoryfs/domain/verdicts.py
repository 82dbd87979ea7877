"""Why an item is in an answer or not. The numbers are those of memoryos.memoryfs.v1.Verdict."""

from __future__ import annotations

from enum import IntEnum


class Verdict(IntEnum):
    """In the answer, or a reason that keeps it out; of several the one with the lowest number is told."""

    IN_ANSWER = 1
    ABSENT = 2
    OTHER_PATH = 3
    ACL = 4
    CLEARANCE = 5
    EXPIRED = 6
    GATED = 7
    SUPERSEDED = 8
    FORGOTTEN = 9
    NOT_VALID_THEN = 10
    COLD = 11
    FILTERED = 12
    NOT_EMBEDDED = 13
    BELOW_MIN_SCORE = 14
    BELOW_TOP_K = 15
