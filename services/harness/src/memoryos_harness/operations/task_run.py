"""One worker's hold on one task: its ports, its settings, and its copy of the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

from memoryos_core.clock import Clock
from memoryos_models.ports import ChatModel

from memoryos_harness.agent_ports import AgentCatalog
from memoryos_harness.domain.actions import Try
from memoryos_harness.domain.sessions import Message
from memoryos_harness.domain.states import StepState
from memoryos_harness.domain.tasks import Counters, Step, StepResult
from memoryos_harness.errors import CancelRequested
from memoryos_harness.ports import (
    ChildTasks,
    Claim,
    MemoryBindings,
    MemoryReader,
    MessageSearch,
    Reviews,
    SessionStore,
    TaskJournal,
    TaskTokens,
    ToolBox,
    WorkingMemory,
)

T = TypeVar("T")

MODEL_DEADLINE_S_MIN: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a worker holds tasks and how patient it is. All times in seconds."""

    holder: str
    lease_s: float
    heartbeat_s: float
    model_deadline_s: float
    tries: int
    """Times that one call of a model, memory or tool is tried before the attempt fails."""
    retry_base_s: float
    retry_max_s: float
    review_poll_min_s: float
    review_poll_max_s: float
    in_flight_poll_s: float
    wait_in_place_s: float
    """Longest wait that a worker sits out; for a longer one the task is given back, to be woken later."""
    binding_s: float
    """How long working memory outlives a worker that is gone, unless another one takes the task."""

    def backoff_s(self, failures: int) -> float:
        """Give the wait after so many failures in a row: doubling, capped."""
        return min(self.retry_max_s, self.retry_base_s * 2.0 ** min(failures, 16))

    def review_poll_s(self, waited_s: float) -> float:
        """Give the time to the next look at a review: a tenth of the time waited, within bounds."""
        return min(self.review_poll_max_s, max(self.review_poll_min_s, waited_s / 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPorts:
    """What a run reaches the world through, and nothing else."""

    journal: TaskJournal
    children: ChildTasks
    agents: AgentCatalog
    sessions: SessionStore
    search: MessageSearch
    memory: MemoryReader
    working: WorkingMemory
    bindings: MemoryBindings
    tools: ToolBox
    reviews: Reviews
    model: ChatModel
    tokens: TaskTokens
    clock: Clock


class AttemptFailed(Exception):
    """This attempt cannot go on; a later one may."""

    def __init__(self, code: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s


class TaskDies(Exception):
    """The task cannot go on, now or later."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code)
        self.code = code
        self.message = message


@dataclass(slots=True)
class TaskRun:
    """The state of one run. Only its driver changes it."""

    ports: RunPorts
    settings: RunSettings
    claim: Claim
    stop: asyncio.Event
    """Set when the process is asked to end: no new step is started."""
    cancel: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the task was asked to stop."""
    revoked: bool = False
    """Access was revoked while the task ran; `cancel` is set with it."""
    steps: list[Step] = field(init=False)
    used: Counters = field(init=False)
    binding_id: str = ""
    """Name of the task's binding in MemoryFS."""
    bound_until: float = 0.0
    ended: bool = False
    """The task has ended for good."""
    history: tuple[Message, ...] = ()
    """The session's turns before the question, oldest first."""
    _end: float = field(init=False)
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self.steps = list(self.claim.steps)
        self.used = self.claim.used
        self._began = self.ports.clock.monotonic()
        self._end = self._began + self.claim.seconds_left

    @property
    def seconds_left(self) -> float:
        """Time until the task's limit; by the database's clock at the claim, counted here since."""
        return self._end - self.ports.clock.monotonic()

    def charge(self, seconds: float) -> None:
        """Count time that child tasks used up."""
        self._end -= seconds

    @property
    def now(self) -> datetime:
        """The database's clock at the claim, and what passed here since."""
        return self.claim.claim_time + timedelta(seconds=self.ports.clock.monotonic() - self._began)

    def wait_left_s(self, attempt: Try) -> float:
        """Give the time until a try may be made; counted from the end of the step that failed, whoever saw it."""
        failed = next((step for step in self.steps if step.sequence == attempt.of), None)
        if not attempt.wait_s or failed is None or failed.end_time is None:
            return 0.0
        return attempt.wait_s - (self.now - failed.end_time).total_seconds()

    def started(self, step: Step) -> None:
        """Note a step that was journaled as STARTED."""
        known = [index for index, other in enumerate(self.steps) if other.id == step.id]
        if known:
            self.steps[known[0]] = step
        else:
            self.steps.append(step)
            self.used = replace(self.used, steps=self.used.steps + 1)

    def finished(self, step: Step, result: StepResult) -> None:
        """Note what became of a step."""
        index = next(i for i, other in enumerate(self.steps) if other.id == step.id)
        self.steps[index] = replace(
            step,
            state=result.state,
            output=result.output,
            ids=result.ids,
            item_ids=result.item_ids,
            end_time=self.now,
        )
        self.used = replace(
            self.used, tokens=self.used.tokens + result.token_count, calls=self.used.calls + result.call_count
        )

    async def finish(self, step: Step, result: StepResult, *, responding: bool = False) -> None:
        """Journal what became of a step, then note it."""
        await self.ports.journal.finish_step(self.claim.lease, step, result, responding=responding)
        self.finished(step, result)

    async def fail_step(self, step: Step, code: str) -> None:
        """Journal that a step without effect failed; the next attempt does it again as a new one."""
        await self.finish(step, StepResult(state=StepState.FAILED, output={"error": code}))

    async def rest(self, seconds: float) -> None:
        """Return after a while, or as soon as the process is asked to end; a cancel ends it with CancelRequested."""
        waiting = asyncio.wait_for(self.stop.wait(), max(min(seconds, self.seconds_left), 0.0))
        with suppress(TimeoutError):
            await self.interruptible(waiting)

    async def interruptible(self, work: Awaitable[T]) -> T:
        """Give the result of work without effect; a cancel of the task ends it at once (CancelRequested)."""
        running = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self.cancel.wait())
        try:
            await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise CancelRequested
            return running.result()
        finally:
            for task in (running, asked):
                if not task.done():
                    task.cancel()
            await asyncio.gather(running, asked, return_exceptions=True)
