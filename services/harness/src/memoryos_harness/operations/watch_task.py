"""Follow a task until it ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from memoryos_core.feed import FeedPage, follow
from memoryos_core.scope import Scope

from memoryos_harness.domain.states import ENDED
from memoryos_harness.domain.tasks import Step, TaskEvent
from memoryos_harness.ports import TaskNews, TaskStore

EVENTS_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event with its step as it stands now."""

    event: TaskEvent
    step: Step | None


async def watch_task(
    store: TaskStore, news: TaskNews, scope: Scope, task_id: str, *, after_sequence: int
) -> AsyncGenerator[SeenEvent, None]:
    """Give every event of the caller's task after a place, in order, and end with the last terminal one.

    Raises TaskNotFound at once. A watcher that comes back with the sequence it
    saw last misses nothing and sees nothing twice.
    """

    async def after(seen: int) -> FeedPage[SeenEvent, int]:
        # Read before the events: a task that has ended by now has its last event.
        ended = (await store.get(scope, task_id)).state in ENDED
        events = await store.events(scope, task_id, after_sequence=seen, limit=EVENTS_PAGE)
        wanted = [event.step_id for event in events if event.step_id]
        steps = await store.get_steps(scope, task_id, wanted) if wanted else {}
        more = len(events) == EVENTS_PAGE
        return FeedPage(
            [SeenEvent(event, steps.get(event.step_id)) for event in events],
            events[-1].sequence if events else seen,
            more=more,
            # An end that a person had tried again since is an event like others.
            ended=ended and not more and (not events or events[-1].state in ENDED),
        )

    async with news.of(scope.tenant, task_id) as signal:
        async for page in follow(after, after_sequence, news=signal):
            for seen_event in page.events:
                yield seen_event
