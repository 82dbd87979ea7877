"""Follow a task until it ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from memoryos_core.scope import Scope

from memoryos_harness.domain.states import ENDED
from memoryos_harness.domain.tasks import Step, TaskEvent
from memoryos_harness.ports import TaskNews, TaskStore

EVENTS_PAGE: Final = 100
QUIET_S_MAX: Final = 1.0
"""Without news the events are read again after this time: a lost notification delays, it does not lose."""


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event with its step as it stands now."""

    event: TaskEvent
    step: Step | None


async def watch_task(
    store: TaskStore, news: TaskNews, scope: Scope, task_id: str, *, after_sequence: int
) -> AsyncGenerator[SeenEvent, None]:
    """Give every event of the caller's task after a place, in order, and end with the terminal one.

    Raises TaskNotFound at once. A watcher that comes back with the sequence it
    saw last misses nothing and sees nothing twice.
    """
    seen = after_sequence
    async with news.of(scope.tenant, task_id) as signal:
        while True:
            signal.clear()
            # Read before the events: a task that has ended by now has its last event.
            ended = (await store.get(scope, task_id)).state in ENDED
            events = await store.events(scope, task_id, after_sequence=seen, limit=EVENTS_PAGE)
            wanted = [event.step_id for event in events if event.step_id]
            steps = await store.get_steps(scope, task_id, wanted) if wanted else {}
            for event in events:
                yield SeenEvent(event, steps.get(event.step_id))
                seen = event.sequence
                if event.state in ENDED:
                    return
            if not events and ended:
                return
            if len(events) < EVENTS_PAGE:
                await signal.wait(QUIET_S_MAX)
