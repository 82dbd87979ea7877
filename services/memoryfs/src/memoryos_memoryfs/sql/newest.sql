-- The newest items without a query, by the index of words and order alone (adapters/newest_ids.py).

-- name: among_recent
-- Those of the tenant's newest rows that the reader may see. looked_at tells whether there are older rows.
WITH recent AS MATERIALIZED (
    SELECT item_id, create_time, acl, path_id
    FROM memoryfs.item_tokens
    WHERE tenant = %(tenant)s AND (create_time, item_id) < (%(before_time)s, %(before_id)s)
    ORDER BY create_time DESC, item_id DESC
    LIMIT %(looked_at_max)s
)
SELECT item_id, create_time, (SELECT count(*) FROM recent) AS looked_at
FROM recent
WHERE acl && %(reader_ids)s::int4[] AND path_id = ANY (%(path_ids)s::int4[])
ORDER BY create_time DESC, item_id DESC
LIMIT %(limit)s;

-- name: own
-- acl[1] is the owner.
SELECT newest.item_id, newest.create_time
FROM unnest(%(reader_ids)s::int4[]) AS reader (id) CROSS JOIN LATERAL (
    SELECT item_id, create_time
    FROM memoryfs.item_tokens
    WHERE tenant = %(tenant)s AND acl[1] = reader.id
        AND path_id = ANY (%(path_ids)s::int4[])
        AND (create_time, item_id) < (%(before_time)s, %(before_id)s)
    ORDER BY create_time DESC, item_id DESC
    LIMIT %(limit)s
) AS newest
ORDER BY create_time DESC, item_id DESC
LIMIT %(limit)s;

-- name: shared
WITH shared AS MATERIALIZED (
    SELECT item_id, create_time
    FROM memoryfs.item_tokens
    WHERE tenant = %(tenant)s AND acl && %(reader_ids)s::int4[] AND cardinality(acl) > 1
        AND path_id = ANY (%(path_ids)s::int4[])
        AND (create_time, item_id) < (%(before_time)s, %(before_id)s)
)
SELECT item_id, create_time FROM shared ORDER BY create_time DESC, item_id DESC LIMIT %(limit)s;
