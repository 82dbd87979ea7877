"""Exit codes of `mos`, and the one line that a person gets when something went wrong.

0    done
1    a fault of ours or of this machine
2    wrong usage or an argument that breaks a rule
3    not there, or not visible to this caller
4    not allowed: no valid token, no right, or policy denied
5    conflict: somebody was faster, the state forbids it, or it runs already
6    not running, or it does not answer
7    no answer in time
8    a limit was reached
9    it ended otherwise than asked: a task, a call or a verification that failed
130  interrupted
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from memoryos_sdk import CallError


class Exit(IntEnum):
    """Exit codes, see the module's text."""

    DONE = 0
    FAULT = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    NOT_RUNNING = 6
    TOO_LATE = 7
    LIMIT = 8
    OTHERWISE = 9
    INTERRUPTED = 130


class CliError(Exception):
    """Something a person must know: what is wrong, and what to do about it."""

    def __init__(self, message: str, *, hint: str = "", exit_code: Exit = Exit.FAULT, reason: str = "") -> None:
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        self.reason = reason
        super().__init__(message)


BY_CODE: Final = {
    "INVALID_ARGUMENT": Exit.USAGE,
    "NOT_FOUND": Exit.NOT_FOUND,
    "UNAUTHENTICATED": Exit.NOT_ALLOWED,
    "PERMISSION_DENIED": Exit.NOT_ALLOWED,
    "ABORTED": Exit.CONFLICT,
    "ALREADY_EXISTS": Exit.CONFLICT,
    "FAILED_PRECONDITION": Exit.CONFLICT,
    "UNAVAILABLE": Exit.NOT_RUNNING,
    "DEADLINE_EXCEEDED": Exit.TOO_LATE,
    "RESOURCE_EXHAUSTED": Exit.LIMIT,
}

_HINTS: Final = {
    "TOKEN_MISSING": "give a token with --token, or let `mos` make one with --user",
    "TOKEN_EXPIRED": "make a new one with `mos token`",
    "TOKEN_INVALID": "make one with `mos token`; was it made for this data folder?",
    "ACCESS_REVOKED": "a tenant-admin takes it back with `mos token restore`",
    "ROLE_REQUIRED": "name a role that may do this with --role",
    "PATH_NOT_ALLOWED": "is it the path of your own tenant? see --tenant",
    "REVIEWER_INVOLVED": "somebody else must review: --user OTHER",
    "REVIEWER_GROUP": "name the review's group with --group",
    "ITEM_NOT_FOUND": "is it yours to see? see --user and --group",
    "AGENT_NOT_FOUND": "agents are files in the folder harness.agents_dir: see `mos config`",
    "SKILL_NOT_FOUND": "`mos skill list` shows what you could call",
}


def of_call_error(error: CallError) -> CliError:
    """Give the line and exit code of an error of a service."""
    message = error.message
    if error.violations:
        message = "; ".join(f"{v.field}: {v.description}" for v in error.violations)
    hint = _HINTS.get(error.reason, "")
    if error.code == "UNAVAILABLE" and not hint:
        hint = "does it run? `mos status`"
        if not error.reason:  # nobody answered: what is there to read is gRPC's own text
            message = "the service does not answer"
    if error.retry_after_s is not None:
        hint = f"try again in {error.retry_after_s:g} s"
    trace_id = error.metadata.get("trace_id", "")
    if error.code == "INTERNAL" and trace_id:
        hint = f"`mos trace {trace_id}` shows what happened"
    code = BY_CODE.get(error.code, Exit.FAULT)
    return CliError(message, hint=hint, exit_code=code, reason=error.reason or error.code)
