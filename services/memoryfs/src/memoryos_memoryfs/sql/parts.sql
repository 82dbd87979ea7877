-- What several statements share: `/*name*/` in them stands for the part of that name.
-- item_columns: an item as `item_rows.item_of` reads it, in memoryfs.items and memoryfs.item_revisions alike.
-- seen_at_point: the tenant's revisions that were made before a point, those replaced before it among them.

-- name: item_columns
id, sealed, tags, owner, user_label, acl, sensitivity, trust, origin, confidence, importance, state,
    forgotten_from, valid_from, valid_to, create_time, update_time, expire_time, tier, revision, etag, derived_from,
    superseded_by, embedding_model, embed_state, pinned, flags, corroboration_count;

-- name: seen_at_point
SELECT /*item_columns*/, path_id, true AS current, false AS replaced
    FROM memoryfs.items
    WHERE tenant = %(tenant)s AND pg_visible_in_snapshot(xid, %(point)s::pg_snapshot)
    UNION ALL
    SELECT /*item_columns*/, path_id, false, pg_visible_in_snapshot(replace_xid, %(point)s::pg_snapshot)
    FROM memoryfs.item_revisions
    WHERE tenant = %(tenant)s AND pg_visible_in_snapshot(xid, %(point)s::pg_snapshot);
