"""Whether the audit is what was written: edited, removed, added, reordered, cut off or re-chained rows are found."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

from memoryos_postgres import Database, Row
from memoryos_postgres.errors import translated

from memoryos_audit.blocks import all_blocks, all_rows, snapshot
from memoryos_audit.chain import NO_HASH, Block, RowsHash
from memoryos_audit.head import Head
from memoryos_audit.seal_key import PublicSealKeys

FAILURES_MAX: Final = 100


@dataclass(kw_only=True)
class Report:
    """What `verify` found. Rows beyond the seal reached are not proven yet."""

    blocks: int = 0
    sealed_rows: int = 0
    sealed_below_xid: int = 0
    sealed_until: str = ""
    unsealed_rows: int = 0
    unsealed_since: str = ""
    head: Head | None = None
    failures: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.failures

    def fail(self, text: str) -> None:
        """Note a failure; FAILURES_MAX at most."""
        if len(self.failures) < FAILURES_MAX:
            self.failures.append(text)


async def verify(database: Database, keys: PublicSealKeys, head: Head | None) -> Report:
    """Compare every row with the chain, in one snapshot and one pass, as role memoryos_sealer.

    `head` is the newest block known outside the database; None is right only
    for a database that was never sealed.
    """
    report = Report()
    at_head: Block | None = None
    previous: Block | None = None
    with translated():
        async with snapshot(database) as tx:
            rows = _Rows(all_rows(tx))
            await rows.step()
            async for block in all_blocks(tx):
                _check_link(previous, block, keys, report)
                await _check_rows(rows, block, report)
                if head is not None and block.number == head.block:
                    at_head = block
                previous = block
            if previous is not None:
                report.blocks, report.sealed_below_xid = previous.number, previous.xid_to
                report.head = Head.of(previous)
            await _count_unsealed(rows, report)
    _check_head(previous, at_head, keys, head, report)
    return report


class _Rows:
    """Rows in order, with the next one in sight."""

    def __init__(self, rows: AsyncIterator[Row]) -> None:
        self._rows = rows
        self.next: dict[str, Any] | None = None

    async def step(self) -> None:
        self.next = await anext(self._rows, None)


def _check_link(previous: Block | None, block: Block, keys: PublicSealKeys, report: Report) -> None:
    expected = previous.number + 1 if previous else 1
    if block.number != expected:
        report.fail(f"block {expected} is missing: block {block.number} stands in its place")
    if block.previous_hash != (previous.hash if previous else NO_HASH):
        report.fail(f"block {block.number} does not follow the block before it")
    if block.xid_from != (previous.xid_to if previous else 0) or block.xid_to <= block.xid_from:
        report.fail(f"block {block.number} does not start where the block before it ends")
    if block.hash != block.expected_hash():
        report.fail(f"block {block.number} was changed: its fields give another hash")
    if not keys.signed(block.key_id, block.signature, block.hash):
        report.fail(f"block {block.number} is not signed by a seal key: the chain was made anew")


async def _check_rows(rows: _Rows, block: Block, report: Report) -> None:
    found = RowsHash()
    while rows.next is not None and int(rows.next["xid"]) < block.xid_to:
        found.add(rows.next)
        report.sealed_until = str(rows.next["create_time"])
        await rows.step()
    report.sealed_rows += found.count
    where = f"block {block.number} (transactions {block.xid_from} to below {block.xid_to})"
    if found.count < block.row_count:
        report.fail(f"{where}: {block.row_count - found.count} rows were removed")
    elif found.count > block.row_count:
        report.fail(f"{where}: {found.count - block.row_count} rows were added")
    elif found.digest() != block.rows_hash:
        report.fail(f"{where}: rows were edited or reordered")


async def _count_unsealed(rows: _Rows, report: Report) -> None:
    while rows.next is not None:
        report.unsealed_rows += 1
        report.unsealed_since = report.unsealed_since or str(rows.next["create_time"])
        await rows.step()


def _check_head(
    last: Block | None, at_head: Block | None, keys: PublicSealKeys, head: Head | None, report: Report
) -> None:
    if head is None:
        if last is not None:
            report.fail("no head is known outside the database: whether the end was cut off cannot be told")
    elif not head.signed_by(keys):
        report.fail("the head is not signed by a seal key")
    elif last is None or last.number < head.block:
        end = last.number if last else 0
        report.fail(f"the end was cut off: block {head.block} was sealed, the chain ends at {end}")
    elif at_head is None or at_head.hash.hex() != head.hash:
        report.fail(f"block {head.block} is not the one that was sealed")
