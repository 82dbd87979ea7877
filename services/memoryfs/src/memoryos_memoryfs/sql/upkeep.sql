-- name: enlist_tenants
-- Who has items, each found by one probe of the index: names only, whatever the number of items.
WITH RECURSIVE held AS (
    (SELECT tenant FROM memoryfs.item_tokens ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT t.tenant FROM memoryfs.item_tokens t WHERE t.tenant > held.tenant ORDER BY t.tenant LIMIT 1)
    FROM held WHERE held.tenant IS NOT NULL
)
INSERT INTO memoryfs.upkeep_runs (tenant, due_time)
SELECT tenant, clock_timestamp() FROM held WHERE tenant IS NOT NULL
ON CONFLICT (tenant) DO NOTHING;

-- name: claim_tenant
-- Whoever claims it puts the next run off; one that dies meanwhile is made up for then.
UPDATE memoryfs.upkeep_runs AS r SET due_time = clock_timestamp() + make_interval(secs => %(every_s)s)
FROM (
    SELECT tenant FROM memoryfs.upkeep_runs WHERE due_time <= clock_timestamp()
    ORDER BY due_time LIMIT 1 FOR UPDATE SKIP LOCKED
) AS due
WHERE r.tenant = due.tenant
RETURNING r.tenant;

-- name: end_run
UPDATE memoryfs.upkeep_runs SET
    end_time = clock_timestamp(), duration_s = %(duration_s)s, cold_count = %(cold_count)s,
    expired_count = %(expired_count)s, evicted_count = %(evicted_count)s, last_reason = %(last_reason)s
WHERE tenant = %(tenant)s;

-- name: unused_ids
-- Hot items that nobody has used within the hot window of their place.
WITH places AS MATERIALIZED (
    SELECT p.id, coalesce((
        SELECT s.hot_window FROM memoryfs.path_settings s
        WHERE s.tenant = p.tenant AND s.key = ANY (memoryfs.path_prefixes(p.key)) AND s.hot_window IS NOT NULL
        ORDER BY octet_length(s.key) DESC LIMIT 1
    ), %(hot_window)s::interval) AS lasts
    FROM memoryfs.paths p WHERE p.tenant = %(tenant)s
)
SELECT i.id FROM memoryfs.items i
JOIN places ON places.id = i.path_id AND places.lasts > interval '0'
WHERE i.tenant = %(tenant)s AND i.state = 2 AND i.tier = 1 AND i.update_time < %(now)s - places.lasts
    AND NOT EXISTS (
        SELECT 1 FROM memoryfs.item_access a
        WHERE a.tenant = i.tenant AND a.item_id = i.id AND a.last_time >= %(now)s - places.lasts
    )
ORDER BY i.id
LIMIT %(limit)s
FOR UPDATE OF i SKIP LOCKED;

-- name: outlived_ids
-- Items beyond the retention of their place.
WITH places AS MATERIALIZED (
    SELECT p.id, coalesce((
        SELECT s.retention FROM memoryfs.path_settings s
        WHERE s.tenant = p.tenant AND s.key = ANY (memoryfs.path_prefixes(p.key)) AND s.retention IS NOT NULL
        ORDER BY octet_length(s.key) DESC LIMIT 1
    ), %(retention)s::interval) AS lasts
    FROM memoryfs.paths p WHERE p.tenant = %(tenant)s
)
SELECT i.id FROM memoryfs.items i
JOIN places ON places.id = i.path_id AND places.lasts > interval '0'
WHERE i.tenant = %(tenant)s AND i.state IN (1, 2, 3) AND i.create_time <= %(now)s - places.lasts
ORDER BY i.id
LIMIT %(limit)s;

-- name: budgets
SELECT key, keep_max FROM memoryfs.path_settings WHERE tenant = %(tenant)s AND keep_max > 0 ORDER BY key;

-- name: least_worth_ids
-- What is beyond the budget of a subtree: pinned items last, then by importance, use and age.
WITH held AS MATERIALIZED (
    SELECT i.id, i.pinned, i.importance, i.create_time, coalesce(a.hits, 0) AS hits
    FROM memoryfs.items i
    LEFT JOIN memoryfs.item_access a ON a.tenant = i.tenant AND a.item_id = i.id
    WHERE i.tenant = %(tenant)s AND i.state = 2 AND (i.expire_time IS NULL OR i.expire_time > %(now)s)
        AND i.path_id IN (
            SELECT p.id FROM memoryfs.paths p
            WHERE p.tenant = %(tenant)s AND p.key >= %(start)s AND p.key < %(end)s
        )
)
SELECT id FROM held
ORDER BY pinned, importance, hits, create_time, id
LIMIT least(greatest((SELECT count(*) FROM held) - %(keep_max)s, 0), %(limit)s);

-- name: set_tier
UPDATE memoryfs.items SET tier = %(tier)s WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) AND tier <> %(tier)s;

-- name: set_vector_tier
UPDATE memoryfs.item_vectors SET tier = %(tier)s
WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]) AND tier <> %(tier)s;

-- name: cool_tokens
WITH moved AS (
    DELETE FROM memoryfs.item_tokens WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]) RETURNING *
)
INSERT INTO memoryfs.cold_tokens SELECT * FROM moved ON CONFLICT (tenant, item_id) DO NOTHING;

-- name: warm_tokens
WITH moved AS (
    DELETE FROM memoryfs.cold_tokens WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]) RETURNING *
)
INSERT INTO memoryfs.item_tokens SELECT * FROM moved ON CONFLICT (tenant, item_id) DO NOTHING;

-- name: cold_among
SELECT item_id FROM memoryfs.cold_tokens WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]);

-- name: lock_active
SELECT id FROM memoryfs.items
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) AND state = 2 AND tier = %(tier)s
ORDER BY id FOR UPDATE;
