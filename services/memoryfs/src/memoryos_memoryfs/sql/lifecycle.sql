-- name: claims_met
-- Who may say the same, and who speaks of the same event. Run under the locks of what is asked for.
SELECT signature, NULL::bytea AS event, item_id AS id FROM (
    SELECT signature, item_id FROM memoryfs.item_claims
    WHERE tenant = %(tenant)s AND signature = ANY (%(signatures)s::int8[])
    LIMIT %(limit)s
) AS claimed
UNION ALL
SELECT NULL, event_key_hash, id FROM (
    SELECT event_key_hash, id FROM memoryfs.items
    WHERE tenant = %(tenant)s AND event_key_hash = ANY (%(events)b::bytea[]) AND state IN (2, 3)
        AND owner = ANY (SELECT unnest(memoryfs.reader_ids()))
    ORDER BY valid_from DESC
    LIMIT %(limit)s
) AS spoken;

-- name: claims_said
-- The same where no event is asked for: rows of items, and whoever may see them, stay out of it.
SELECT signature, NULL::bytea AS event, item_id AS id FROM memoryfs.item_claims
WHERE tenant = %(tenant)s AND signature = ANY (%(signatures)s::int8[])
LIMIT %(limit)s;

-- name: note_claims
INSERT INTO memoryfs.item_claims (tenant, item_id, signature)
SELECT %(tenant)s, c.id, c.signature FROM unnest(%(ids)s::text[], %(signatures)s::int8[]) AS c (id, signature)
ON CONFLICT (tenant, item_id) DO UPDATE SET signature = excluded.signature;

-- name: evidence_of
SELECT source_hash FROM memoryfs.item_evidence WHERE tenant = %(tenant)s AND item_id = %(item_id)s;

-- name: note_evidence
INSERT INTO memoryfs.item_evidence (tenant, item_id, source_hash, actor)
SELECT %(tenant)s, %(item_id)s, h.hash, %(actor)s FROM unnest(%(hashes)b::bytea[]) AS h (hash)
ON CONFLICT DO NOTHING;

-- name: note_lives
INSERT INTO memoryfs.candidate_lives (tenant, item_id, expire_time)
SELECT %(tenant)s, l.id, l.expire_time FROM unnest(%(ids)s::text[], %(expire_times)s::timestamptz[]) AS l (id, expire_time)
ON CONFLICT (tenant, item_id) DO UPDATE SET expire_time = excluded.expire_time;

-- name: lives
SELECT item_id, expire_time FROM memoryfs.candidate_lives WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]);

-- name: end_lives
DELETE FROM memoryfs.candidate_lives WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]);

-- name: used_since
SELECT item_id FROM memoryfs.item_access
WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]) AND last_time >= %(since)s;

-- name: keep_reason
INSERT INTO memoryfs.change_reasons (tenant, item_id, revision, sealed)
VALUES (%(tenant)s, %(item_id)s, %(revision)s, %(sealed)b);

-- name: own_matching
-- What the caller owns and an earlier transaction's view of it showed. /*filter*/ as in reads.sql.
SELECT id, etag FROM memoryfs.items
WHERE tenant = %(tenant)s
    AND path_id = ANY (%(path_ids)s::int4[])
    AND owner = %(owner)s
    AND state IN (1, 2, 3)
    AND (expire_time IS NULL OR expire_time > %(now)s)
    AND sensitivity <= %(clearance)s
    AND pg_visible_in_snapshot(xid, %(view)s::pg_snapshot)
    AND /*filter*/
ORDER BY id;

-- name: current_view
SELECT pg_current_snapshot()::text AS view;
