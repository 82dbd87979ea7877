-- name: revisions_of
-- Revisions of one item, newest first, from a number down, current or replaced: those that the caller may read, each by
-- its own readers. made_state is the state in which it was made, from_state that of the one before.
SELECT r.*,
    coalesce((
        SELECT c.from_state FROM memoryfs.item_changes c
        WHERE c.tenant = %(tenant)s AND c.item_id = r.id AND c.revision = r.revision ORDER BY c.change_time LIMIT 1
    ), r.state) AS made_state,
    (
        SELECT b.state FROM memoryfs.item_revisions b
        WHERE b.tenant = %(tenant)s AND b.id = r.id AND b.revision = r.revision - 1
    ) AS from_state
FROM (
    SELECT /*item_columns*/, actor, cause, trace_id
    FROM memoryfs.items WHERE tenant = %(tenant)s AND id = %(id)s AND revision <= %(revision)s
    UNION ALL
    SELECT /*item_columns*/, actor, cause, trace_id
    FROM memoryfs.item_revisions WHERE tenant = %(tenant)s AND id = %(id)s AND revision <= %(revision)s
) AS r
ORDER BY r.revision DESC
LIMIT %(limit)s;

-- name: state_changes_of
SELECT revision, change_time, from_state, to_state, actor, cause, trace_id
FROM memoryfs.item_changes
WHERE tenant = %(tenant)s AND item_id = %(id)s AND (revision, change_time) < (%(revision)s, %(time)s)
ORDER BY revision DESC, change_time DESC
LIMIT %(limit)s;

-- name: find_revisions
SELECT /*item_columns*/
FROM memoryfs.item_revisions
JOIN unnest(%(ids)s::text[], %(revisions)s::int8[]) AS asked (item_id, number) ON id = item_id AND revision = number
WHERE tenant = %(tenant)s;

-- name: vectors_of_revisions
SELECT item_id, vec
FROM memoryfs.revision_vectors
JOIN unnest(%(ids)s::text[], %(revisions)s::int8[]) AS asked (id, number) ON item_id = id AND revision = number
WHERE tenant = %(tenant)s AND model_id = %(model_id)s;

-- name: touched_since
-- Items of a subtree, by their place now or at the point, that were made or changed since it; those the caller reads.
SELECT DISTINCT t.id FROM (
    SELECT i.id, i.path_id FROM memoryfs.items i
    WHERE i.tenant = %(tenant)s AND i.xid >= pg_snapshot_xmin(%(point)s::pg_snapshot)
        AND NOT pg_visible_in_snapshot(i.xid, %(point)s::pg_snapshot)
    UNION ALL
    SELECT r.id, r.path_id FROM memoryfs.item_revisions r
    WHERE r.tenant = %(tenant)s AND r.replace_xid >= pg_snapshot_xmin(%(point)s::pg_snapshot)
        AND NOT pg_visible_in_snapshot(r.replace_xid, %(point)s::pg_snapshot)
        AND pg_visible_in_snapshot(r.xid, %(point)s::pg_snapshot)
    UNION ALL
    SELECT c.item_id, i.path_id FROM memoryfs.item_changes c
    JOIN memoryfs.items i ON i.tenant = c.tenant AND i.id = c.item_id
    WHERE c.tenant = %(tenant)s AND c.xid >= pg_snapshot_xmin(%(point)s::pg_snapshot)
        AND NOT pg_visible_in_snapshot(c.xid, %(point)s::pg_snapshot)
) AS t
WHERE t.path_id = ANY (%(path_ids)s::int4[]) AND t.id > %(after)s
    -- Row-level security hides these from a reader; whoever reaches the whole tenant must pass them over, too.
    AND NOT EXISTS (SELECT FROM memoryfs.frozen_items f WHERE f.tenant = %(tenant)s AND f.item_id = t.id)
ORDER BY t.id
LIMIT %(limit)s;

-- name: marks_since
SELECT m.* FROM (
    SELECT i.id, i.revision, i.update_time AS at, i.actor, i.cause, NULL::int2 AS from_state, NULL::int2 AS to_state
    FROM memoryfs.items i
    WHERE i.tenant = %(tenant)s AND i.id = ANY (%(ids)s::text[])
        AND NOT pg_visible_in_snapshot(i.xid, %(point)s::pg_snapshot)
    UNION ALL
    SELECT r.id, r.revision, r.update_time, r.actor, r.cause, NULL, NULL
    FROM memoryfs.item_revisions r
    WHERE r.tenant = %(tenant)s AND r.id = ANY (%(ids)s::text[])
        AND NOT pg_visible_in_snapshot(r.xid, %(point)s::pg_snapshot)
    UNION ALL
    SELECT c.item_id, c.revision, c.change_time, c.actor, c.cause, c.from_state, c.to_state
    FROM memoryfs.item_changes c
    WHERE c.tenant = %(tenant)s AND c.item_id = ANY (%(ids)s::text[])
        AND NOT pg_visible_in_snapshot(c.xid, %(point)s::pg_snapshot)
) AS m
ORDER BY m.id, m.revision, m.from_state IS NOT NULL, m.at;

-- name: note_tiers
-- A change of tier stands as a change of state to the same state.
INSERT INTO memoryfs.item_changes
    (tenant, item_id, change_time, from_state, to_state, actor, cause, trace_id, revision)
SELECT tenant, id, clock_timestamp(), state, state, %(actor)s, %(cause)s, %(trace_id)s, revision
FROM memoryfs.items WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]);

-- name: own_xid
SELECT pg_current_xact_id()::text;

