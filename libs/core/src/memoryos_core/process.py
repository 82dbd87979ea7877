"""How every process of ours starts and ends: configuration, crash point, and one event for the stop signals."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from memoryos_core import crashpoints
from memoryos_core.config import Config, Section, load
from memoryos_core.sections import ALL_SECTIONS

Result = TypeVar("Result")
_COLLECT_AFTER: Final = (20_000, 20, 20)
"""Objects, and younger rounds, between the rounds of the cycle collector."""


async def run_process(
    environ: Mapping[str, str],
    sections: Sequence[type[Section]],
    body: Callable[[Config, asyncio.Event], Awaitable[Result]],
) -> Result:
    """Give what `body` gives; it ends when the event is set, at SIGTERM or SIGINT. A second signal changes nothing.

    `environ` comes from the main module, the only reader of the environment:
    MEMORYOS_CONFIG names the file, MEMORYOS_CRASH_POINT arms a crash point, the
    rest overrides fields. Raises ConfigError before anything is done.
    """
    file = environ.get("MEMORYOS_CONFIG")
    crashpoints.arm(environ.get("MEMORYOS_CRASH_POINT", ""))
    config = load(sections, file=Path(file) if file else None, environ=environ, known=ALL_SECTIONS)
    # Modules stay: no round of the collector goes through them again. A batch makes thousands of objects that die by
    # themselves; by default each 700 of them are a round.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return await body(config, stop)
