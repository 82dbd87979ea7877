"""A task's places in memory are bound while it lives: a ceiling, and working memory that ends with the task."""

from __future__ import annotations

import logging
from typing import Final

from memoryos_core.errors import DependencyUnavailable, MemoryOSError

from memoryos_harness.domain.states import StepKind
from memoryos_harness.operations.task_run import AttemptFailed, TaskRun

_LOG: Final = logging.getLogger(__name__)
REST_S: Final = 30 * 86_400.0
"""How long the places of a task that rests stay bound: the longest that MemoryFS takes."""
_RENEWALS: Final = 4
"""A binding is renewed when so great a part of its time is over."""


async def bind_memory(run: TaskRun, *, ttl_s: float | None = None) -> None:
    """Bind the agent's places to the task for `ttl_s` (`binding_s`), or renew that.

    An agent without places is not bound until it has put something into
    working memory. Fails the attempt when MemoryFS does not answer: without a
    binding the task's working memory would stay behind.
    """
    claim = run.claim
    memory, identity = claim.agent.memory, claim.grant[-1].identity
    if not memory.read and not memory.write and not any(step.kind is StepKind.PAGE_OUT for step in run.steps):
        return
    try:
        run.binding_id = await run.ports.bindings.bind(
            await run.ports.tokens.mint(claim),
            task_id=claim.lease.task_id,
            read=identity.read_paths or (),
            write=identity.write_paths or (),
            ttl_s=ttl_s or run.settings.binding_s,
        )
    except DependencyUnavailable as error:
        raise AttemptFailed("memory_unavailable", "Memory did not answer.", error.retry_after_s) from error
    run.bound_until = run.ports.clock.monotonic() + run.settings.binding_s


async def renew_memory(run: TaskRun) -> None:
    """Renew the binding when a part of its time is over; one that cannot be renewed now is tried at the next beat."""
    left = run.bound_until - run.ports.clock.monotonic()
    if not run.binding_id or left > run.settings.binding_s * (1 - 1 / _RENEWALS):
        return
    try:
        await bind_memory(run)
    except (AttemptFailed, MemoryOSError):
        _LOG.warning("binding not renewed", extra={"task_id": run.claim.lease.task_id})


async def keep_memory_at_rest(run: TaskRun) -> None:
    """Bind for as long as may be: nobody renews what belongs to a task that rests."""
    if run.binding_id:
        try:
            await bind_memory(run, ttl_s=REST_S)
        except (AttemptFailed, MemoryOSError):
            _LOG.warning("binding not renewed", extra={"task_id": run.claim.lease.task_id})


async def renew_while_waiting(run: TaskRun, poll_s: float) -> None:
    """Renew the binding of a task that waits for a person: at looks near the parts of its time, not at each."""
    part_s = run.settings.binding_s / _RENEWALS
    if run.claim.parked_s % part_s <= 2 * poll_s:
        try:
            await bind_memory(run)
        except (AttemptFailed, MemoryOSError):
            _LOG.warning("binding not renewed", extra={"task_id": run.claim.lease.task_id})


async def unbind_memory(run: TaskRun) -> None:
    """End the binding of a task that has ended; where that fails its time ends it."""
    if not run.binding_id:
        return
    try:
        await run.ports.bindings.unbind(await run.ports.tokens.mint(run.claim), run.binding_id)
    except MemoryOSError as error:
        _LOG.warning("binding not ended", extra={"task_id": run.claim.lease.task_id, "reason": error.reason})
