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
