-- name: feed_horizon
-- Every transaction below it has ended: nothing can be committed behind a position there.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon;

-- name: feed_revisions
-- Revisions below the horizon after a position, current or replaced. Row-level security shows those whose own
-- readers the caller is among; `now_*` is the current row, absent when the caller may not read the item any more,
-- `before_*` the revision before, absent when there is none or the caller could not read it.
SELECT r.*, now.sensitivity AS now_sensitivity, now.state AS now_state, now.path_id AS now_path_id,
    before.state AS before_state, before.sensitivity AS before_sensitivity, before.path_id AS before_path_id
FROM (
    SELECT tenant, xid, path_id, /*item_columns*/, cause, actor, trace_id
    FROM memoryfs.items
    WHERE tenant = %(tenant)s AND xid >= %(from_xid)s::xid8 AND xid < %(horizon)s::xid8
    UNION ALL
    SELECT tenant, xid, path_id, /*item_columns*/, cause, actor, trace_id
    FROM memoryfs.item_revisions
    WHERE tenant = %(tenant)s AND xid >= %(from_xid)s::xid8 AND xid < %(horizon)s::xid8
) AS r
LEFT JOIN memoryfs.items AS now ON now.tenant = r.tenant AND now.id = r.id
LEFT JOIN memoryfs.item_revisions AS before
    ON before.tenant = r.tenant AND before.id = r.id AND before.revision = r.revision - 1
WHERE (r.xid, r.id) >= (%(from_xid)s::xid8, %(from_id)s)
    AND (r.path_id = ANY (%(path_ids)s::int4[]) OR before.path_id = ANY (%(path_ids)s::int4[]))
ORDER BY r.xid, r.id
LIMIT %(limit)s;

-- name: feed_losses
-- Replaced revisions that the caller could read and whose successor it may not: for the caller the item is gone.
SELECT r.replace_xid AS xid, r.id, r.revision + 1 AS revision, r.state, r.sensitivity, r.replace_time
FROM memoryfs.item_revisions AS r
WHERE r.tenant = %(tenant)s
    AND r.replace_xid >= %(from_xid)s::xid8 AND r.replace_xid < %(horizon)s::xid8
    AND (r.replace_xid, r.id) >= (%(from_xid)s::xid8, %(from_id)s)
    AND r.path_id = ANY (%(path_ids)s::int4[])
    AND NOT EXISTS (SELECT 1 FROM memoryfs.items AS i WHERE i.tenant = r.tenant AND i.id = r.id)
    AND NOT EXISTS (
        SELECT 1 FROM memoryfs.item_revisions AS n
        WHERE n.tenant = r.tenant AND n.id = r.id AND n.revision = r.revision + 1
    )
ORDER BY r.replace_xid, r.id
LIMIT %(limit)s;

-- name: feed_states
-- Changes of state that made no revision, of items that the caller may read.
SELECT c.xid, c.item_id AS id, i.revision, c.change_time, c.from_state, c.to_state, c.cause, c.actor, c.trace_id,
    i.sensitivity, i.owner = ANY ((SELECT memoryfs.reader_ids())::int4[]) AS own
FROM memoryfs.item_changes AS c
JOIN memoryfs.items AS i ON i.tenant = c.tenant AND i.id = c.item_id
WHERE c.tenant = %(tenant)s
    AND c.xid >= %(from_xid)s::xid8 AND c.xid < %(horizon)s::xid8
    AND (c.xid, c.item_id) >= (%(from_xid)s::xid8, %(from_id)s)
    AND i.path_id = ANY (%(path_ids)s::int4[])
ORDER BY c.xid, c.item_id
LIMIT %(limit)s;
