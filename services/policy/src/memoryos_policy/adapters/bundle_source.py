"""The folder that the rules come from: read again and again, it confirms the revision that is served."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from pathlib import Path

from memoryos_core.clock import Clock

from memoryos_policy.bundles import BundleInvalid, read_files, revision_of

_log = logging.getLogger(__name__)


class BundleSource:
    """What the folder held when it was last read. A folder that cannot be read confirms nothing."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._revision = ""
        self._times: dict[str, datetime] = {}

    def confirm_time(self, revision: str) -> datetime | None:
        """Give when the folder was last seen to hold exactly this revision; None: never by this process."""
        return self._times.get(revision)

    async def read(self) -> None:
        """Read the folder now, beside the event loop."""
        now = self._clock.now()
        try:
            revision = await asyncio.to_thread(lambda: revision_of(read_files(self._folder)))
        except (BundleInvalid, OSError) as error:
            if self._revision:
                _log.warning("the source of the rules cannot be read", extra={"error": type(error).__name__})
            self._revision = ""
            return
        if revision != self._revision:
            _log.info("the source of the rules", extra={"bundle_revision": revision})
        # Only what was confirmed last and what may still be served: revisions do not pile up.
        self._times = {name: self._times[name] for name in (self._revision,) if name in self._times}
        self._revision = revision
        self._times[revision] = now

    async def keep_reading(self, interval_s: float) -> None:
        """Read it every so often, until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            await self.read()
