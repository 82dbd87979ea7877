-- name: neighbours
-- The nearest readable item before and after each of those named, in the same session, by the same owner, at the same
-- place. The truth (under row-level security) says whether it may count: active, served now, below the clearance.
SELECT own.item_id, beside.item_id AS beside_id
FROM memoryfs.item_tokens AS own
CROSS JOIN LATERAL (
    (
        SELECT t.item_id FROM memoryfs.item_tokens AS t
        WHERE t.tenant = %(tenant)s AND t.session_hash = own.session_hash AND t.session_hash <> 0
            AND t.path_id = own.path_id
            AND (t.create_time, t.item_id) < (own.create_time, own.item_id)
            AND t.acl && %(reader_ids)s::int4[]
        ORDER BY t.create_time DESC, t.item_id DESC
        LIMIT 1
    )
    UNION ALL
    (
        SELECT t.item_id FROM memoryfs.item_tokens AS t
        WHERE t.tenant = %(tenant)s AND t.session_hash = own.session_hash AND t.session_hash <> 0
            AND t.path_id = own.path_id
            AND (t.create_time, t.item_id) > (own.create_time, own.item_id)
            AND t.acl && %(reader_ids)s::int4[]
        ORDER BY t.create_time, t.item_id
        LIMIT 1
    )
) AS beside
JOIN memoryfs.items AS i ON i.tenant = %(tenant)s AND i.id = beside.item_id
WHERE own.tenant = %(tenant)s
    AND own.item_id = ANY (%(ids)s::text[])
    AND own.session_hash <> 0
    AND i.state = %(state)s
    AND i.sensitivity <= %(clearance)s
    AND (i.expire_time IS NULL OR i.expire_time > %(now)s);
