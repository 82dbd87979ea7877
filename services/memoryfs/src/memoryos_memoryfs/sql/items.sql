-- name: intern_principals
INSERT INTO memoryfs.principals (tenant, name)
SELECT %(tenant)s, name FROM unnest(%(names)s::text[]) AS wanted (name) ORDER BY name
ON CONFLICT (tenant, name) DO NOTHING;

-- name: principals_by_name
SELECT id, name FROM memoryfs.principals WHERE tenant = %(tenant)s AND name = ANY (%(names)s::text[]);

-- name: principals_by_id
SELECT id, name FROM memoryfs.principals WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::int4[]);

-- name: intern_path
INSERT INTO memoryfs.paths (tenant, key) VALUES (%(tenant)s, %(key)s) ON CONFLICT (tenant, key) DO NOTHING;

-- name: path_by_key
SELECT id FROM memoryfs.paths WHERE tenant = %(tenant)s AND key = %(key)s;

-- name: place
-- The caller's numbers, the places at or below some paths, and whether an item there still lacks its vector.
WITH places AS MATERIALIZED (
    SELECT DISTINCT p.id
    FROM unnest(%(starts)b::bytea[], %(ends)b::bytea[]) AS below (first_key, end_key)
    JOIN memoryfs.paths p ON p.tenant = %(tenant)s AND p.key >= below.first_key AND p.key < below.end_key
)
SELECT memoryfs.reader_ids() AS reader_ids,
    ARRAY(SELECT id FROM places) AS path_ids,
    EXISTS (
        SELECT 1 FROM memoryfs.items
        WHERE tenant = %(tenant)s AND embed_state = 2 AND state = 2 AND path_id = ANY (ARRAY(SELECT id FROM places))
    ) AS pending;

-- name: insert_item
INSERT INTO memoryfs.items (
    tenant, id, path_id, sealed, event_key_hash, tags, owner, user_label, acl, sensitivity, trust, origin,
    confidence, importance, state, valid_from, valid_to, create_time, update_time, expire_time, tier, revision,
    etag, derived_from, superseded_by, embedding_model, embed_state, attributes, content_bytes, pinned, flags,
    corroboration_count, actor, cause, trace_id
)
VALUES (
    %(tenant)s, %(id)s, %(path_id)s, %(sealed)b, %(event_key_hash)b, %(tags)s::text[], %(owner)s, %(user_label)s,
    %(acl)s::int4[], %(sensitivity)s, %(trust)s, %(origin)s, %(confidence)s, %(importance)s, %(state)s,
    %(valid_from)s, %(valid_to)s, %(create_time)s, %(update_time)s, %(expire_time)s, %(tier)s, %(revision)s,
    %(etag)s, %(derived_from)s::text[], %(superseded_by)s, %(embedding_model)s, %(embed_state)s,
    %(attributes)s::jsonb, %(content_bytes)s, %(pinned)s, %(flags)s, %(corroboration_count)s,
    %(actor)s, %(cause)s, %(trace_id)s
);

-- name: insert_items
INSERT INTO memoryfs.items (
    tenant, id, path_id, sealed, event_key_hash, tags, owner, user_label, acl, sensitivity, trust, origin,
    confidence, importance, state, valid_from, valid_to, create_time, update_time, expire_time, tier, revision,
    etag, derived_from, superseded_by, embedding_model, embed_state, attributes, content_bytes, pinned, flags,
    corroboration_count, actor, cause, trace_id
)
SELECT %(tenant)s, id, path_id, sealed, event_key_hash, tags::text[], owner, user_label, acl::int4[], sensitivity,
    fresh.trust, origin, confidence, importance, state, valid_from, valid_to, create_time, update_time, expire_time,
    tier, revision, etag, derived_from::text[], superseded_by, embedding_model, embed_state,
    attributes, content_bytes, pinned, flags, corroboration_count,
    %(actor)s, %(cause)s, %(trace_id)s
