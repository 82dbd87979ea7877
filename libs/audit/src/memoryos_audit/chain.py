"""The chain over audit rows: digests of rows, hashes of blocks. No I/O.

Row digest  = SHA-256 of the canonical JSON object of all columns that are not null
              (so a column added later leaves old digests as they were).
rows_hash   = SHA-256 over the digests in order (xid, seq).
Block hash  = SHA-256 of the canonical JSON array
              ["memoryos-audit-1", block, xid_from, xid_to, row_count, rows_hash, previous_hash].
Block n covers all rows with xid_from <= xid < xid_to, and its xid_from is the
xid_to of block n-1: no row is between two blocks. Block 1 starts at xid 0 on 32 zero bytes.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Final

from memoryos_core.canonical import canonical_json

NO_HASH: Final = bytes(32)
_FORMAT: Final = "memoryos-audit-1"

ROW_COLUMNS: Final = (
    "SELECT tenant, seq, xid::text AS xid, (extract(epoch FROM create_time) * 1000000)::bigint AS create_time, kind,"
    " service, method, user_name, actor, chain, session_id, task_id, call_id, decision_id, trace_id, target_type,"
    " target_ids, target_hmac, outcome, reason, count, duration_us, attributes FROM core.audit"
)
"""Rows in the form that `row_digest` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One link of the chain."""

    number: int
    xid_from: int
    xid_to: int
    row_count: int
    rows_hash: bytes
    previous_hash: bytes
    hash: bytes = b""
    key_id: str = ""
    signature: bytes = b""

    def expected_hash(self) -> bytes:
        """The hash that follows from the other fields."""
        fields: list[Any] = [_FORMAT, self.number, self.xid_from, self.xid_to, self.row_count]
        return hashlib.sha256(canonical_json([*fields, self.rows_hash.hex(), self.previous_hash.hex()])).digest()

    def hashed(self) -> "Block":
        """The same block with its hash."""
        return replace(self, hash=self.expected_hash())


class RowsHash:
    """Hash over rows, fed one by one in order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.count = 0

    def add(self, row: dict[str, Any]) -> None:
        """Take the next row."""
        self._hash.update(row_digest(row))
        self.count += 1

    def digest(self) -> bytes:
        """The hash so far."""
        return self._hash.digest()


def row_digest(row: dict[str, Any]) -> bytes:
    """Digest of one audit row as `ROW_COLUMNS` reads it."""
    return hashlib.sha256(canonical_json({name: value for name, value in row.items() if value is not None})).digest()
