-- name: delete_older
-- Leaves an entry of a later revision alone.
DELETE FROM memoryfs.item_vectors AS kept
USING unnest(%(item_ids)s::text[], %(revisions)s::int8[]) AS offered (item_id, revision)
WHERE kept.tenant = %(tenant)s AND kept.model_id = %(model_id)s
    AND kept.item_id = offered.item_id AND kept.revision <= offered.revision;

-- name: insert
INSERT INTO memoryfs.item_vectors (tenant, item_id, revision, model_id, path_id, acl, tier, vec)
VALUES (%(tenant)s, %(item_id)s, %(revision)s, %(model_id)s, %(path_id)s, %(acl)s::int4[], %(tier)s, %(vec)s::halfvec);

-- name: insert_absent
INSERT INTO memoryfs.item_vectors (tenant, item_id, revision, model_id, path_id, acl, tier, vec)
SELECT %(tenant)s, %(item_id)s, %(revision)s, %(model_id)s, %(path_id)s, %(acl)s::int4[], %(tier)s, %(vec)s::halfvec
WHERE NOT EXISTS (
    SELECT 1 FROM memoryfs.item_vectors
    WHERE tenant = %(tenant)s AND item_id = %(item_id)s AND model_id = %(model_id)s
);

-- name: copy
COPY memoryfs.item_vectors (tenant, item_id, revision, model_id, path_id, acl, tier, vec) FROM STDIN (FORMAT binary);

-- name: delete
DELETE FROM memoryfs.item_vectors
WHERE tenant = %(tenant)s AND item_id = ANY (%(item_ids)s::text[]);

-- name: search
-- Answered by the covering index alone. /*conditions*/ is replaced by those that the query states.
-- One row of arrays: hundreds of rows cost more in the driver than in the server.
WITH compared AS MATERIALIZED (
    SELECT item_id, revision, 1 - (vec <=> %(vector)s::halfvec) AS score
    FROM memoryfs.item_vectors
    WHERE tenant = %(tenant)s
        AND model_id = %(model_id)s
        AND tier = ANY (%(tiers)s::int2[])
        AND acl && %(principal_ids)s::int4[] /*conditions*/
)
SELECT best.*, asked.*, whole.*
FROM (
    SELECT array_agg(item_id) AS ids, array_agg(revision) AS revisions, array_agg(score) AS scores
    FROM (SELECT item_id, revision, score FROM compared ORDER BY score DESC, item_id LIMIT %(limit)s) AS nearest
) AS best,
(
    SELECT array_agg(item_id) AS asked_ids, array_agg(score) AS asked_scores
    FROM compared WHERE item_id = ANY (%(score_ids)s::text[])
) AS asked,
(SELECT count(*) AS compared_count FROM compared) AS whole;

-- name: vectors
SELECT item_id, vec FROM memoryfs.item_vectors
WHERE tenant = %(tenant)s AND model_id = %(model_id)s AND item_id = ANY (%(item_ids)s::text[]);

-- name: ready_indexes
SELECT tenant, model_id FROM memoryfs.vector_indexes WHERE ready_time IS NOT NULL;

-- name: matching
-- How many hot entries in scope meet the conditions, as far as it matters.
SELECT count(*) AS matching FROM (
    SELECT 1 FROM memoryfs.item_vectors
    WHERE tenant = %(tenant)s AND model_id = %(model_id)s AND tier = 1
        AND acl && %(principal_ids)s::int4[] /*conditions*/
    LIMIT %(bound)s
) AS matched;

-- name: search_near
-- Answered by the tenant's own HNSW index; the asked ids by the primary key.
WITH near AS MATERIALIZED (
    SELECT item_id, revision, 1 - (vec::halfvec(/*dimensions*/) <=> %(vector)s::halfvec) AS score
    FROM memoryfs.item_vectors
    WHERE tenant = %(tenant)s AND model_id = %(model_id)s AND tier = 1
        AND acl && %(principal_ids)s::int4[] /*conditions*/
    ORDER BY vec::halfvec(/*dimensions*/) <=> %(vector)s::halfvec
    LIMIT %(limit)s
), asked AS MATERIALIZED (
    SELECT item_id, 1 - (vec <=> %(vector)s::halfvec) AS score
    FROM memoryfs.item_vectors
    WHERE tenant = %(tenant)s AND model_id = %(model_id)s AND tier = 1 AND item_id = ANY (%(score_ids)s::text[])
        AND acl && %(principal_ids)s::int4[] /*conditions*/
)
SELECT
    (SELECT array_agg(item_id) FROM near) AS ids,
    (SELECT array_agg(revision) FROM near) AS revisions,
    (SELECT array_agg(score) FROM near) AS scores,
    (SELECT array_agg(item_id) FROM asked) AS asked_ids,
    (SELECT array_agg(score) FROM asked) AS asked_scores;
