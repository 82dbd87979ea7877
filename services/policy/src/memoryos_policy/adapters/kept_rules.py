"""The rules of every revision that was confirmed, in PostgreSQL; a bundle is content-free and belongs to no tenant."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from memoryos_core.canonical import canonical_json
from memoryos_postgres import Database, queries

from memoryos_policy.adapters.faults import Fault
from memoryos_policy.adapters.opa_answer import parse_result
from memoryos_policy.bundles import unpack
from memoryos_policy.domain.decisions import Fired
from memoryos_policy.domain.verdicts import Verdict
from memoryos_policy.errors import BundleNotKept, ExplainFailed, ExplainNotConfigured
from memoryos_policy.rules.evaluate import evaluate
from memoryos_policy.rules.opa_command import OpaCommand, OpaFailed

TIMEOUT_S: Final = 10.0
AT_ONCE_MAX: Final = 2
"""Engines that run beside each other: whoever audits must not starve who decides."""
_CONFIRMED: Final = "2000-01-01T00:00:00Z"
"""Rules only hand it on; a decision by kept rules is not judged by its age."""
_QUERIES: Final = queries.load("memoryos_policy", "decision_log.sql")


class PostgresKeptRules:
    """KeptRules, and what keeps them. `binary` None: rules are kept, but not asked again."""

    def __init__(self, database: Database, binary: Path | None) -> None:
        self._database = database
        self._opa = OpaCommand(binary, timeout_s=TIMEOUT_S) if binary else None
        self._running = asyncio.Semaphore(AT_ONCE_MAX)

    async def keep(self, revision: str, archive: bytes) -> None:
        """Keep the archive of a revision, if it is not kept yet; when this returns it is."""
        async with self._database.unscoped() as tx:
            await tx.execute(_QUERIES["keep_bundle"], {"revision": revision, "archive": archive})

    async def again(self, revision: str, document: Mapping[str, Any]) -> tuple[Verdict, Sequence[Fired]]:
        """See KeptRules."""
        async with self._database.unscoped() as tx:
            archive = await tx.fetch_value(_QUERIES["bundle"], {"revision": revision})
        if archive is None:
            raise BundleNotKept
        if self._opa is None:
            raise ExplainNotConfigured
        async with self._running:
            with tempfile.TemporaryDirectory(prefix="memoryos-rules-") as scratch:
                bundle, beside = Path(scratch) / "bundle", Path(scratch) / "beside"
                await asyncio.to_thread(_lay_out, archive, bundle, beside)
                try:
                    evaluation = await evaluate(self._opa, bundle, document, beside=beside)
                    return parse_result(evaluation.result), evaluation.fired
                except (OpaFailed, Fault):
                    raise ExplainFailed from None


def _lay_out(archive: bytes, bundle: Path, beside: Path) -> None:
    """Write the rules, and beside them what `opa.py` gives to an engine that serves: when they were confirmed."""
    unpack(archive, bundle)
    build = beside / "system" / "build"
    build.mkdir(parents=True)
    (build / "data.json").write_bytes(canonical_json({"confirm_time": _CONFIRMED}))