FROM unnest(
    %(id)s::text[], %(path_id)s::int4[], %(sealed)b::bytea[], %(event_key_hash)b::bytea[], %(tags)s::text[],
    %(owner)s::int4[], %(user_label)s::text[], %(acl)s::text[], %(sensitivity)s::int2[], %(trust)s::int2[],
    %(origin)s::int2[], %(confidence)s::float8[], %(importance)s::float8[], %(state)s::int2[],
    %(valid_from)s::timestamptz[], %(valid_to)s::timestamptz[], %(create_time)s::timestamptz[],
    %(update_time)s::timestamptz[], %(expire_time)s::timestamptz[], %(tier)s::int2[], %(revision)s::int8[],
    %(etag)s::text[], %(derived_from)s::text[], %(superseded_by)s::text[], %(embedding_model)s::text[],
    %(embed_state)s::int2[], %(attributes)s::jsonb[], %(content_bytes)s::int4[], %(pinned)s::bool[],
    %(flags)s::int4[], %(corroboration_count)s::int4[]
) AS fresh (
    id, path_id, sealed, event_key_hash, tags, owner, user_label, acl, sensitivity, trust, origin, confidence,
    importance, state, valid_from, valid_to, create_time, update_time, expire_time, tier, revision, etag,
    derived_from, superseded_by, embedding_model, embed_state, attributes, content_bytes, pinned, flags,
    corroboration_count
);

-- name: keep_revisions
INSERT INTO memoryfs.item_revisions (
    tenant, id, path_id, sealed, event_key_hash, tags, owner, user_label, acl, sensitivity, trust, origin, confidence,
    importance, state, forgotten_from, valid_from, valid_to, create_time, update_time, expire_time, tier, revision, etag,
    derived_from, superseded_by, embedding_model, embed_state, actor, cause, trace_id, attributes, content_bytes, pinned,
    flags, corroboration_count, xid, replace_time
)
SELECT tenant, id, path_id, sealed, event_key_hash, tags, owner, user_label, acl, sensitivity, trust, origin, confidence,
    importance, state, forgotten_from, valid_from, valid_to, create_time, update_time, expire_time, tier, revision, etag,
    derived_from, superseded_by, embedding_model, embed_state, actor, cause, trace_id, attributes, content_bytes, pinned,
    flags, corroboration_count, xid, %(now)s
FROM memoryfs.items WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]);

-- name: update_items
UPDATE memoryfs.items AS i SET
    path_id = n.path_id, owner = n.owner, tier = n.tier, create_time = n.create_time,
    derived_from = n.derived_from::text[], superseded_by = n.superseded_by, attributes = n.attributes,
    content_bytes = n.content_bytes, pinned = n.pinned, flags = n.flags,
    corroboration_count = n.corroboration_count, forgotten_from = CASE WHEN n.state = 4 THEN i.forgotten_from END,
    xid = pg_current_xact_id(),
    sealed = n.sealed, event_key_hash = n.event_key_hash, tags = n.tags::text[], user_label = n.user_label,
    acl = n.acl::int4[], sensitivity = n.sensitivity, trust = n.trust, origin = n.origin, confidence = n.confidence,
    importance = n.importance, state = n.state, valid_from = n.valid_from, valid_to = n.valid_to,
    update_time = n.update_time, expire_time = n.expire_time, revision = n.revision, etag = n.etag,
    embedding_model = n.embedding_model, embed_state = n.embed_state,
    actor = %(actor)s, cause = %(cause)s, trace_id = %(trace_id)s
FROM unnest(
    %(id)s::text[], %(sealed)b::bytea[], %(event_key_hash)b::bytea[], %(tags)s::text[], %(user_label)s::text[],
    %(acl)s::text[], %(sensitivity)s::int2[], %(trust)s::int2[], %(origin)s::int2[], %(confidence)s::float8[],
    %(importance)s::float8[], %(state)s::int2[], %(valid_from)s::timestamptz[], %(valid_to)s::timestamptz[],
    %(update_time)s::timestamptz[], %(expire_time)s::timestamptz[], %(revision)s::int8[], %(etag)s::text[],
    %(embedding_model)s::text[], %(embed_state)s::int2[], %(path_id)s::int4[], %(owner)s::int4[], %(tier)s::int2[],
    %(create_time)s::timestamptz[], %(derived_from)s::text[], %(superseded_by)s::text[], %(attributes)s::jsonb[],
    %(content_bytes)s::int4[], %(pinned)s::bool[], %(flags)s::int4[], %(corroboration_count)s::int4[]
) AS n (
    id, sealed, event_key_hash, tags, user_label, acl, sensitivity, trust, origin, confidence, importance, state,
    valid_from, valid_to, update_time, expire_time, revision, etag, embedding_model, embed_state, path_id, owner, tier,
    create_time, derived_from, superseded_by, attributes, content_bytes, pinned, flags, corroboration_count
)
WHERE i.tenant = %(tenant)s AND i.id = n.id;

-- name: find_items
SELECT /*item_columns*/
FROM memoryfs.items
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]);

-- name: lock_items
SELECT /*item_columns*/
FROM memoryfs.items
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[])
ORDER BY id
FOR UPDATE;

