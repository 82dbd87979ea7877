"""Errors of policy; each reason is one of memoryos.policy.v1.ErrorReason."""

from __future__ import annotations

from memoryos_core.errors import Code, MemoryOSError


class DigestMismatch(MemoryOSError):
    """The action digest given is not the one of the action given."""

    code = Code.INVALID_ARGUMENT
    reason = "DIGEST_MISMATCH"


class DecisionNotFound(MemoryOSError):
    """There is no such decision."""

    code = Code.NOT_FOUND
    reason = "DECISION_NOT_FOUND"


class ReviewNotFound(MemoryOSError):
    """There is no such review."""

    code = Code.NOT_FOUND
    reason = "REVIEW_NOT_FOUND"


class ReviewClosed(MemoryOSError):
    """The review has ended: approved, denied or expired."""

    code = Code.FAILED_PRECONDITION
    reason = "REVIEW_CLOSED"


class ReviewerInvolved(MemoryOSError):
    """The requester and its agents cannot review the call; another person must."""

    code = Code.PERMISSION_DENIED
    reason = "REVIEWER_INVOLVED"


class ReviewerGroup(MemoryOSError):
    """The reviewer is not of the group that the review asks for."""

    code = Code.PERMISSION_DENIED
    reason = "REVIEWER_GROUP"


class ReviewDigestMismatch(MemoryOSError):
    """The review or decision of this call is for another action."""

    code = Code.ABORTED
    reason = "REVIEW_DIGEST_MISMATCH"


class ReviewNotAsked(MemoryOSError):
    """The decision does not ask for a review of this call."""

    code = Code.FAILED_PRECONDITION
    reason = "REVIEW_NOT_ASKED"
