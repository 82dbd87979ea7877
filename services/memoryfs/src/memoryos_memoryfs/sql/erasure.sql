-- name: principal_numbers
SELECT id FROM memoryfs.principals
WHERE tenant = %(tenant)s AND (name = %(typed)s OR starts_with(name, %(agents)s));

-- name: freeze_items
INSERT INTO memoryfs.frozen_items (tenant, item_id)
SELECT %(tenant)s, id FROM unnest(%(ids)s::text[]) AS named (id) ORDER BY id
ON CONFLICT (tenant, item_id) DO NOTHING;

-- name: freeze
INSERT INTO memoryfs.erasures (tenant, job_id, user_name) VALUES (%(tenant)s, %(job_id)s, %(user)s)
ON CONFLICT (tenant, job_id) DO NOTHING;

-- name: thaw
-- An earlier purge of the same person that failed hides nothing any more, either.
DELETE FROM memoryfs.erasures WHERE tenant = %(tenant)s AND user_name IN (
    SELECT e.user_name FROM memoryfs.erasures AS e WHERE e.tenant = %(tenant)s AND e.job_id = %(job_id)s
);

-- name: next_of_user
SELECT id FROM (
    (SELECT id FROM memoryfs.items WHERE tenant = %(tenant)s AND owner = ANY (%(numbers)s::int4[]) LIMIT %(limit)s)
    UNION
    (SELECT id FROM memoryfs.items WHERE tenant = %(tenant)s AND user_label = %(user)s LIMIT %(limit)s)
) AS found LIMIT %(limit)s;

-- name: next_of_ids
SELECT id FROM memoryfs.items WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) LIMIT %(limit)s;

-- name: next_below
SELECT i.id FROM memoryfs.items AS i
WHERE i.tenant = %(tenant)s
    AND i.path_id = ANY (ARRAY(
        SELECT p.id FROM memoryfs.paths AS p WHERE p.tenant = %(tenant)s AND p.key >= %(start)s AND p.key < %(end)s
    ))
    AND (%(every)s OR i.owner = ANY (%(numbers)s::int4[]))
LIMIT %(limit)s;

-- name: made_from
-- The second condition is that of the index.
SELECT id FROM memoryfs.items
WHERE tenant = %(tenant)s AND derived_from && %(ids)s::text[] AND derived_from <> '{}';

-- name: owned_ids
SELECT id FROM memoryfs.items
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) AND (%(every)s OR owner = ANY (%(numbers)s::int4[]));

-- name: standing_for_others
-- Items that were made from others, and that nobody had forgotten.
SELECT id FROM memoryfs.items
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) AND derived_from <> '{}' AND state <> 4;

-- name: note_erased
INSERT INTO memoryfs.erased_items (tenant, job_id, item_id)
SELECT %(tenant)s, %(job_id)s, id FROM unnest(%(ids)s::text[]) AS e (id)
ON CONFLICT DO NOTHING;

-- name: erased_ids
SELECT item_id FROM memoryfs.erased_items
WHERE tenant = %(tenant)s AND job_id = %(job_id)s AND item_id > %(after)s
ORDER BY item_id LIMIT %(limit)s;

-- name: forget_erased
DELETE FROM memoryfs.erased_items WHERE tenant = %(tenant)s AND job_id = %(job_id)s;

-- name: tables_of_items
-- Every table whose rows belong to an item; what a later release adds is among them.
SELECT c.relname AS name FROM pg_class AS c
WHERE c.relnamespace = 'memoryfs'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> 'erased_items'
    AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'item_id' AND NOT a.attisdropped)
    AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped)
    AND has_table_privilege(c.oid, 'DELETE')
ORDER BY c.relname = 'index_outbox', c.relname;

-- name: unlink_sources
-- Erased items were made from these; the lineage of what stays names them no longer.
UPDATE memoryfs.items SET superseded_by = ''
WHERE tenant = %(tenant)s AND superseded_by <> '' AND superseded_by IN (
    SELECT item_id FROM memoryfs.erased_items WHERE tenant = %(tenant)s AND job_id = %(job_id)s
);

