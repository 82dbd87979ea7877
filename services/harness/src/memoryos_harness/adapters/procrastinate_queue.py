"""WakeUps on procrastinate, in its own schema. Its jobs carry ids; the truth is the task row."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, cast

from memoryos_postgres.config import PostgresSection
from memoryos_postgres.roles import HARNESS
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import ProcrastinateException
from procrastinate.worker import Worker
from psycopg.conninfo import make_conninfo

from memoryos_harness.adapters.task_rows import JOB, QUEUE
from memoryos_harness.config import HarnessSection
from memoryos_harness.ports import OnWakeUp

CONNECTIONS_MAX: Final = 3
RESTART_S: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class ProcrastinateWakeUps:
    """See `WakeUps`."""

    def __init__(self, postgres: PostgresSection, harness: HarnessSection, *, name: str) -> None:
        self._postgres = postgres
        self._harness = harness
        self._name = name
        # It tells of every wake-up; what a task does is in its row and its trace.
        logging.getLogger("procrastinate").setLevel(logging.WARNING)

    async def run(self, on_wake_up: OnWakeUp, stop: asyncio.Event) -> None:
        """See `WakeUps.run`.

        procrastinate's worker ends when its database connection fails; it is
        started again, as often as it takes.
        """
        while not stop.is_set():
            try:
                await self._run_once(on_wake_up, stop)
            except (ProcrastinateException, OSError):
                _LOG.warning("queue worker ended, starting it again", exc_info=True)
            await _pause(stop)

    async def _run_once(self, on_wake_up: OnWakeUp, stop: asyncio.Event) -> None:
        app = _build(self._postgres, on_wake_up)
        async with app.open_async():
            # The class has no types.
            worker = cast(
                Any,
                Worker(
                    app,
                    queues=[QUEUE],
                    name=self._name,
                    concurrency=self._harness.concurrency,
                    fetch_job_polling_interval=self._harness.queue_poll_s,
                    update_heartbeat_interval=self._harness.lost_worker_s / 6,
                    stalled_worker_timeout=self._harness.lost_worker_s,
                    shutdown_graceful_timeout=self._harness.drain_s,
                    delete_jobs="always",
                    install_signal_handlers=False,
                ),
            )
            working = asyncio.create_task(worker.run())
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
                worker.stop()
                await working
            finally:
                stopping.cancel()
                await asyncio.gather(stopping, return_exceptions=True)


def _build(section: PostgresSection, on_wake_up: OnWakeUp) -> App:
    dsn = make_conninfo(section.dsn(HARNESS), options="-c search_path=harness_queue")
    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=1, max_size=CONNECTIONS_MAX))

    @app.task(name=JOB, queue=QUEUE)
    async def run_task(tenant: str, task_id: str) -> None:
        await on_wake_up(tenant, task_id)

    return app


async def _pause(stop: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(stop.wait(), RESTART_S)
    except TimeoutError:
        return
