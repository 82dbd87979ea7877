"""Blocks and rows in the database, read in one snapshot."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from memoryos_postgres import Database, Row, Tx

from memoryos_audit.chain import ROW_COLUMNS, Block, RowsHash

FETCH_ROWS: Final = 2000
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_ROWS = f"{ROW_COLUMNS} WHERE xid >= %s::text::xid8 AND xid < %s::text::xid8 ORDER BY core.audit.xid, seq"
_BLOCKS = (
    "SELECT block, xid_from::text AS xid_from, xid_to::text AS xid_to, row_count, rows_hash, previous_hash, hash,"
    " key_id, signature FROM core.audit_seals"
)
_INSERT = (
    "INSERT INTO core.audit_seals (block, xid_from, xid_to, row_count, rows_hash, previous_hash, hash, key_id,"
    " signature) VALUES (%s, %s::text::xid8, %s::text::xid8, %s, %s, %s, %s, %s, %s)"
)


@asynccontextmanager
async def snapshot(database: Database) -> AsyncIterator[Tx]:
    """A transaction that sees one state of the database throughout."""
    async with database.unscoped() as tx:
        await tx.execute(_SNAPSHOT)
        yield tx


async def last_block(tx: Tx) -> Block | None:
    """The end of the chain."""
    row = await tx.fetch_one(f"{_BLOCKS} ORDER BY block DESC LIMIT 1")
    return None if row is None else _block(row)


async def all_blocks(tx: Tx) -> AsyncIterator[Block]:
    """The chain from its start."""
    async for row in _stream(tx, "audit_blocks", f"{_BLOCKS} ORDER BY block", ()):
        yield _block(row)


async def hash_rows(tx: Tx, xid_from: int, xid_to: int) -> RowsHash:
    """The hash over all rows of the transactions xid_from <= xid < xid_to."""
    found = RowsHash()
    async for row in _stream(tx, "audit_rows", _ROWS, (str(xid_from), str(xid_to))):
        found.add(row)
    return found


async def sealable_xid(tx: Tx) -> int:
    """The oldest transaction that still runs: all rows below it are committed and visible here."""
    return int(await tx.fetch_value("SELECT pg_snapshot_xmin(pg_current_snapshot())::text"))


def append_block(tx: Tx, block: Block) -> None:
    """Add a block at the end of the chain; a second sealer's block of the same number fails."""
    xids = (str(block.xid_from), str(block.xid_to))
    hashes = (block.rows_hash, block.previous_hash, block.hash)
    tx.defer(_INSERT, (block.number, *xids, block.row_count, *hashes, block.key_id, block.signature))


async def all_rows(tx: Tx) -> AsyncIterator[Row]:
    """All audit rows in the order of the chain."""
    async for row in _stream(tx, "audit_all", f"{ROW_COLUMNS} ORDER BY core.audit.xid, seq", ()):
        yield row


async def _stream(tx: Tx, name: str, query: str, params: tuple[Any, ...]) -> AsyncIterator[Row]:
    connection = await tx.connection()
    async with connection.cursor(name=name) as cursor:
        cursor.itersize = FETCH_ROWS
        await cursor.execute(query.encode(), params)
        async for row in cursor:
            yield row


def _block(row: Row) -> Block:
    return Block(
        number=row["block"],
        xid_from=int(row["xid_from"]),
        xid_to=int(row["xid_to"]),
        row_count=row["row_count"],
        rows_hash=row["rows_hash"],
        previous_hash=row["previous_hash"],
        hash=row["hash"],
        key_id=row["key_id"],
        signature=row["signature"],
    )
