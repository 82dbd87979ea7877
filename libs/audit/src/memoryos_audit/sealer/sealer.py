"""Chains committed audit rows and signs the heads; of any number of sealers one works.

Rows are chained afterwards, below the oldest running transaction, because a
chain inside the writing transactions would make them wait for each other
(15 to 20 times fewer rows a second, MEASURED).
"""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from memoryos_core.errors import MemoryOSError
from memoryos_postgres import Database

from memoryos_audit.blocks import append_block, hash_rows, last_block, sealable_xid, snapshot
from memoryos_audit.chain import NO_HASH, Block
from memoryos_audit.head import Head
from memoryos_audit.seal_key import PublicSealKeys, SealKey

_LOCK: Final = 0x4D4F5303
_log = logging.getLogger(__name__)


class ChainBroken(Exception):
    """The chain in the database is not the one that was sealed: run `mos audit verify`. Nothing more is sealed."""


class Sealer:
    """Seals what is new. `head_file` is kept outside the database and by the sealer alone."""

    def __init__(self, database: Database, key: SealKey, keys: PublicSealKeys, head_file: Path) -> None:
        self._database = database
        self._key = key
        self._keys = keys
        self._head_file = head_file

    async def run(self, stop: asyncio.Event, interval_s: float) -> None:
        """Seal every `interval_s` until `stop`; waits its turn while another sealer works. ChainBroken ends it."""
        while not stop.is_set():
            try:
                await self.seal()
            except MemoryOSError as error:
                _log.warning("nothing sealed this time", exc_info=error)
            try:
                await asyncio.wait_for(stop.wait(), interval_s)
            except TimeoutError:
                continue

    async def seal(self) -> Block | None:
        """Add one block over all rows that are final by now; None when there are none, or another sealer works.

        The lock lives as long as the transaction, so a sealer that dies or
        loses its connection lets the next one in, and its half-done block
        vanishes with the transaction.
        """
        # Before the snapshot: another sealer's block is committed before its head is here.
        head = Head.load(self._head_file)
        async with snapshot(self._database) as tx:
            if not await tx.fetch_value("SELECT pg_try_advisory_xact_lock(%s)", (_LOCK,)):
                return None
            previous = await last_block(tx)
            self._check_end(head, previous)
            xid_from = previous.xid_to if previous else 0
            xid_to = await sealable_xid(tx)
            rows = await hash_rows(tx, xid_from, xid_to)
            if rows.count == 0:
                return None
            block = Block(
                number=previous.number + 1 if previous else 1,
                xid_from=xid_from,
                xid_to=xid_to,
                row_count=rows.count,
                rows_hash=rows.digest(),
                previous_hash=previous.hash if previous else NO_HASH,
            ).hashed()
            block = self._signed(block)
            append_block(tx, block)
        # A kill right here leaves the head one block behind, which the next start mends.
        Head.of(block).save(self._head_file)
        return block

    def _check_end(self, head: Head | None, last: Block | None) -> None:
        """Going on over a cut or a forged end would hide it. A head that is behind is brought up to the end."""
        if last is not None and (
            last.hash != last.expected_hash() or not self._keys.signed(last.key_id, last.signature, last.hash)
        ):
            raise ChainBroken(f"block {last.number} is not signed by a seal key")
        if head is not None and (last is None or last.number < head.block):
            raise ChainBroken(f"block {head.block} was sealed and is gone")
        if head is not None and last is not None and last.number == head.block and last.hash.hex() != head.hash:
            raise ChainBroken(f"block {head.block} is not the one that was sealed")
        if last is not None and (head is None or head.block < last.number):
            Head.of(last).save(self._head_file)

    def _signed(self, block: Block) -> Block:
        return replace(block, key_id=self._key.key_id, signature=self._key.sign(block.hash))
