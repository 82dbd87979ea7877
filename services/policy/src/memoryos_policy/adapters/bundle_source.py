"""The folder that the rules come from: read again and again, it confirms the revision that is served."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from pathlib import Path
from typing import Protocol

from memoryos_core.clock import Clock
from memoryos_core.errors import MemoryOSError

from memoryos_policy.bundles import BundleInvalid, archive_of, read_files, revision_of

_log = logging.getLogger(__name__)


class Keeper(Protocol):
    """Keeps the rules of a revision, so that its decisions can be explained."""

    async def keep(self, revision: str, archive: bytes) -> None:
        """Keep them; when this returns they are kept."""


class BundleSource:
    """What the folder held when it was last read.

    A folder that cannot be read confirms nothing, and neither do rules that
    cannot be kept: without either they decide until their time is over, and no longer.
    """

    def __init__(self, folder: Path, clock: Clock, keeper: Keeper | None = None) -> None:
        self._folder = folder
        self._clock = clock
        self._keeper = keeper
        self._revision = ""
        self._fault = ""
        self._times: dict[str, datetime] = {}

    def confirm_time(self, revision: str) -> datetime | None:
        """Give when the folder was last seen to hold exactly this revision; None: never by this process."""
        return self._times.get(revision)

    async def read(self) -> None:
        """Read the folder now, beside the event loop; rules that this process has not met are kept first."""
        now = self._clock.now()
        try:
            files = await asyncio.to_thread(read_files, self._folder)
            revision = revision_of(files)
            if self._keeper is not None and revision not in self._times:
                await self._keeper.keep(revision, await asyncio.to_thread(archive_of, files))
        except (BundleInvalid, OSError, MemoryOSError) as error:
            if self._fault != (fault := type(error).__name__):
                _log.warning("the source of the rules confirms nothing", extra={"error": fault})
            self._revision, self._fault = "", fault
            return
        if revision != self._revision:
            _log.info("the source of the rules", extra={"bundle_revision": revision})
        # Only what was confirmed last and what may still be served: revisions do not pile up.
        self._times = {name: self._times[name] for name in (self._revision,) if name in self._times}
        self._revision, self._fault = revision, ""
        self._times[revision] = now

    async def keep_reading(self, interval_s: float) -> None:
        """Read it every so often, until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            await self.read()
