-- What reads ask of the truth (adapters/matching_ids.py). /*filter*/ is replaced by what adapters/sql_filters.py
-- makes of a filter; its parameters are f0, f1, …

-- name: matching_ids
-- By the truth: readable (row-level security), in one of these states, served now, below the clearance, under the filter.
SELECT id
FROM memoryfs.items
WHERE tenant = %(tenant)s
    AND path_id = ANY (%(path_ids)s::int4[])
    AND state = ANY (%(states)s::int2[])
    AND tier = ANY (%(tiers)s::int2[])
    AND (%(owner)s::int4 IS NULL OR owner = %(owner)s::int4)
    AND (expire_time IS NULL OR expire_time > %(now)s)
    AND sensitivity <= %(clearance)s
    AND (%(valid_at)s::timestamptz IS NULL
        OR (valid_from <= %(valid_at)s AND (valid_to IS NULL OR valid_to > %(valid_at)s)))
    AND /*filter*/
    AND (create_time, id) < (%(before_time)s, %(before_id)s)
ORDER BY create_time DESC, id DESC
LIMIT %(limit)s;

-- name: known_then
-- What was current at an instant, as it was: of items that are readable today (row-level security of items; that of
-- earlier revisions follows it while memoryos.known_then is on), neither forgotten then nor now. The revisions are
-- chosen first and read then, so that no payload is sorted.
WITH matching AS MATERIALIZED (
    SELECT past.id, past.revision, past.create_time, past.content_bytes
    FROM (
        SELECT id, revision, create_time, content_bytes
        FROM (
            SELECT id, revision, path_id, tags, owner, user_label, trust, origin, confidence, importance, state, pinned,
                attributes, valid_from, valid_to, create_time, update_time, expire_time, tier, content_bytes
            FROM memoryfs.items
            WHERE tenant = %(tenant)s AND path_id = ANY (%(path_ids)s::int4[]) AND update_time <= %(at)s
            UNION ALL
            SELECT id, revision, path_id, tags, owner, user_label, trust, origin, confidence, importance, state, pinned,
                attributes, valid_from, valid_to, create_time, update_time, expire_time, tier, content_bytes
            FROM memoryfs.item_revisions
            WHERE tenant = %(tenant)s AND path_id = ANY (%(path_ids)s::int4[])
                AND update_time <= %(at)s AND replace_time > %(at)s
        ) AS both_places
        WHERE state = ANY (%(states)s::int2[])
            AND tier = ANY (%(tiers)s::int2[])
            AND (expire_time IS NULL OR expire_time > %(at)s)
            AND (%(valid_at)s::timestamptz IS NULL
                OR (valid_from <= %(valid_at)s AND (valid_to IS NULL OR valid_to > %(valid_at)s)))
            AND /*filter*/
    ) AS past
    JOIN memoryfs.items AS today ON today.tenant = %(tenant)s AND today.id = past.id
    WHERE today.state <> 4
        AND today.sensitivity <= %(clearance)s
        AND (today.expire_time IS NULL OR today.expire_time > %(now)s)
        AND NOT EXISTS (
            SELECT 1 FROM memoryfs.item_changes AS c
            WHERE c.tenant = %(tenant)s AND c.item_id = past.id AND c.change_time <= %(at)s AND c.to_state = 4
                AND NOT EXISTS (
                    SELECT 1 FROM memoryfs.item_changes AS d
                    WHERE d.tenant = %(tenant)s AND d.item_id = c.item_id
                        AND d.change_time > c.change_time AND d.change_time <= %(at)s
                )
        )
), chosen AS MATERIALIZED (
    SELECT id, revision
    FROM (
        SELECT id, revision, create_time,
            sum(content_bytes) OVER (ORDER BY create_time DESC, id DESC) - content_bytes AS bytes_before
        FROM matching
    ) AS summed
    WHERE bytes_before < %(bytes_max)s
    ORDER BY create_time DESC, id DESC
    LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM matching) AS matching_count, /*item_columns*/
FROM (
    SELECT i.* FROM chosen JOIN (
        SELECT /*item_columns*/
        FROM memoryfs.items WHERE tenant = %(tenant)s
    ) AS i USING (id, revision)
    UNION ALL
    SELECT r.* FROM chosen JOIN (
        SELECT /*item_columns*/
        FROM memoryfs.item_revisions WHERE tenant = %(tenant)s
    ) AS r USING (id, revision)
) AS found
ORDER BY create_time DESC, id DESC;

-- name: uses
SELECT item_id, hits FROM memoryfs.item_access WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]);

-- name: vectors_anywhere
SELECT item_id, vec FROM memoryfs.item_vectors
WHERE tenant = %(tenant)s AND model_id = %(model_id)s AND item_id = ANY (%(ids)s::text[])
UNION ALL
SELECT item_id, vec FROM memoryfs.parked_vectors
WHERE tenant = %(tenant)s AND model_id = %(model_id)s AND item_id = ANY (%(ids)s::text[]);

-- name: inspected_then
-- The revisions that were current at an instant; forgotten_then tells that the item was forgotten at it.
SELECT past.*, coalesce((
        SELECT c.to_state = 4 FROM memoryfs.item_changes c
        WHERE c.tenant = %(tenant)s AND c.item_id = past.id AND c.change_time <= %(at)s
        ORDER BY c.change_time DESC LIMIT 1
    ), false) AS forgotten_then
FROM (
    SELECT /*item_columns*/
    FROM memoryfs.items
    WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) AND update_time <= %(at)s
    UNION ALL
    SELECT /*item_columns*/
    FROM memoryfs.item_revisions
    WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) AND update_time <= %(at)s AND replace_time > %(at)s
) AS past;