-- name: forget_items
UPDATE memoryfs.items SET forgotten_from = state, state = 4
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]);

-- name: restore_items
UPDATE memoryfs.items SET state = forgotten_from, forgotten_from = NULL
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]);

-- name: keep_forgotten
-- Of revisions that are made forgotten: what they would come back to.
UPDATE memoryfs.items AS i SET forgotten_from = f.state
FROM unnest(%(ids)s::text[], %(states)s::int2[]) AS f (id, state)
WHERE i.tenant = %(tenant)s AND i.id = f.id AND i.state = 4;

-- name: note_changes
INSERT INTO memoryfs.item_changes
    (tenant, item_id, change_time, from_state, to_state, actor, cause, trace_id, revision)
SELECT %(tenant)s, c.id, clock_timestamp(), c.from_state, c.to_state, %(actor)s, %(cause)s, %(trace_id)s, i.revision
FROM unnest(%(ids)s::text[], %(from_states)s::int2[], %(to_states)s::int2[]) AS c (id, from_state, to_state)
JOIN memoryfs.items i ON i.tenant = %(tenant)s AND i.id = c.id;

-- name: copy_tokens
COPY memoryfs.item_tokens (tenant, item_id, path_id, acl, create_time, expire_time, hashes, words, length,
    session_hash)
FROM STDIN (FORMAT binary);

-- name: insert_tokens
INSERT INTO memoryfs.item_tokens (tenant, item_id, path_id, acl, create_time, expire_time, hashes, words, length,
    session_hash)
VALUES (%(tenant)s, %(item_id)s, %(path_id)s, %(acl)s::int4[], %(create_time)s, %(expire_time)s, %(hashes)s::int8[],
    %(words)b, %(length)s, %(session_hash)s);

-- name: delete_tokens
WITH cold AS (DELETE FROM memoryfs.cold_tokens WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]))
DELETE FROM memoryfs.item_tokens WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]);

-- name: park_vectors
INSERT INTO memoryfs.parked_vectors (tenant, item_id, model_id, vec)
SELECT tenant, item_id, model_id, vec FROM memoryfs.item_vectors
WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[])
ON CONFLICT (tenant, item_id, model_id) DO UPDATE SET vec = excluded.vec;

-- name: park_vector
INSERT INTO memoryfs.parked_vectors (tenant, item_id, model_id, vec)
VALUES (%(tenant)s, %(item_id)s, %(model_id)s, %(vec)s::halfvec)
ON CONFLICT (tenant, item_id, model_id) DO UPDATE SET vec = excluded.vec;

-- name: parked_vectors
SELECT item_id, vec FROM memoryfs.parked_vectors
WHERE tenant = %(tenant)s AND model_id = %(model_id)s AND item_id = ANY (%(ids)s::text[]);

-- name: unpark_vectors
DELETE FROM memoryfs.parked_vectors WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]);

-- name: lexical
-- The packed words (adapters/word_counts.py) of every candidate that holds an asked one, and how many candidates of which
-- length there are in all; as one row, since hundreds of rows cost more in the driver than in the server.
SELECT held.*, whole.*
FROM (
    SELECT array_agg(item_id) AS ids, array_agg(length) AS lengths, array_agg(octet_length(words)) AS sizes,
        string_agg(words, '') AS words
    FROM (
        SELECT item_id, length,
            CASE WHEN octet_length(words) <= %(whole_bytes_max)s THEN words ELSE (
                SELECT coalesce(string_agg(substring(words FROM 10 * found.place - 9 FOR 10), ''), '')
                FROM (
                    SELECT array_position(hashes, word.asked) AS place FROM unnest(%(hashes)s::int8[]) AS word (asked)
                ) AS found
                WHERE found.place IS NOT NULL
            ) END AS words
        FROM memoryfs.item_tokens
        WHERE tenant = %(tenant)s
            AND hashes && %(hashes)s::int8[]
            AND acl && %(reader_ids)s::int4[]
            AND path_id = ANY (%(path_ids)s::int4[])/*conditions*/
        LIMIT %(limit)s
    ) AS matched
) AS held,
(
    SELECT count(*) AS item_count, coalesce(avg(length), 1)::float8 AS length_mean
    FROM memoryfs.item_tokens
    WHERE tenant = %(tenant)s AND acl && %(reader_ids)s::int4[] AND path_id = ANY (%(path_ids)s::int4[])/*conditions*/
) AS whole;

