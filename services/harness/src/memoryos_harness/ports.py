"""Everything that Harness asks of the world. Adapters are built in app.py only.

Storage calls take a Scope and see the rows of its user alone; a row of another
user is absent (None, or the NotFound error of its kind). Every method of
SessionStore, TaskStore and TaskJournal is one transaction: all of it is kept
when it returns, and nothing when it raises. A store that does not answer is
DependencyUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from memoryos_core.canonical import JsonValue
from memoryos_core.paging import PageTokens
from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity

from memoryos_harness.domain.agents import Agent, Limits
from memoryos_harness.domain.grants import Grant
from memoryos_harness.domain.outcomes import CallOutcome
from memoryos_harness.domain.revocations import Revocation
from memoryos_harness.domain.sessions import (
    Look,
    Message,
    MessageDraft,
    MessageHit,
    Session,
    SessionPage,
    SessionPlace,
)
from memoryos_harness.domain.states import StepKind, TaskState
from memoryos_harness.domain.tasks import (
    CallIds,
    Counters,
    Lease,
    Step,
    StepResult,
    Task,
    TaskEvent,
    TaskFilter,
    TaskListPlace,
    TaskPage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What makes a retry of one mutating call safe: the same id with the same body gives the same answer.

    With another body the call raises RequestIdReused.
    """

    rpc: str
    request_id: str
    body: bytes


class SessionStore(Protocol):
    """Sessions of one user."""

    async def create(self, scope: Scope, request: Request) -> Session:
        """Keep a new session of the scope's user."""

    async def get(self, scope: Scope, session_id: str) -> Session:
        """Give a session, or raise SessionNotFound."""

    async def append(
        self, scope: Scope, session_id: str, drafts: Sequence[MessageDraft], request: Request
    ) -> tuple[Message, ...]:
        """Keep messages at the end of a session, in order, or raise SessionNotFound."""

    async def list_messages(
        self, scope: Scope, session_id: str, *, after_sequence: int, limit: int
    ) -> tuple[Message, ...]:
        """Give messages after a place, oldest first, or raise SessionNotFound.

        The scope's session has seen what this one has from then on.
        """

    async def list_sessions(
        self, scope: Scope, *, all_users: bool, after: SessionPlace | None, limit: int
    ) -> SessionPage:
        """Give sessions after a place: the user's, or those of the whole tenant where the scope's roles oversee it."""

    async def history(self, scope: Scope, session_id: str, *, before_sequence: int, limit: int) -> tuple[Message, ...]:
        """Give the newest `limit` messages before a place, oldest first."""


class MessageSearch(Protocol):
    """Search by words in the sessions of one user, whatever else the scope's roles may see."""

    async def search(self, scope: Scope, look: Look) -> tuple[MessageHit, ...]:
        """Give the messages that hold most of the query's words by weight, best first, of equal ones the newest first.

        Before it returns, the scope's session has seen what the sessions of the
        hits have. A query without a word finds nothing. Searched are the
        newest messages up to a limit of the adapter.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task to be kept. `grant` is that of who starts it; the task's own link is added when it has a name."""

    session_id: str
    agent: Agent
    grant: Grant
    input: str
    traceparent: str
    limits: Limits | None = None
    """What it may use up, where that is less than the agent's file says."""
    agent_label: str = ""
    parent_task_id: str = ""
    depth: int = 0
    priority: int | None = None  # its parent's, or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStart:
    """A call of a sub-agent: the task to be kept, or what the model is told instead."""

    agent: str
    given: JsonValue
    """Input of the step."""
    task: NewTask | None
    refusal: StepResult | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The results of child tasks, by the step of the parent, and the time that they took of the parent's."""

    results: tuple[tuple[Step, StepResult], ...]
    seconds: float


