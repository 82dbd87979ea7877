"""What holds in the journal, the decisions, and the books of the upstream, whatever was killed.

The books are read twice: before the journal, so that what they have must be journaled, and after it, so that
what the journal says was done must be in them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from .acting_upstream import effects

OVERDUE_S: Final = 20
"""After its deadline a call is UNKNOWN as soon as a gateway sweeps; within a round of kills one does."""

# Each query gives the calls that break one rule.
RULES: Final = {
    "what was sent has its decision, which allowed it": """
        SELECT c.id FROM toolgateway.calls c
        LEFT JOIN policy.decisions d ON d.tenant = c.tenant AND d.decision_id = c.decision_id
        WHERE c.dispatches > 0 AND (d.decision_id IS NULL OR d.effect <> 'allow' OR d.call_id <> c.id)""",
    "what was denied or waits by a rule has its decision": """
        SELECT c.id FROM toolgateway.calls c
        WHERE c.state IN ('DENIED', 'PARKED') AND NOT EXISTS (
            SELECT FROM policy.decisions d WHERE d.tenant = c.tenant AND d.call_id = c.id AND d.effect <> 'allow')""",
    "what was never sent has no dispatch, what was sent has one": """
        SELECT id FROM toolgateway.calls
        WHERE (state IN ('INTENDED', 'PARKED', 'DENIED', 'CANCELLED') AND dispatches > 0)
            OR (state IN ('DISPATCHED', 'SUCCEEDED', 'UNKNOWN') AND dispatches = 0)""",
    "what may not be repeated is sent once": """
        SELECT id FROM toolgateway.calls WHERE effect_class = 'non_idempotent' AND dispatches > 1""",
    "a reviewed call is sent with the approval of its own review, used once": """
        SELECT c.id FROM toolgateway.calls c
        LEFT JOIN policy.decisions d ON d.tenant = c.tenant AND d.decision_id = c.decision_id
        LEFT JOIN policy.reviews r ON r.tenant = c.tenant AND r.review_id = c.review_id
        WHERE c.skill = 'chaos.reviewed' AND c.dispatches > 0
            AND (NOT c.approval_used OR c.dispatches <> 1 OR r.state IS DISTINCT FROM 'approved'
                OR r.call_id IS DISTINCT FROM c.id OR d.review_id IS DISTINCT FROM c.review_id)""",
    "nobody resolves a review twice": """
        SELECT review_id FROM policy.review_votes GROUP BY review_id HAVING count(*) > 1""",
    "no window lets more through than its limit": """
        SELECT key_hmac FROM toolgateway.rate_windows WHERE used > %(rate)s""",
    "windows have taken exactly what was sent, or may have been": """
        SELECT format('%%s taken, %%s sent', w.used, c.sent)
        FROM (SELECT coalesce(sum(used), 0) AS used FROM toolgateway.rate_windows) w,
            (SELECT count(*) AS sent FROM toolgateway.calls
                WHERE skill = 'chaos.rated' AND dispatches > 0 AND error_code <> 'not_sent') c
        WHERE w.used <> c.sent""",
    "nothing is under way long after its deadline": """
        SELECT id FROM toolgateway.calls
        WHERE state = 'DISPATCHED' AND deadline < clock_timestamp() - make_interval(secs => %(overdue_s)s)""",
    "every end is in the audit, once": """
        SELECT c.id FROM toolgateway.calls c
        LEFT JOIN LATERAL (
            SELECT count(*) FILTER (WHERE outcome <> 'UNKNOWN') AS ends FROM core.audit a
            WHERE a.tenant = c.tenant AND a.call_id = c.id AND a.kind = 'TOOL_RESULT') a ON true
        WHERE c.state IN ('SUCCEEDED', 'FAILED') AND a.ends <> 1""",
}
SETTLED: Final = {
    "every call has ended": """
        SELECT id || ' ' || state || ' ' || skill FROM toolgateway.calls
        WHERE state NOT IN ('SUCCEEDED', 'FAILED', 'DENIED', 'CANCELLED')
            AND NOT (state = 'UNKNOWN' AND effect_class = 'read')""",
    "no deadline, doubt or notice is left": """
        SELECT call_id FROM toolgateway.dispatched UNION ALL SELECT call_id FROM toolgateway.doubts
        UNION ALL SELECT id FROM toolgateway.notices UNION ALL SELECT notice_id FROM toolgateway.due_notices""",
}
"""What holds besides once nothing is killed any more and everybody has their answer."""


class Books:
    """The upstream's file, read on and on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self.by_call: Counter[str] = Counter()
        self.notices: Counter[str] = Counter()
        self._calls_of: dict[str, set[str]] = {}

    def read(self) -> None:
        """Take up what was written since the last time."""
        with self._file.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        lines = lines[: lines.rfind(b"\n") + 1]
        self._read += len(lines)
        for what, key, name in effects(lines):
            if what == "notice":
                self.notices[key] += 1
            else:
                self.by_call[key] += 1
                self._calls_of.setdefault(name, set()).add(key)

    def happened(self, call_id: str) -> bool:
        """Tell whether the effect of a call is in the books by now."""
        self.read()
        return self.by_call[call_id] > 0

    def named_twice(self) -> list[str]:
        """Give requests that were made under several call ids."""
        return [name for name, calls in self._calls_of.items() if len(calls) > 1]