-- name: lexical_frequencies
SELECT held.hash, count(*) AS frequency
FROM memoryfs.item_tokens, unnest(hashes) AS held (hash)
WHERE tenant = %(tenant)s
    AND held.hash = ANY (%(hashes)s::int8[])
    AND hashes && %(hashes)s::int8[]
    AND acl && %(reader_ids)s::int4[]
    AND path_id = ANY (%(path_ids)s::int4[])/*conditions*/
GROUP BY held.hash;

-- name: enqueue_embeds
INSERT INTO memoryfs.item_embeds (tenant, item_id, owner, due_time)
SELECT %(tenant)s, e.id, e.owner, clock_timestamp() FROM unnest(%(ids)s::text[], %(owners)s::text[]) AS e (id, owner)
ON CONFLICT (tenant, item_id) DO UPDATE
    SET attempts = 0, due_time = excluded.due_time, failed_time = NULL, last_reason = '';

-- name: dequeue_embeds
DELETE FROM memoryfs.item_embeds WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[]);

-- name: due_embeds
SELECT tenant, item_id, owner, attempts FROM memoryfs.item_embeds
WHERE failed_time IS NULL AND due_time <= clock_timestamp()
ORDER BY due_time
LIMIT %(limit)s;

-- name: put_off_embeds
UPDATE memoryfs.item_embeds SET
    attempts = attempts + 1,
    last_reason = %(reason)s,
    due_time = clock_timestamp() + make_interval(secs => %(delay_s)s * power(2, least(attempts, 10))),
    failed_time = CASE WHEN attempts + 1 >= %(attempts_max)s THEN clock_timestamp() END
WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[])
RETURNING failed_time IS NOT NULL AS failed;

-- name: embedded_items
UPDATE memoryfs.items SET embed_state = 1, embedding_model = %(model_id)s
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]);

-- name: wait_for_vectors
UPDATE memoryfs.items SET embed_state = 2, embedding_model = ''
WHERE tenant = %(tenant)s AND id = ANY (%(ids)s::text[]);

-- name: sweep_expired
-- An update that lets an item live longer replaces its row, which this statement then no longer finds.
WITH hot AS (
    DELETE FROM memoryfs.item_tokens WHERE (tenant, item_id) IN (
        SELECT tenant, item_id FROM memoryfs.item_tokens WHERE expire_time <= %(now)s LIMIT %(limit)s
    ) AND expire_time <= %(now)s
    RETURNING tenant, item_id
), cold AS (
    DELETE FROM memoryfs.cold_tokens WHERE (tenant, item_id) IN (
        SELECT tenant, item_id FROM memoryfs.cold_tokens WHERE expire_time <= %(now)s LIMIT %(limit)s
    ) AND expire_time <= %(now)s
    RETURNING tenant, item_id
)
SELECT tenant, item_id FROM hot UNION ALL SELECT tenant, item_id FROM cold;

-- name: access_of
SELECT hits, last_time FROM memoryfs.item_access WHERE tenant = %(tenant)s AND item_id = %(item_id)s;

-- name: note_access
-- Of items that are there: what was counted for one that was purged meanwhile does not come back.
INSERT INTO memoryfs.item_access (tenant, item_id, hits, last_time)
SELECT %(tenant)s, a.id, a.hits, clock_timestamp() FROM unnest(%(ids)s::text[], %(hits)s::int8[]) AS a (id, hits)
WHERE EXISTS (SELECT FROM memoryfs.items AS i WHERE i.tenant = %(tenant)s AND i.id = a.id)
ORDER BY a.id
ON CONFLICT (tenant, item_id) DO UPDATE
    SET hits = memoryfs.item_access.hits + excluded.hits, last_time = excluded.last_time;

-- name: keep_vectors
-- Before an update takes them away; `revision` is that of the row which is replaced.
INSERT INTO memoryfs.revision_vectors (tenant, item_id, revision, model_id, vec)
SELECT i.tenant, i.id, i.revision, v.model_id, v.vec
FROM memoryfs.items i
JOIN (
    SELECT tenant, item_id, model_id, vec FROM memoryfs.item_vectors
    WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[])
    UNION ALL
    SELECT tenant, item_id, model_id, vec FROM memoryfs.parked_vectors
    WHERE tenant = %(tenant)s AND item_id = ANY (%(ids)s::text[])
) v ON v.tenant = i.tenant AND v.item_id = i.id
WHERE i.tenant = %(tenant)s AND i.id = ANY (%(ids)s::text[])
ON CONFLICT (tenant, item_id, revision, model_id) DO NOTHING;

-- name: revision_vectors
SELECT item_id, revision, vec FROM memoryfs.revision_vectors
WHERE tenant = %(tenant)s AND model_id = %(model_id)s AND item_id = ANY (%(ids)s::text[]);
