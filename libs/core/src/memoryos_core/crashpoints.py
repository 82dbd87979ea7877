"""Named places where a process dies on demand, so that a test can kill it exactly there.

A process is armed by its main module (MEMORYOS_CRASH_POINT=name or name:n); at
the n-th pass it sends itself SIGKILL, as the kernel or an operator would. An
unarmed process pays one comparison.
"""

from __future__ import annotations

import os
import signal
from typing import Final

CRASH_POINTS: Final[dict[str, str]] = {
    "memoryfs.write.before_commit": "all rows of a Write are made, none is committed",
    "memoryfs.forget.before_commit": "all items of a filter are forgotten, none is committed",
    "memoryfs.judge.before_commit": "an item is promoted or disputed, not committed",
    "memoryfs.settings.before_commit": "what a path states is written, not committed",
    "memoryfs.move.between_parts": "a part of a subtree is moved, nothing is committed",
    "memoryfs.move.before_commit": "a whole subtree is moved, not committed",
    "memoryfs.unbind.before_commit": "working memory is forgotten with its binding, not committed",
    "memoryfs.ann.between_indexes": "the first of a big tenant's two indexes is built, the second is not",
    "memoryfs.write.after_commit": "a Write is committed, its answer is not sent",
    "memoryfs.import.before_commit": "a part of an Import is made, not committed",
    "memoryfs.index.before_copy": "a change is committed and claimed, nothing is sent to the copy of the index",
    "memoryfs.index.after_copy": "the copy of the index has it, the outbox still names it",
    "jobs.run.taken_up": "a job has a new lease, its handler has not begun",
    "jobs.run.before_end": "a job's handler is done, its end is not kept",
    "memoryfs.merge.before_commit": "the merged item and its superseded sources are made, nothing is committed",
    "memoryfs.rollback.before_commit": "every item is back and the undo snapshot taken, nothing is committed",
    "memoryfs.purge.in_phase": "a purge is about to do a phase (1 to 6: freeze, erase, settle, sweep, arrive, search)",
    "memoryfs.purge.after_batch": "a batch of a purge is committed, the next is not begun",
    "memoryfs.purge.after_peers": "the other services have erased, the job does not say so yet",
    "policy.decide.before_commit": "OPA has decided, the decision is not kept",
    "policy.review.before_commit": "a vote is counted, not committed",
    "gateway.call.before_intent": "a call is decided, nothing is journaled",
    "gateway.call.after_intent": "a call that is not sent now is journaled, nothing else is done",
    "gateway.call.after_dispatch": "DISPATCHED is journaled, nothing is sent",
    "gateway.call.after_effect": "the upstream has answered, nothing is journaled",
    "gateway.call.after_result": "the result is journaled, the answer is not sent",
    "gateway.call.while_consuming_approval": "PARKED to DISPATCHED is sent, not committed",
    "gateway.call.while_limiting": "rates are taken and DISPATCHED is sent, not committed",
    "gateway.call.before_end": "a result, its facts and its notices are written, not committed",
    "gateway.call.before_unsent_end": "a call that was not let through is ended, not committed",
    "gateway.cancel.before_commit": "a call is withdrawn, not committed",
    "gateway.reconcile.after_lookup": "an upstream has said what became of a call, nothing is kept",
    "gateway.reconcile.before_commit": "a doubt is ended, not committed",
    "gateway.notice.after_send": "a notice is sent, its queue still names it",
    "harness.request.before_commit": "a task is submitted, or changed by a person, not committed",
    "harness.request.after_commit": "a task is submitted, or changed by a person, and the answer is not sent",
    "harness.step.before_journal": "a step is chosen, not journaled",
    "harness.step.after_started": "STARTED is journaled, nothing is done",
    "harness.step.after_effect": "the step is done, DONE is not journaled",
    "harness.step.after_done": "DONE is journaled, the task is not moved on",
    "harness.task.before_finish": "the answer is known, the task is not ended",
    "harness.task.after_finish": "the task is ended and its waiting parent has a wake-up, nothing else is done",
    "harness.child.before_start": "child tasks are chosen, nothing is journaled",
    "harness.child.before_commit": "steps, child tasks and wake-ups are written, not committed",
    "harness.child.after_start": "child tasks are there, their parent waits, nothing else is done",
    "harness.child.before_join": "all child tasks have ended and the parent is held, nothing of them is journaled",
    "harness.child.after_join": "the results of child tasks are journaled, the parent is not moved on",
}
"""Every crash point and the state in which it finds the world."""

_armed: str = ""
_passes_left: int = 0


def arm(value: str) -> None:
    """Arm one crash point, "name" or "name:n" for its n-th pass; "" arms none."""
    global _armed, _passes_left
    name, _, count = value.partition(":")
    if name and name not in CRASH_POINTS:
        raise ValueError(f"unknown crash point {name!r}")
    _armed, _passes_left = name, int(count or 1)


def crash_point(name: str) -> None:
    """Die here if this point is armed and its turn has come."""
    global _passes_left  # noqa: PLW0603
    if _armed != name:
        return
    _passes_left -= 1
    if _passes_left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
