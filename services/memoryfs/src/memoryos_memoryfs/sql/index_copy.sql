-- name: backends
SELECT configured, serving, feeding, phase, target FROM memoryfs.index_backends;

-- name: wait_briefly
-- Writers that come while the lock is waited for wait behind it.
SET LOCAL lock_timeout = '2s';

-- name: quiesce_vectors
-- Waits for the writers of vectors to end; those that follow see what this transaction commits.
LOCK TABLE memoryfs.item_vectors IN SHARE MODE;

-- name: change_backends
UPDATE memoryfs.index_backends SET
    configured = %(configured)s, serving = %(serving)s, feeding = %(feeding)s, phase = %(phase)s, target = %(target)s,
    change_time = clock_timestamp()
WHERE configured = %(old_configured)s AND serving = %(old_serving)s AND feeding = %(old_feeding)s
    AND phase = %(old_phase)s AND target = %(old_target)s;

-- name: claim_changes
-- Some tenants after the last one served, in turns. The lock is that of the item: whoever copies it copies the
-- truth of now, and nobody else copies an older one meanwhile. A lock that is taken is passed over.
WITH RECURSIVE tenants (tenant, place) AS (
    (
        SELECT tenant, 1 FROM memoryfs.index_outbox
        WHERE failed_time IS NULL AND tenant > %(after)s
        ORDER BY tenant LIMIT 1
    )
    UNION ALL
    SELECT following.tenant, tenants.place + 1
    FROM tenants CROSS JOIN LATERAL (
        SELECT o.tenant FROM memoryfs.index_outbox AS o
        WHERE o.failed_time IS NULL AND o.tenant > tenants.tenant
        ORDER BY o.tenant LIMIT 1
    ) AS following
    WHERE tenants.place < %(tenants)s
),
due AS MATERIALIZED (
    SELECT named.tenant, named.item_id
    FROM tenants CROSS JOIN LATERAL (
        SELECT o.tenant, o.item_id, row_number() OVER (ORDER BY o.seq) AS turn FROM memoryfs.index_outbox AS o
        WHERE o.tenant = tenants.tenant AND o.failed_time IS NULL AND o.due_time <= clock_timestamp()
        ORDER BY o.seq LIMIT %(limit)s
    ) AS named
    GROUP BY named.tenant, named.item_id
    ORDER BY min(named.turn), named.tenant LIMIT %(limit)s
),
locked AS MATERIALIZED (
    SELECT tenant, item_id FROM due
    WHERE pg_try_advisory_xact_lock(hashtextextended(tenant || ' ' || item_id, 4001))
)
SELECT o.tenant, o.item_id, array_agg(o.seq) AS seqs, max(o.attempts) AS attempts
FROM locked JOIN memoryfs.index_outbox AS o USING (tenant, item_id)
GROUP BY o.tenant, o.item_id;

-- name: current_vectors
SELECT item_id, revision, model_id, path_id, acl, tier, vec FROM memoryfs.item_vectors
WHERE tenant = %(tenant)s AND item_id = ANY (%(item_ids)s::text[]);

-- name: forget_changes
DELETE FROM memoryfs.index_outbox AS o
USING unnest(%(tenants)s::text[], %(item_ids)s::text[], %(seqs)s::int8[]) AS seen (tenant, item_id, seq)
WHERE o.tenant = seen.tenant AND o.item_id = seen.item_id AND o.seq = seen.seq;

-- name: put_off_changes
UPDATE memoryfs.index_outbox SET
    attempts = attempts + 1,
    last_reason = %(reason)s,
    due_time = clock_timestamp() + make_interval(secs => %(delay_s)s * power(2, least(attempts, 10))),
    failed_time = CASE WHEN %(attempts)s + 1 >= %(attempts_max)s THEN clock_timestamp() END
WHERE tenant = %(tenant)s AND item_id = %(item_id)s AND seq = ANY (%(seqs)s::int8[])
RETURNING failed_time IS NOT NULL AS failed;

-- name: name_all
WITH named AS MATERIALIZED (
    SELECT DISTINCT tenant, item_id FROM memoryfs.item_vectors
    WHERE (tenant, item_id) > (%(after_tenant)s, %(after_id)s)
    ORDER BY tenant, item_id LIMIT %(limit)s
),
added AS (
    INSERT INTO memoryfs.index_outbox (tenant, item_id) SELECT tenant, item_id FROM named ORDER BY tenant, item_id
)
SELECT tenant, item_id FROM named ORDER BY tenant DESC, item_id DESC LIMIT 1;

-- name: name_some
INSERT INTO memoryfs.index_outbox (tenant, item_id)
SELECT %(tenant)s, named.id FROM unnest(%(item_ids)s::text[]) AS named (id);

-- name: pending_of
SELECT DISTINCT item_id FROM memoryfs.index_outbox
WHERE tenant = %(tenant)s AND item_id = ANY (%(item_ids)s::text[]) AND failed_time IS NULL;

-- name: backlog
SELECT count(*) FILTER (WHERE failed_time IS NULL) AS pending_count,
    min(make_time) FILTER (WHERE failed_time IS NULL) AS oldest_time,
    count(DISTINCT (tenant, item_id)) FILTER (WHERE failed_time IS NOT NULL) AS dead_count,
    (
        SELECT count(*) FROM memoryfs.item_embeds AS e
        WHERE %(tenant)s::text IS NULL OR e.tenant = %(tenant)s::text
    ) AS unembedded_count
FROM memoryfs.index_outbox AS o
WHERE %(tenant)s::text IS NULL OR o.tenant = %(tenant)s::text;

-- name: clear_outbox
DELETE FROM memoryfs.index_outbox;

-- name: route
-- Who answers the tenant's searches, and which of its items the copy does not know yet.
SELECT b.serving = 'qdrant' AS copied,
    ARRAY(
        SELECT DISTINCT item_id FROM memoryfs.index_outbox WHERE tenant = %(tenant)s LIMIT %(limit)s
    ) AS pending_ids
FROM memoryfs.index_backends AS b;

-- name: vector_counts
SELECT tenant, count(*) AS held FROM memoryfs.item_vectors WHERE model_id = %(model_id)s GROUP BY tenant;

-- name: vector_page
SELECT item_id, revision, model_id, path_id, acl, tier, vec FROM memoryfs.item_vectors
WHERE tenant = %(tenant)s AND item_id > %(after_id)s AND model_id = %(model_id)s
ORDER BY item_id LIMIT %(limit)s;
