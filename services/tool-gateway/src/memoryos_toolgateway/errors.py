"""What callers of the tool gateway are told, and what stops it from starting.

Reasons are those of memoryos.toolgateway.v1.ErrorReason.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoryos_core.errors import Code, FieldViolation, MemoryOSError


class SkillNotFound(MemoryOSError):
    """No such skill, or none that the caller may see."""

    code = Code.NOT_FOUND
    reason = "SKILL_NOT_FOUND"


class ArgumentsInvalid(MemoryOSError):
    """The arguments break the skill's schema."""

    code = Code.INVALID_ARGUMENT
    reason = "ARGUMENTS_INVALID"

    @classmethod
    def of(cls, violations: Sequence[tuple[str, str]]) -> ArgumentsInvalid:
        """Give the error of (pointer, expectation) pairs, which never hold a value."""
        return cls(violations=tuple(FieldViolation(f"arguments_json{pointer}", text) for pointer, text in violations))


class CallDigestMismatch(MemoryOSError):
    """The same request_id came with another skill or other arguments."""

    code = Code.ABORTED
    reason = "CALL_DIGEST_MISMATCH"


class CallNotFound(MemoryOSError):
    """No such call, or none that the caller may see."""

    code = Code.NOT_FOUND
    reason = "CALL_NOT_FOUND"


class EpochFenced(MemoryOSError):
    """The lease epoch given is older than one already seen for this call's task."""

    code = Code.ABORTED
    reason = "EPOCH_FENCED"


class PolicyUnavailable(MemoryOSError):
    """Policy did not answer: the call is refused."""

    code = Code.UNAVAILABLE
    reason = "POLICY_UNAVAILABLE"


class CallNotCancellable(MemoryOSError):
    """The call has gone too far: it was sent, or it has ended."""

    code = Code.FAILED_PRECONDITION
    reason = "CALL_NOT_CANCELLABLE"


class UpstreamOpen(MemoryOSError):
    """The upstream of the skill is not called for a while: it failed too often."""

    code = Code.UNAVAILABLE
    reason = "UPSTREAM_OPEN"


class CallNotUnknown(MemoryOSError):
    """Only a call whose outcome is unknown, and which can no longer take effect unseen, can be reconciled."""

    code = Code.FAILED_PRECONDITION
    reason = "CALL_NOT_UNKNOWN"


class SkillFileInvalid(Exception):
    """A skill file cannot be registered; the gateway does not start."""

    def __init__(self, file: str, pointer: str, text: str, line: int = 0) -> None:
        self.file = file
        self.pointer = pointer
        self.text = text
        super().__init__(f"{file}{f':{line}' if line else ''}: {pointer or '/'}: {text}")

    def on_line(self, line: int) -> SkillFileInvalid:
        """Give the same with the line of the file."""
        return SkillFileInvalid(self.file, self.pointer, self.text, line)