async def broken(admin_dsn: str, books: Books, *, rate: int, settled: bool = False) -> dict[str, list[str]]:
    """Give the rules that do not hold, each with some of what breaks it."""
    books.read()
    before = Counter(books.by_call)
    rules = RULES | SETTLED if settled else RULES
    found: dict[str, list[str]] = {}
    async with await psycopg.AsyncConnection.connect(admin_dsn, autocommit=True) as admin:
        await admin.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        rows = await _calls(admin)
        for rule, query in rules.items():
            params = {"rate": rate, "overdue_s": OVERDUE_S}
            bad = await (await admin.execute(f"{query} LIMIT 10".encode(), params)).fetchall()
            if bad:
                found[rule] = [str(row[0]) for row in bad]
        await admin.execute("ROLLBACK")
    books.read()
    for rule, calls in _compared(rows, before, books).items():
        if calls:
            found[rule] = calls[:10]
    return found


async def _calls(admin: psycopg.AsyncConnection[Any]) -> dict[str, dict[str, Any]]:
    async with admin.cursor(row_factory=dict_row) as cursor:
        await cursor.execute("SELECT id, skill, effect_class, state, dispatches, error_code FROM toolgateway.calls")
        return {row["id"]: row for row in await cursor.fetchall()}


def _compared(rows: dict[str, dict[str, Any]], before: Counter[str], books: Books) -> dict[str, list[str]]:
    """Give the calls of which the journal and the books say different things."""
    after = books.by_call
    once = ("non_idempotent", "keyed")
    return {
        "what was done is journaled as sent": [c for c in before if c not in rows or not rows[c]["dispatches"]],
        "nothing is done twice that may not be": [
            f"{c} {after[c]}" for c, row in rows.items() if row["effect_class"] in once and after[c] > 1
        ],
        "one request is one call": books.named_twice(),
        "what succeeded was done": [
            c for c, row in rows.items()
            if row["state"] == "SUCCEEDED" and row["effect_class"] != "read" and not after[c]
        ],
        "what failed, was denied or withdrawn was not done, and is not done later": [
            f"{c} {row['state']} {row['error_code']}" for c, row in rows.items()
            if row["state"] in ("FAILED", "DENIED", "CANCELLED") and after[c]
        ],
        "what waits was not done before": [
            c for c, row in rows.items() if row["state"] in ("INTENDED", "PARKED") and before[c]
        ],
    }  # fmt: skip