-- name: lineage_around
-- What the asked items were made from or replaced by, and what was made from them or replaced by them.
SELECT i.id FROM memoryfs.items i
WHERE i.tenant = %(tenant)s
    AND (
        i.id = ANY (%(named)s::text[])
        OR (i.derived_from <> '{}' AND i.derived_from && %(ids)s::text[])
        OR (i.superseded_by <> '' AND i.superseded_by = ANY (%(ids)s::text[]))
    )
ORDER BY i.id
LIMIT %(limit)s;

-- name: places_below
SELECT id FROM memoryfs.paths WHERE tenant = %(tenant)s AND key >= %(start)s AND key < %(end)s;

-- name: count_by_place
-- A point, and how many items were where at it, in one statement. owner null: of every owner.
SELECT pg_current_snapshot()::text AS point, clock_timestamp() AS now, (
    SELECT coalesce(jsonb_object_agg(path_id, number), '{}') FROM (
        SELECT path_id, count(*) AS number FROM memoryfs.items
        WHERE tenant = %(tenant)s AND path_id = ANY (%(path_ids)s::int4[])
            AND (%(owner)s::int4 IS NULL OR owner = %(owner)s::int4)
        GROUP BY path_id
    ) AS counted
) AS counts;

-- name: count_survivors
SELECT count(*) FROM (/*seen_at_point*/) AS seen
WHERE path_id = ANY (%(path_ids)s::int4[]) AND NOT replaced
    AND (%(owner)s::int4 IS NULL OR owner = %(owner)s::int4);

-- name: lock_snapshots
SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 12));

-- name: insert_snapshot
INSERT INTO memoryfs.snapshots
    (tenant, id, path_key, sealed, channel, point, create_time, actor, owner, whole, item_counts)
VALUES (%(tenant)s, %(id)s, %(path_key)s, %(sealed)s, %(channel)s, %(point)s, %(create_time)s, %(actor)s, %(owner)s,
    %(whole)s, %(item_counts)s::jsonb);

-- name: drop_old_snapshots
DELETE FROM memoryfs.snapshots WHERE tenant = %(tenant)s AND id IN (
    SELECT id FROM memoryfs.snapshots
    WHERE tenant = %(tenant)s AND path_key = %(path_key)s AND channel = %(channel)s AND owner = %(owner)s
    ORDER BY create_time DESC, id DESC
    OFFSET %(kept)s
)
RETURNING id;

-- name: find_snapshot
SELECT id, sealed, channel, point, create_time, actor, owner, whole, item_counts
FROM memoryfs.snapshots WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: list_snapshots
-- Of a subtree, of those below it and of those that hold it.
SELECT id, sealed, channel, point, create_time, actor, owner, whole, item_counts
FROM memoryfs.snapshots
WHERE tenant = %(tenant)s
    AND ((path_key >= %(start)s AND path_key < %(end)s) OR path_key = ANY (%(ancestors)s::bytea[]))
    AND (%(channel)s = '' OR channel = %(channel)s)
    AND (create_time, id) < (%(before_time)s, %(before_id)s)
ORDER BY create_time DESC, id DESC
LIMIT %(limit)s;

-- name: family
-- Everything that was made from the asked items, directly or not (`made`), and what these and the asked ones were made
-- from. Asked with the reach of upkeep. The index holds derived items only: it serves where the condition says so.
WITH RECURSIVE made (id) AS (
    SELECT i.id FROM memoryfs.items i
    WHERE i.tenant = %(tenant)s AND i.derived_from <> '{}' AND i.derived_from && %(ids)s::text[]
    UNION
    SELECT i.id FROM made m
    JOIN memoryfs.items i ON i.tenant = %(tenant)s AND i.derived_from <> '{}' AND i.derived_from @> ARRAY[m.id]
)
SELECT id, true AS made FROM made
UNION ALL
SELECT unnest(i.derived_from), false FROM memoryfs.items i
WHERE i.tenant = %(tenant)s AND i.id = ANY (%(ids)s::text[] || ARRAY(SELECT id FROM made)) AND i.derived_from <> '{}';

-- name: derived_directly
SELECT i.id FROM memoryfs.items i
WHERE i.tenant = %(tenant)s AND i.derived_from <> '{}' AND i.derived_from && %(ids)s::text[]
ORDER BY i.id;

-- name: seen_by
-- Those of the items whose revision a point had seen.
SELECT id FROM memoryfs.items
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) AND pg_visible_in_snapshot(xid, %(point)s::pg_snapshot);

-- name: parents_among
SELECT DISTINCT source.id FROM memoryfs.items i, unnest(i.derived_from) AS source (id)
WHERE i.tenant = %(tenant)s AND i.derived_from <> '{}' AND i.derived_from && %(ids)s::text[]
    AND source.id = ANY (%(ids)s::text[]);

-- name: lock_rows
SELECT id FROM memoryfs.items WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) ORDER BY id FOR UPDATE;

-- name: replacements
-- What items replaced and what replaced them; nothing is opened for it, the key may be gone.
SELECT id, state, derived_from::text[] AS derived_from, superseded_by, valid_to FROM memoryfs.items
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[])
ORDER BY id;

-- name: source_states
-- Sources of derived items: their state, whoever may read them; one that is erased is absent.
SELECT id, state FROM memoryfs.items WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]);

-- name: withdrawn
-- Items that were forgotten because of a source, last of all that became of them.
SELECT i.id FROM memoryfs.items i
CROSS JOIN LATERAL (
    SELECT c.cause FROM memoryfs.item_changes c WHERE c.tenant = i.tenant AND c.item_id = i.id
    ORDER BY c.change_time DESC LIMIT 1
) AS last
WHERE i.tenant = %(tenant)s AND i.id = ANY (%(ids)s::text[]) AND last.cause = 17;