class TaskStore(Protocol):
    """Tasks as their user sees them."""

    async def submit(self, scope: Scope, task: NewTask, request: Request) -> Task:
        """Keep a task with its question as the user's message, and wake a worker for it.

        Task, message, first event, wake-up and audit row are one transaction:
        an acknowledged task is never lost. Raises SessionNotFound.
        """

    async def get(self, scope: Scope, task_id: str) -> Task:
        """Give a task, or raise TaskNotFound."""

    async def cancel(self, scope: Scope, task_id: str, request: Request) -> Task:
        """Ask a task to stop; one that no worker holds is CANCELLED at once.

        A worker that holds it ends its step, and then the task. Raises
        TaskNotFound, and TaskEnded when it ended otherwise than by a cancel.
        """

    async def pause(self, scope: Scope, task_id: str, request: Request) -> Task:
        """Let a task rest, and all below it: at once where no worker holds it, else after the step under way.

        A review stays open. Raises TaskNotFound, TaskEnded, and TaskStateForbids when it was asked to stop.
        """

    async def resume(self, scope: Scope, task_id: str, note: str, request: Request) -> Task:
        """Let a task at rest go on, and what rests below it; time at rest does not count.

        `note` is the answer of the call that was handed over to a person;
        InvalidField where none was. A task below that waits for a person's
        word goes on by its own resume only. Raises TaskNotFound, TaskEnded,
        and TaskStateForbids for a task that neither rests nor was asked to.
        """

    async def retry(self, scope: Scope, task_id: str, request: Request) -> Task:
        """Have a DEAD task, or one that waits after a failure, tried again now, with a new count of attempts.

        Raises TaskNotFound, and TaskStateForbids for other states and a DEAD task whose parent went on.
        """

    async def list(self, scope: Scope, which: TaskFilter, *, after: TaskListPlace | None, limit: int) -> TaskPage:
        """Give a page of tasks, newest first; of all users, without contents, where the scope's roles oversee."""

    async def list_steps(self, scope: Scope, task_id: str, *, after_sequence: int, limit: int) -> tuple[Step, ...]:
        """Give steps after a place, in order, or raise TaskNotFound."""

    async def get_steps(self, scope: Scope, task_id: str, step_ids: Sequence[str]) -> Mapping[str, Step]:
        """Give the steps of these ids, by id."""

    async def events(self, scope: Scope, task_id: str, *, after_sequence: int, limit: int) -> tuple[TaskEvent, ...]:
        """Give events after a place, in order, or raise TaskNotFound."""


class NewsSignal(Protocol):
    """Says that something happened to one task since `clear`."""

    def clear(self) -> None:
        """Forget what was heard."""

    async def wait(self, timeout_s: float) -> None:
        """Return when something was heard, or after `timeout_s`."""


class TaskNews(Protocol):
    """Tells watchers that a task has new events. It may miss one: watchers look again after a while."""

    def of(self, tenant: str, task_id: str) -> AbstractAsyncContextManager[NewsSignal]:
        """Give the signal of one task while the context is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A task that this worker holds now, with all that its journal says."""

    lease: Lease
    state: TaskState
    agent: Agent
    grant: Grant
    session_id: str
    question: str
    question_sequence: int
    steps: tuple[Step, ...]
    used: Counters
    attempt: int
    stalled_attempts: int
    seconds_left: float
    parked_s: float
    claim_time: datetime
    """By the database's clock."""
    traceparent: str


