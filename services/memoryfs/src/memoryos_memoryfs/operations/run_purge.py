"""The purge job: remove everywhere, wait out what was under way, remove once more, search, sign.

Each phase is safe to repeat from its beginning; the checkpoint says which one
it is in. Nothing stops a purge that has begun: half an erasure is none.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any, Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import InternalError
from memoryos_postgres.jobs import JobRun, JobWaits

from memoryos_memoryfs.domain.erasure import Expiry, Finding, Target, receipt
from memoryos_memoryfs.errors import ReceiptUnavailable
from memoryos_memoryfs.operations.erase_copy import erase_from_copy, find_in_copy
from memoryos_memoryfs.ports.erasure import ErasureParts, Settling
from memoryos_memoryfs.ports.index import IndexParts

BATCH: Final = 2000
_NAMED: Final = 5000
_COPY: Final = "qdrant.points"
_LOOK_S: Final = 0.1
_HELD_S: Final = 0.5
"""Longest wait for an instant that keeps its place; in a longer one other jobs run."""
_PHASES: Final = ("freeze", "erase", "settle", "sweep", "arrive", "search")


class RemainsFound(InternalError):
    """The search found something of what was erased; the purge begins once more."""


async def run_purge(parts: ErasureParts, index: IndexParts, run: JobRun) -> Mapping[str, Any]:
    """Give the signed receipt, once every place was searched and nothing was found."""
    target = Target.decode(run.input)
    signer = parts.signer
    if signer is None:
        raise ReceiptUnavailable
    if "result" in run.checkpoint:  # died between its end and the end of the job
        ended: Mapping[str, Any] = run.checkpoint["result"]
        return ended
    purge = _Purge(parts, index, run, target)
    for phase in _PHASES[_PHASES.index(run.phase) if run.phase in _PHASES else 0 :]:
        await run.save(phase=phase)
        crash_point("memoryfs.purge.in_phase")
        await getattr(purge, phase)()
    signed = await purge.receipt()
    result = {
        "receipt": signed.decode(),
        "signature": base64.b64encode(signer.sign(signed)).decode(),
        "key_id": signer.key_id,
        "item_count": run.done,
    }
    await parts.store.close(run, target, result)
    return result


class _Purge:
    """The phases, by name."""

    def __init__(self, parts: ErasureParts, index: IndexParts, run: JobRun, target: Target) -> None:
        self._store = parts.store
        self._peers = parts.peers
        self._index = index
        self._run = run
        self._target = target
        self._found: dict[str, int] = {}
        self._expiring: list[Expiry] = []

    async def freeze(self) -> None:
        """A person's key first: whatever is found of them from here on cannot be read."""
        start = await self._store.settling(self._run)
        if self._target.user:
            await self._store.destroy_key(self._run, self._target.user)
        await self._keep(times={"start": start.until, **self._run.checkpoint.get("times", {})})

    async def erase(self) -> None:
        """Remove what is there now, in every place."""
        await self._keep(waits={})
        await self._remove()

    async def _remove(self) -> None:
        while await self._store.erase_batch(self._run, self._target, BATCH):
            crash_point("memoryfs.purge.after_batch")
        await self._store.erase_loose(self._run, self._target)
        await self._erase_copies()
        await self._erase_peers()

    async def settle(self) -> None:
        """Wait until no process holds the key and every transaction of before has ended."""
        await self._wait("settle", caches=bool(self._target.user))

    async def sweep(self) -> None:
        """Remove what came in between; nothing older can come any more."""
        await self._remove()

    async def arrive(self) -> None:
        """Wait until what was on its way to the copy has arrived, and remove it.

        A copier that read an item before it was erased may send it until its
        deadline, and a write that timed out may arrive late. Qdrant carries
        changes out in the order of their arrival, so nothing sent before comes
        after the last of these deadlines.
        """
        ids = await self._all_ids()
        if ids and self._index.copy is not None:
            await self._wait("arrive", late_s=self._index.settle_s)
            await self._erase_copies()

    async def search(self) -> None:
        """Look into every place; what is found sends the purge back to its first phase."""
        self._found = dict(await self._store.search(self._run, self._target))
        self._expiring = list(await self._store.expiring(self._run, self._target))
        ids = await self._all_ids()
        if self._index.copy is not None:
            self._found[_COPY] = await find_in_copy(self._index, self._run.tenant, ids) if ids else 0
        for start in range(0, max(len(ids), 1), _NAMED):
            found, expiring = await self._peers.find(self._run, self._target, ids[start : start + _NAMED])
            for place, rows in found.items():
                self._found[place] = self._found.get(place, 0) + rows
            self._expiring += [one for one in expiring if one not in self._expiring]
        left = {place: rows for place, rows in self._found.items() if rows}
        if left:
            await self._run.save(phase=_PHASES[1], checkpoint={**self._run.checkpoint, "left": left})
            raise RemainsFound(metadata={"places": ",".join(sorted(left))})

    async def receipt(self) -> bytes:
        """Give what is signed."""
        removed: Mapping[str, int] = self._run.checkpoint.get("removed", {})
        end = await self._store.settling(self._run)
        return receipt(
            job_id=self._run.id,
            tenant=self._run.tenant,
            digest=await self._store.digest(self._run.tenant, self._target.name),
            times={**self._run.checkpoint["times"], "end": end.until},
            findings=[
                Finding(place=place, removed=removed.get(place, 0), found=self._found.get(place, 0))
                for place in {*removed, *self._found}
            ],
            expiring=self._expiring,
            absent=list(self._peers.absent),
        )

    async def _wait(self, phase: str, *, caches: bool = False, late_s: float = 0.0) -> None:
        """Wait out what was under way when the phase began first; whoever takes the job up goes on waiting."""
        waits = self._run.checkpoint.get("waits", {})
        if phase not in waits:
            began = await self._store.settling(self._run, caches=caches, late_s=late_s)
            await self._keep(waits={**waits, phase: [began.until, began.xid]})
        settling = Settling(*self._run.checkpoint["waits"][phase])
        while (left_s := await self._store.unsettled_s(self._run, settling)) > 0:
            if left_s > _HELD_S:
                raise JobWaits(left_s)
            await asyncio.sleep(max(left_s, _LOOK_S))

    async def _erase_copies(self) -> None:
        after, removed = "", 0
        while ids := await self._store.erased_ids(self._run, after, _NAMED):
            removed += await erase_from_copy(self._index, self._run.tenant, ids)
            after = ids[-1]
        if removed:
            await self._count({_COPY: removed})

    async def _erase_peers(self) -> None:
        ids = await self._all_ids()
        for start in range(0, max(len(ids), 1), _NAMED):
            await self._count(await self._peers.erase(self._run, self._target, ids[start : start + _NAMED]))
        crash_point("memoryfs.purge.after_peers")

    async def _all_ids(self) -> list[str]:
        ids: list[str] = []
        while page := await self._store.erased_ids(self._run, ids[-1] if ids else "", _NAMED):
            ids += page
        return ids

    async def _count(self, counts: Mapping[str, int]) -> None:
        removed = dict(self._run.checkpoint.get("removed", {}))
        for place, rows in counts.items():
            removed[place] = removed.get(place, 0) + rows
        await self._keep(removed=removed)

    async def _keep(self, **values: Any) -> None:
        await self._run.save(checkpoint={**self._run.checkpoint, **values})
