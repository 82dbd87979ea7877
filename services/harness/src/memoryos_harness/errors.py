"""Errors of Harness; reasons are names of memoryos.harness.v1.ErrorReason."""

from __future__ import annotations

from memoryos_core.errors import Code, MemoryOSError


class SessionNotFound(MemoryOSError):
    """No such session, or none that the caller may see."""

    code = Code.NOT_FOUND
    reason = "SESSION_NOT_FOUND"


class TaskNotFound(MemoryOSError):
    """No such task, or none that the caller may see."""

    code = Code.NOT_FOUND
    reason = "TASK_NOT_FOUND"


class AgentNotFound(MemoryOSError):
    """No agent file of that name."""

    code = Code.NOT_FOUND
    reason = "AGENT_NOT_FOUND"


class TaskEnded(MemoryOSError):
    """The task has ended."""

    code = Code.FAILED_PRECONDITION
    reason = "TASK_ENDED"


class LeaseLost(MemoryOSError):
    """Another worker holds the task now."""

    code = Code.ABORTED
    reason = "LEASE_LOST"


class AccessRevoked(MemoryOSError):
    """Access was revoked: no token is made for this user, agent or task."""

    code = Code.PERMISSION_DENIED
    reason = "ACCESS_REVOKED"


class TaskStateForbids(MemoryOSError):
    """The task is not in a state for this."""

    code = Code.FAILED_PRECONDITION
    reason = "TASK_STATE_FORBIDS"


class PauseRequested(Exception):
    """The task was asked to rest. Never leaves the worker."""


class CancelRequested(Exception):
    """The task was asked to stop. Never leaves the worker."""