-- name: unlink_revisions
UPDATE memoryfs.item_revisions AS r SET superseded_by = '', derived_from = ARRAY(
    SELECT d FROM unnest(r.derived_from) AS d WHERE NOT EXISTS (
        SELECT FROM memoryfs.erased_items AS e
        WHERE e.tenant = %(tenant)s AND e.job_id = %(job_id)s AND e.item_id = d
    )
)
WHERE r.tenant = %(tenant)s AND (r.superseded_by <> '' OR r.derived_from <> '{}') AND EXISTS (
    SELECT FROM memoryfs.erased_items AS e
    WHERE e.tenant = %(tenant)s AND e.job_id = %(job_id)s AND (e.item_id = r.superseded_by OR e.item_id = ANY (r.derived_from))
);

-- name: items_of_numbers
SELECT count(*) AS rows FROM memoryfs.items WHERE tenant = %(tenant)s AND owner = ANY (%(numbers)s::int4[]);

-- name: erase_old_revisions
-- Revisions that concerned the person, of items that no longer do.
WITH gone AS (
    DELETE FROM memoryfs.item_revisions
    WHERE tenant = %(tenant)s AND (owner = ANY (%(numbers)s::int4[]) OR user_label = %(user)s)
    RETURNING tenant, id, revision
), vectors AS (
    DELETE FROM memoryfs.revision_vectors AS v USING gone
    WHERE v.tenant = gone.tenant AND v.item_id = gone.id AND v.revision = gone.revision
)
SELECT count(*) AS rows FROM gone;

-- name: empty_answers_of_user
-- The row stays: a late retry of the request is refused by it and cannot do the work a second time.
UPDATE core.idempotency AS t SET response = ''::bytea
WHERE t.tenant = %(tenant)s AND t.response <> ''::bytea
    AND NOT (t.rpc = %(rpc)s AND t.principal = %(typed)s)
    AND (t.principal = %(typed)s OR starts_with(t.principal, %(agents)s) OR /*orphaned*/);

-- name: answers
SELECT principal, rpc, request_id, response FROM core.idempotency
WHERE tenant = %(tenant)s AND response <> ''::bytea
    AND (principal, rpc, request_id) > (%(principal)s, %(rpc)s, %(request_id)s)
ORDER BY principal, rpc, request_id
LIMIT %(limit)s;

-- name: empty_answers
UPDATE core.idempotency AS a SET response = ''::bytea
FROM unnest(%(principals)s::text[], %(rpcs)s::text[], %(request_ids)s::text[]) AS n (principal, rpc, request_id)
WHERE a.tenant = %(tenant)s AND a.principal = n.principal AND a.rpc = n.rpc AND a.request_id = n.request_id;

-- name: erase_session_facts
-- What the person's sessions have seen, and hashes of the words said in them; of every service.
DELETE FROM core.session_facts WHERE tenant = %(tenant)s AND user_name = %(user)s;

-- name: erase_jobs
-- Jobs that the person asked for, with what they were asked; the purge itself stays, under a pseudonym at its end.
WITH gone AS (
    DELETE FROM core.jobs
    WHERE tenant = %(tenant)s AND user_name = %(user)s AND id <> %(job_id)s AND kind <> %(kind)s
    RETURNING tenant, id
), due AS (
    DELETE FROM core.due_jobs AS d USING gone WHERE d.tenant = gone.tenant AND d.id = gone.id
)
SELECT count(*) AS rows FROM gone;

-- name: pseudonymise_jobs
UPDATE core.jobs SET user_name = %(pseudonym)s
WHERE tenant = %(tenant)s AND user_name = %(user)s AND kind = %(kind)s AND (id = %(job_id)s OR state > 2);

-- name: pseudonymise_principals
UPDATE memoryfs.principals SET name = %(pseudonym)s || '-' || id
WHERE tenant = %(tenant)s AND (name = %(typed)s OR starts_with(name, %(agents)s));

-- name: now
SELECT clock_timestamp() AS now, pg_current_xact_id()::text::int8 AS xid;

-- name: unsettled
-- Seconds until the database clock passes an instant and every transaction older than `xid` has ended; an instant at
-- least while one has not.
SELECT greatest(
    extract(epoch FROM %(until)s::timestamptz - clock_timestamp())::float8,
    CASE WHEN pg_snapshot_xmin(pg_current_snapshot())::text::int8 >= %(xid)s THEN 0 ELSE 0.001 END
) AS left_s;
