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


class InputsForAuditors(MemoryOSError):
    """What rules saw, and what they said, is for people who audit."""

    code = Code.PERMISSION_DENIED
    reason = "AUDITORS_ONLY"


class DecidedWithoutRules(MemoryOSError):
    """No rules spoke: the decision stands for a fault, which its reason names."""

    code = Code.FAILED_PRECONDITION
    reason = "DECIDED_WITHOUT_RULES"


class InputErased(MemoryOSError):
    """What the rules saw was erased with the person whom it was about."""

    code = Code.FAILED_PRECONDITION
    reason = "INPUT_ERASED"


class BundleNotKept(MemoryOSError):
    """The rules of this revision were not kept."""

    code = Code.FAILED_PRECONDITION
    reason = "BUNDLE_NOT_KEPT"


class ExplainNotConfigured(MemoryOSError):
    """The policy service has no opa to ask again: policy.opa_binary is not set."""

    code = Code.FAILED_PRECONDITION
    reason = "EXPLAIN_NOT_CONFIGURED"


class ExplainFailed(MemoryOSError):
    """The rules of this revision gave no usable answer this time."""

    code = Code.FAILED_PRECONDITION
    reason = "EXPLAIN_FAILED"
