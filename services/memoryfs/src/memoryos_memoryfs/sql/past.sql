-- name: point
SELECT pg_current_snapshot()::text AS snapshot,
    ARRAY(
        SELECT id FROM memoryfs.items
        WHERE tenant = %(tenant)s
            AND path_id = ANY (%(path_ids)s::int4[])
            AND state IN (1, 2, 3)
            AND (state <> 1 OR owner = ANY ((SELECT memoryfs.reader_ids())::int4[]))
            AND sensitivity <= %(clearance)s
            AND (expire_time IS NULL OR expire_time > %(now)s)
        ORDER BY CASE WHEN %(by_user)s THEN user_label ELSE '' END, CASE WHEN %(by_user)s THEN owner END,
            CASE WHEN %(by_user)s THEN valid_from END, id
    ) AS ids;

-- name: past_items
-- The named items as a point saw them, by today's readers; with `history` also their revisions replaced before it.
SELECT /*item_columns*/, current
FROM (/*seen_at_point*/) AS seen
WHERE id = ANY (%(ids)s::text[]) AND (%(history)s OR NOT replaced);

-- name: readable_today
SELECT id FROM memoryfs.items
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]) AND state IN (1, 2, 3) AND sensitivity <= %(clearance)s;

-- name: insert_past
INSERT INTO memoryfs.item_revisions (
    tenant, id, path_id, sealed, event_key_hash, tags, owner, user_label, acl, sensitivity, trust, origin,
    confidence, importance, state, valid_from, valid_to, create_time, update_time, expire_time, tier, revision,
    etag, derived_from, superseded_by, embedding_model, embed_state, attributes, content_bytes, pinned, flags,
    corroboration_count, actor, cause, trace_id, replace_time
)
SELECT %(tenant)s, id, path_id, sealed, event_key_hash, tags::text[], owner, user_label, acl::int4[], sensitivity,
    trust, origin, confidence, importance, state, valid_from, valid_to, create_time, update_time, expire_time, tier,
    revision, etag, derived_from::text[], superseded_by, embedding_model, embed_state,
    attributes, content_bytes, pinned, flags, corroboration_count,
    %(actor)s, %(cause)s, %(trace_id)s, replace_time
FROM unnest(
    %(id)s::text[], %(path_id)s::int4[], %(sealed)b::bytea[], %(event_key_hash)b::bytea[], %(tags)s::text[],
    %(owner)s::int4[], %(user_label)s::text[], %(acl)s::text[], %(sensitivity)s::int2[], %(trust)s::int2[],
    %(origin)s::int2[], %(confidence)s::float8[], %(importance)s::float8[], %(state)s::int2[],
    %(valid_from)s::timestamptz[], %(valid_to)s::timestamptz[], %(create_time)s::timestamptz[],
    %(update_time)s::timestamptz[], %(expire_time)s::timestamptz[], %(tier)s::int2[], %(revision)s::int8[],
    %(etag)s::text[], %(derived_from)s::text[], %(superseded_by)s::text[], %(embedding_model)s::text[],
    %(embed_state)s::int2[], %(attributes)s::jsonb[], %(content_bytes)s::int4[], %(pinned)s::bool[],
    %(flags)s::int4[], %(corroboration_count)s::int4[], %(replace_time)s::timestamptz[]
) AS past (
    id, path_id, sealed, event_key_hash, tags, owner, user_label, acl, sensitivity, trust, origin, confidence,
    importance, state, valid_from, valid_to, create_time, update_time, expire_time, tier, revision, etag,
    derived_from, superseded_by, embedding_model, embed_state, attributes, content_bytes, pinned, flags,
    corroboration_count, replace_time
);

-- name: insert_past_vector
INSERT INTO memoryfs.revision_vectors (tenant, item_id, revision, model_id, vec)
VALUES (%(tenant)s, %(item_id)s, %(revision)s, %(model_id)s, %(vec)s::halfvec);
