-- Statements of the index upkeep, as memoryos_indexer. Names in braces are filled in by the caller.

-- name: try_lock
SELECT pg_try_advisory_lock(%(lock)s);

-- name: unlock
SELECT pg_advisory_unlock(%(lock)s);

-- name: changed_rows
-- Rows that changed since the statistics were made.
SELECT coalesce(max(n_mod_since_analyze), 0) FROM pg_stat_user_tables
WHERE schemaname = 'memoryfs' AND relname = 'item_vectors';

-- name: grown_tenants
-- By the statistics, biggest first. A tenant that matters here is always among the most common values.
SELECT tenant FROM (
    SELECT unnest(s.most_common_vals::text::text[]) AS tenant, unnest(s.most_common_freqs) * c.reltuples AS row_count
    FROM pg_stats s, pg_class c
    WHERE s.schemaname = 'memoryfs' AND s.tablename = 'item_vectors' AND s.attname = 'tenant'
        AND c.oid = 'memoryfs.item_vectors'::regclass
) AS sizes
WHERE row_count >= 0.9 * %(rows_min)s
ORDER BY row_count DESC;

-- name: shrunk_tenants
-- Those listed that the statistics, where there are any, no longer show as big.
SELECT l.tenant, l.model_id
FROM memoryfs.vector_indexes l, pg_stats s, pg_class c
WHERE s.schemaname = 'memoryfs' AND s.tablename = 'item_vectors' AND s.attname = 'tenant'
    AND c.oid = 'memoryfs.item_vectors'::regclass
    AND coalesce(
        s.most_common_freqs[array_position(s.most_common_vals::text::text[], l.tenant)] * c.reltuples, 0
    ) < %(rows_max)s;

-- name: next_model
SELECT model_id, vector_dims(vec) AS dimensions FROM memoryfs.item_vectors
WHERE tenant = %(tenant)s AND model_id > %(after)s AND tier = 1
ORDER BY model_id LIMIT 1;

-- name: row_count
SELECT count(*) FROM memoryfs.item_vectors WHERE tenant = %(tenant)s AND model_id = %(model_id)s AND tier = 1;

-- name: listed_indexes
SELECT tenant, model_id, digest, ready_time IS NOT NULL AS ready FROM memoryfs.vector_indexes;

-- name: list_index
INSERT INTO memoryfs.vector_indexes (tenant, model_id, digest, row_count)
VALUES (%(tenant)s, %(model_id)s, %(digest)s, %(row_count)s)
ON CONFLICT (tenant, model_id) DO UPDATE SET row_count = excluded.row_count;

-- name: index_is_ready
UPDATE memoryfs.vector_indexes SET ready_time = clock_timestamp()
WHERE tenant = %(tenant)s AND model_id = %(model_id)s;

-- name: forget_index
DELETE FROM memoryfs.vector_indexes WHERE tenant = %(tenant)s AND model_id = %(model_id)s;

-- name: ann_indexes
SELECT c.relname AS name, i.indisvalid AS valid
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = 'memoryfs.item_vectors'::regclass AND c.relname ~ '^item_vectors_(near|few)_[0-9a-f]{16}$';

-- name: create_few
CREATE INDEX CONCURRENTLY IF NOT EXISTS {few} ON memoryfs.item_vectors USING gin (acl, path_id) WITH (fastupdate = off)
WHERE tenant = {tenant} AND model_id = {model_id};

-- name: create_near
CREATE INDEX CONCURRENTLY IF NOT EXISTS {near} ON memoryfs.item_vectors
USING hnsw ((vec::halfvec({dimensions})) halfvec_cosine_ops) WITH (m = 16, ef_construction = 64)
WHERE tenant = {tenant} AND model_id = {model_id} AND tier = 1;