class TaskJournal(Protocol):
    """The writes of workers. Each one is fenced: a worker whose lease was taken over changes nothing (LeaseLost).

    When the task was asked to stop, every change of state but `finish_step`
    and `end_cancelled` raises CancelRequested; `finish_step` still keeps what
    was done.
    """

    async def claim(self, tenant: str, task_id: str, *, holder: str, lease_s: float) -> Claim | None:
        """Take a task that nobody holds, by compare-and-set on the database's clock; None when there is none.

        The epoch grows by one. A lease that ran out, or whose worker is gone,
        counts as an attempt. A task whose content cannot be opened any more
        (its user was erased) ends here.
        """

    async def heartbeat(self, lease: Lease, *, lease_s: float) -> TaskState:
        """Hold the lease for another `lease_s` from now and give the task's state."""

    async def begin(self, lease: Lease, *, kind: StepKind, target: str, given: JsonValue) -> Step:
        """Journal a new step as STARTED."""

    async def resume(self, lease: Lease, step: Step) -> Step:
        """Journal that a STARTED step is carried on under this lease."""

    async def finish_step(self, lease: Lease, step: Step, result: StepResult, *, responding: bool = False) -> None:
        """Journal what became of a step; `responding` when the answer is known now.

        A task that waited for a review is TOOL_CALLING again; one that was
        asked to stop stays so.
        """

    async def park(self, lease: Lease, step: Step, ids: CallIds, *, wake_after_s: float) -> None:
        """Let the task wait for a person: WAITING_REVIEW, lease given back, wake-up set.

        A task that waits already goes on waiting, without a new event.
        """

    async def rest(self, lease: Lease, step: Step | None = None) -> None:
        """Let the task rest, with a HAND_OFF `step` open or as it was asked to: PAUSED, lease given back, nobody woken.

        Who resumes the task finishes the step with `{"note": ...}`. Time at rest
        does not count against the deadline.
        """

    async def succeed(self, lease: Lease, text: str) -> None:
        """Append the answer to the session and end the task SUCCEEDED."""

    async def fail(
        self, lease: Lease, *, code: str, message: str, retry_after_s: float, attempts_max: int
    ) -> TaskState:
        """End this attempt: FAILED with a wake-up, or DEAD at the cap."""

    async def die(self, lease: Lease, *, code: str, message: str) -> None:
        """End the task DEAD."""

    async def end_cancelled(self, lease: Lease) -> None:
        """End a task that was asked to stop; steps that were under way are journaled as not known."""

    async def release(self, lease: Lease, *, after_s: float = 0.0, stalled: bool = False) -> None:
        """Give the lease back and wake another worker after a while; `stalled` counts as an attempt that failed."""


class ChildTasks(Protocol):
    """Tasks of sub-agents, as the worker of their parent starts and joins them; fenced as TaskJournal is."""

    async def start(self, lease: Lease, starts: Sequence[ChildStart]) -> tuple[Step, ...]:
        """Journal the calls and keep their tasks, with a wake-up for each; give the steps as they stand.

        Where a task was started the parent is WAITING_TASK and its lease is
        given back, all in one transaction; else it is still held.
        """

    async def join(self, lease: Lease, steps: Sequence[Step]) -> Joined | None:
        """Journal what became of the tasks of these started steps; None, and the lease given back, while one goes on.

        Tokens and calls of the children count for the parent with it, and so
        does the time of the one that took longest, waits for people aside.
        """


class DueTasks(Protocol):
    """The content-free list of when somebody must look at a task next, over all tenants."""

    async def wake_due(self, *, limit: int, quiet_s: float) -> int:
        """Wake workers for tasks that are due, each at most once in `quiet_s`; give how many.

        Tasks of workers that are gone are due at once. Safe when two do it at
        the same time.
        """

    async def note_sweep(self) -> None:
        """Keep that a sweep has ended now."""

    async def since_sweep_s(self) -> float:
        """Give how long ago the last sweep of any worker ended, by the store's clock."""

    async def clear_lost_jobs(self, *, silent_s: float) -> int:
        """Drop queue jobs of workers that are gone; give how many. Tasks do not depend on them."""


class Presence(Protocol):
    """Shows others that a worker lives, so that they need not wait for its leases when it does not."""

    def shown(self, holder: str) -> AbstractAsyncContextManager[None]:
        """Show that the worker `holder` lives while the context is open, at latest when it is entered.

        It ends with the process, however that dies. A worker that is taken for
        gone by mistake loses its tasks to others; its writes are fenced.
        """


OnWakeUp = Callable[[str, str], Awaitable[None]]
"""Called with tenant and task id. It may be called twice for one wake-up, and for a task that has ended."""


