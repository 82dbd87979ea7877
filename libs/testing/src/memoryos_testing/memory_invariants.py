"""What holds in the tables of MemoryFS whenever no transaction is open, whatever was killed before.

assert await broken_invariants(database.admin_dsn) == {}
"""

from __future__ import annotations

from typing import Final

import psycopg

# Each query gives the items that break one rule. An expired item may have lost its index rows already.
RULES: Final = {
    "an active item has its words once, in the place of its tier": """
        SELECT i.tenant, i.id FROM memoryfs.items i
        LEFT JOIN memoryfs.item_tokens h ON h.tenant = i.tenant AND h.item_id = i.id
        LEFT JOIN memoryfs.cold_tokens c ON c.tenant = i.tenant AND c.item_id = i.id
        WHERE i.state = 2 AND (i.expire_time IS NULL OR i.expire_time > clock_timestamp())
            AND ((h.item_id IS NOT NULL) <> (i.tier = 1) OR (c.item_id IS NOT NULL) <> (i.tier = 2))""",
    "an active item that is embedded has one vector, of its revision": """
        SELECT i.tenant, i.id FROM memoryfs.items i
        WHERE i.state = 2 AND i.embed_state = 1 AND (i.expire_time IS NULL OR i.expire_time > clock_timestamp())
            AND (
                SELECT coalesce(array_agg(v.revision), '{}') FROM memoryfs.item_vectors v
                WHERE v.tenant = i.tenant AND v.item_id = i.id
            ) <> ARRAY[i.revision]""",
    "an active item that is not embedded has no vector and waits for one": """
        SELECT i.tenant, i.id FROM memoryfs.items i
        WHERE i.state = 2 AND i.embed_state = 2 AND (i.expire_time IS NULL OR i.expire_time > clock_timestamp())
            AND (
                EXISTS (SELECT FROM memoryfs.item_vectors v WHERE v.tenant = i.tenant AND v.item_id = i.id)
                OR NOT EXISTS (SELECT FROM memoryfs.item_embeds e WHERE e.tenant = i.tenant AND e.item_id = i.id)
            )""",
    "index rows have the readers and the place of their item": """
        SELECT i.tenant, i.id FROM memoryfs.items i
        JOIN (
            SELECT tenant, item_id, acl, path_id FROM memoryfs.all_tokens
            UNION ALL SELECT tenant, item_id, acl, path_id FROM memoryfs.item_vectors
        ) x ON x.tenant = i.tenant AND x.item_id = i.id
        WHERE x.path_id <> i.path_id
            OR NOT (x.acl @> (i.owner || i.acl) AND (i.owner || i.acl) @> x.acl)""",
    "what is not active is in no index": """
        SELECT i.tenant, i.id FROM memoryfs.items i
        JOIN (
            SELECT tenant, item_id FROM memoryfs.all_tokens
            UNION ALL SELECT tenant, item_id FROM memoryfs.item_vectors
            UNION ALL SELECT tenant, item_id FROM memoryfs.item_embeds
        ) x ON x.tenant = i.tenant AND x.item_id = i.id
        WHERE i.state <> 2""",
    "no row is left of an item that is gone": """
        SELECT x.tenant, x.item_id || ' in ' || x.place FROM (
            SELECT tenant, item_id, 'tokens' AS place FROM memoryfs.all_tokens
            UNION ALL SELECT tenant, item_id, 'vectors' FROM memoryfs.item_vectors
            UNION ALL SELECT tenant, item_id, 'parked' FROM memoryfs.parked_vectors
            UNION ALL SELECT tenant, item_id, 'embeds' FROM memoryfs.item_embeds
            UNION ALL SELECT tenant, item_id, 'revision vectors' FROM memoryfs.revision_vectors
            UNION ALL SELECT tenant, item_id, 'claims' FROM memoryfs.item_claims
            UNION ALL SELECT tenant, item_id, 'evidence' FROM memoryfs.item_evidence
            UNION ALL SELECT tenant, item_id, 'lives' FROM memoryfs.candidate_lives
            UNION ALL SELECT tenant, item_id, 'reasons' FROM memoryfs.change_reasons
            UNION ALL SELECT tenant, item_id, 'uses' FROM memoryfs.item_access
            UNION ALL SELECT tenant, item_id, 'changes' FROM memoryfs.item_changes
            UNION ALL SELECT tenant, id, 'revisions' FROM memoryfs.item_revisions
        ) x
        WHERE NOT EXISTS (SELECT FROM memoryfs.items i WHERE i.tenant = x.tenant AND i.id = x.item_id)""",
    # What was imported has the history that its exporter could see.
    "the revisions of an item follow each other without a gap": """
        SELECT i.tenant, i.id FROM memoryfs.items i
        LEFT JOIN LATERAL (
            SELECT count(*) AS revisions, max(r.revision) AS newest, bool_or(r.cause = 13) AS imported
            FROM memoryfs.item_revisions r WHERE r.tenant = i.tenant AND r.id = i.id
        ) r ON true
        WHERE coalesce(r.newest, 0) >= i.revision
            OR (r.revisions <> i.revision - 1 AND i.cause <> 13 AND r.imported IS NOT TRUE)""",
    "a request that is kept has its answer": """
        SELECT tenant, rpc || ' ' || request_id FROM core.idempotency WHERE response IS NULL""",
}

SETTLED: Final = {
    "nothing waits for a copy": "SELECT tenant, item_id FROM memoryfs.index_outbox",
    "nothing waits for a vector": "SELECT tenant, item_id FROM memoryfs.item_embeds WHERE failed_time IS NULL",
    "no job is under way": "SELECT tenant, id || ' ' || kind FROM core.jobs WHERE state <= 2",
    "no erasure is half done": """
        SELECT tenant, job_id FROM memoryfs.erasures UNION ALL SELECT tenant, item_id FROM memoryfs.erased_items""",
}
"""What holds besides once everything that was begun has come to its end."""


async def broken_invariants(admin_dsn: str, *, settled: bool = False) -> dict[str, list[str]]:
    """Give the rules that do not hold, each with some of what breaks it; `settled`: those of `SETTLED`, too."""
    rules = {**RULES, **SETTLED} if settled else RULES
    found: dict[str, list[str]] = {}
    async with await psycopg.AsyncConnection.connect(admin_dsn, autocommit=True) as admin:
        await admin.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        for rule, query in rules.items():
            rows = await (await admin.execute(f"{query} LIMIT 10".encode())).fetchall()
            if rows:
                found[rule] = [f"{tenant} {name}" for tenant, name in rows]
        await admin.execute("ROLLBACK")
    return found
