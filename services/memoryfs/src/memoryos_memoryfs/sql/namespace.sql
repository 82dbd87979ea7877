-- name: settings_above
-- What a path and the paths above it state, nearest first; one row at least, for the version.
SELECT v.version, s.default_readers, s.writers, s.gate, s.confidence_caps, s.ttl, s.retention, s.hot_window, s.items_max,
    s.bytes_max, s.keep_max
FROM (
    SELECT coalesce((SELECT version FROM memoryfs.settings_versions WHERE tenant = %(tenant)s), 0) AS version
) AS v
LEFT JOIN memoryfs.path_settings s ON s.tenant = %(tenant)s AND s.key = ANY (%(keys)s::bytea[])
ORDER BY octet_length(s.key) DESC;

-- name: expect_settings
SELECT memoryfs.expect_settings(%(version)s);

-- name: count_version
INSERT INTO memoryfs.settings_versions AS v (tenant, version) VALUES (%(tenant)s, 1)
ON CONFLICT (tenant) DO UPDATE SET version = v.version + 1;

-- name: stated_settings
SELECT key, sealed_path, default_readers, writers, gate, confidence_caps, ttl, retention, hot_window, items_max,
    bytes_max, keep_max, etag, update_time
FROM memoryfs.path_settings
WHERE tenant = %(tenant)s AND key = %(key)s;

-- name: settings_below
SELECT key, sealed_path, default_readers, writers, gate, confidence_caps, ttl, retention, hot_window, items_max,
    bytes_max, keep_max, etag, update_time
FROM memoryfs.path_settings
WHERE tenant = %(tenant)s AND key >= %(start)s AND key < %(end)s;

-- name: count_settings
SELECT count(*) FROM memoryfs.path_settings WHERE tenant = %(tenant)s;

-- name: keep_settings
INSERT INTO memoryfs.path_settings (tenant, key, sealed_path, default_readers, writers, gate, confidence_caps, ttl,
    retention, hot_window, items_max, bytes_max, keep_max, etag, update_time)
VALUES (%(tenant)s, %(key)s, %(sealed_path)b, %(default_readers)s::text[], %(writers)s::text[], %(gate)s,
    %(confidence_caps)s::jsonb, %(ttl)s, %(retention)s, %(hot_window)s, %(items_max)s, %(bytes_max)s, %(keep_max)s,
    %(etag)s, %(update_time)s)
ON CONFLICT (tenant, key) DO UPDATE SET
    default_readers = excluded.default_readers, writers = excluded.writers, gate = excluded.gate,
    confidence_caps = excluded.confidence_caps, ttl = excluded.ttl, retention = excluded.retention,
    hot_window = excluded.hot_window, items_max = excluded.items_max, bytes_max = excluded.bytes_max,
    keep_max = excluded.keep_max, etag = excluded.etag, update_time = excluded.update_time;

-- name: lock_quotas
SELECT pg_advisory_xact_lock(memoryfs.quota_lock());

-- name: keep_quota
INSERT INTO memoryfs.path_quotas (tenant, key, items_max, bytes_max, item_count, byte_count)
SELECT %(tenant)s, %(key)s, %(items_max)s, %(bytes_max)s, u.item_count, u.byte_count
FROM memoryfs.used_below(%(key)s, %(end)s) AS u
ON CONFLICT (tenant, key) DO UPDATE SET items_max = excluded.items_max, bytes_max = excluded.bytes_max;

-- name: drop_quota
DELETE FROM memoryfs.path_quotas WHERE tenant = %(tenant)s AND key = %(key)s;

-- name: tally
-- By the index alone: what the caller may read (row-level security), summed up by the place directly below.
WITH places AS MATERIALIZED (
    SELECT id, substring(key FROM 1 FOR %(child_bytes)s) AS child FROM memoryfs.paths
    WHERE tenant = %(tenant)s AND key >= %(start)s AND key < %(end)s
), counted AS (
    SELECT path_id,
        count(*) FILTER (WHERE state = 2) AS active_count,
        count(*) FILTER (WHERE state = 1) AS candidate_count,
        count(*) FILTER (WHERE state = 3) AS superseded_count,
        count(*) FILTER (WHERE state = 4) AS forgotten_count,
        count(*) FILTER (WHERE state = 2 AND tier = 2) AS cold_count,
        count(*) FILTER (WHERE state = 2 AND embed_state = 2) AS pending_count,
        sum(content_bytes) AS content_bytes,
        max(create_time) FILTER (WHERE state = 2) AS newest_time,
        min(id) AS sample
    FROM memoryfs.items
    WHERE tenant = %(tenant)s
        AND path_id = ANY (ARRAY(SELECT id FROM places))
        AND sensitivity <= %(clearance)s
        AND (state IN (2, 3) OR owner = %(owner)s)
        AND (expire_time IS NULL OR expire_time > %(now)s)
    GROUP BY path_id
)
SELECT p.child, grouping(p.child) AS whole,
    coalesce(sum(c.active_count), 0)::int8 AS active_count,
    coalesce(sum(c.candidate_count), 0)::int8 AS candidate_count,
    coalesce(sum(c.superseded_count), 0)::int8 AS superseded_count,
    coalesce(sum(c.forgotten_count), 0)::int8 AS forgotten_count,
    coalesce(sum(c.cold_count), 0)::int8 AS cold_count,
    coalesce(sum(c.pending_count), 0)::int8 AS pending_count,
    coalesce(sum(c.content_bytes), 0)::int8 AS content_bytes,
    max(c.newest_time) AS newest_time,
    min(c.sample) AS sample
FROM counted c JOIN places p ON p.id = c.path_id
GROUP BY GROUPING SETS ((), (p.child))
ORDER BY whole DESC, content_bytes DESC, p.child
LIMIT %(limit)s;

-- name: changeable_below
-- Row-level security lets through what the caller may read and change.
SELECT id FROM memoryfs.items
WHERE tenant = %(tenant)s
    AND path_id = ANY (ARRAY(
        SELECT id FROM memoryfs.paths WHERE tenant = %(tenant)s AND key >= %(start)s AND key < %(end)s
    ))
    AND state <> 4
ORDER BY id
LIMIT %(limit)s
FOR UPDATE;

-- name: intern_places
INSERT INTO memoryfs.paths (tenant, key)
SELECT %(tenant)s, key FROM unnest(%(keys)s::bytea[]) AS wanted (key) ORDER BY key
ON CONFLICT (tenant, key) DO NOTHING;