class WakeUps(Protocol):
    """The queue that wakes workers. It may lose wake-ups: the due list finds those tasks again."""

    async def run(self, on_wake_up: OnWakeUp, stop: asyncio.Event) -> None:
        """Call back for each wake-up, several at once, until `stop` is set; then return within the drain time.

        Calls that still run then are cancelled.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledItem:
    """One item of memory, as it is shown to a model: data with its citation."""

    id: str
    content: str
    score: float
    valid_from: str
    trusted: bool


class MemoryReader(Protocol):
    """Recall from MemoryFS."""

    async def recall(
        self, token: str, *, path: str, query: str, top_k: int, min_score: float
    ) -> tuple[RecalledItem, ...]:
        """Give the best items below a path, best first.

        Raises NotAllowed when the token does not reach the path, and
        DependencyUnavailable when MemoryFS does not answer.
        """


class WorkingMemory(Protocol):
    """Writes to a task's working memory."""

    async def put(self, token: str, *, path: str, texts: Sequence[str], request_id: str) -> tuple[str, ...]:
        """Give the ids of new items with these texts, in order; the same `request_id` gives the same items.

        Raises NotAllowed and DependencyUnavailable as `MemoryReader` does.
        """


class MemoryBindings(Protocol):
    """Bindings of MemoryFS, on behalf of the user whose task it is."""

    async def bind(self, token: str, *, task_id: str, read: Sequence[str], write: Sequence[str], ttl_s: float) -> str:
        """Bind places to a task, or renew that, and give the binding's name.

        Raises NotAllowed and DependencyUnavailable as `MemoryReader` does.
        """

    async def unbind(self, token: str, binding_id: str) -> None:
        """End a binding; one that is gone already is as good. The task's working memory is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill that the agent could be allowed to call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    repeatable: bool = False
    """It reads or is idempotent: a call of it may be made again though it is not known whether it happened."""


class ToolBox(Protocol):
    """The tool-gateway. The same `request_id` is the same call, for ever."""

    async def list_skills(self, token: str) -> tuple[Skill, ...]:
        """Give the skills that policy lets this token think of; DependencyUnavailable when it does not answer."""

    async def call_skill(
        self, token: str, *, skill: str, arguments: bytes, request_id: str, lease_epoch: int
    ) -> CallOutcome:
        """Make the call, or tell what became of it when it was made before.

        Bad arguments, an unknown skill and a refusal are outcomes. Raises
        LeaseLost when a newer epoch was seen, and DependencyUnavailable when
        the outcome could not be learned: asking again with the same id is safe.
        """


class Reviews(Protocol):
    """Reviews of the policy service."""

    async def is_pending(self, token: str, review_id: str) -> bool:
        """Tell whether a review is known to wait for people now; False in any doubt."""


class TaskTokens(Protocol):
    """Mints the tokens of a task's agent."""

    async def mint(self, claim: Claim) -> str:
        """Give a short-lived token of the last link of the task's grant.

        Before each one every link is checked, and that nobody in the chain was
        revoked: raises NotAllowed, AccessRevoked, and DependencyUnavailable
        when that cannot be asked.
        """

    async def check(self, claim: Claim) -> None:
        """Return when `mint` would give a token now; raise as it does otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A token, and when it expires at the latest."""

    token: str
    expire_time: datetime


class TokenIssuer(Protocol):
    """Makes tokens of agents that callers start by themselves."""

    async def issue(
        self, caller: Identity, narrowed: Identity, *, audience: Collection[str], ttl_s: int
    ) -> IssuedToken:
        """Give a token of `narrowed` and keep its audit row, if nobody in it is revoked.

        Raises AccessRevoked, and DependencyUnavailable when that cannot be
        asked or no key is configured.
        """

    def keys(self) -> JsonValue:
        """Give the public keys of these tokens and those of tasks, as a JWK set."""


class RevocationStore(Protocol):
    """Whom no token is made for any more, in one tenant."""

    async def revoke(self, scope: Scope, subject: str, request: Request) -> Revocation:
        """Give the revocation of `subject`, kept with its audit row, or the one of before."""

    async def restore(self, scope: Scope, subject: str, request: Request) -> None:
        """Take a revocation back, if there is one."""

    async def list_newest(self, scope: Scope) -> tuple[Revocation, ...]:
        """Give the newest revocations."""


class PageKeys(Protocol):
    """The keys that page tokens are signed with, one per tenant."""

    async def of(self, scope: Scope) -> PageTokens:
        """Give the page tokens of the scope's tenant."""
