-- name: binding_ceilings
-- A task that was bound stays bounded when its binding's time is over: only its working memory ends.
SELECT sealed, id, kind FROM memoryfs.bindings
WHERE tenant = %(tenant)s AND owner = %(owner)s AND target_hash = ANY (%(targets)s::bytea[])
    AND (kind = 2 OR expire_time > clock_timestamp());

-- name: find_binding
SELECT id, owner, kind, sealed, owns_working_memory, ended, create_time, expire_time,
    expire_time > clock_timestamp() AS live
FROM memoryfs.bindings
WHERE tenant = %(tenant)s AND id = %(id)s
FOR UPDATE;

-- name: binding_of_target
SELECT id, create_time FROM memoryfs.bindings
WHERE tenant = %(tenant)s AND owner = %(owner)s AND target_hash = %(target)s
FOR UPDATE;

-- name: keep_binding
INSERT INTO memoryfs.bindings (tenant, id, owner, kind, target_hash, sealed, owns_working_memory, ended, create_time,
    expire_time)
VALUES (%(tenant)s, %(id)s, %(owner)s, %(kind)s, %(target)s, %(sealed)b, %(owns)s, false, clock_timestamp(),
    clock_timestamp() + %(ttl)s)
ON CONFLICT (tenant, owner, target_hash) DO UPDATE SET
    sealed = excluded.sealed, owns_working_memory = excluded.owns_working_memory, ended = false,
    expire_time = excluded.expire_time
RETURNING id, create_time, expire_time;

-- name: keep_due_binding
INSERT INTO memoryfs.due_bindings (tenant, id, owner, due_time)
VALUES (%(tenant)s, %(id)s, %(owner)s, %(due_time)s)
ON CONFLICT (tenant, id) DO UPDATE SET due_time = excluded.due_time;

-- name: count_bindings
SELECT count(*) FROM memoryfs.bindings WHERE tenant = %(tenant)s AND owner = %(owner)s;

-- name: list_bindings
SELECT id, owner, kind, sealed, owns_working_memory, ended, create_time, expire_time,
    expire_time > clock_timestamp() AS live
FROM memoryfs.bindings
WHERE tenant = %(tenant)s AND owner = %(owner)s
    AND (%(targets)s::bytea[] = '{}' OR target_hash = ANY (%(targets)s::bytea[]))
    AND (kind = 2 OR expire_time > clock_timestamp())
    AND (%(before)s = '' OR id < %(before)s)
ORDER BY id DESC
LIMIT %(limit)s;

-- name: end_binding
UPDATE memoryfs.bindings SET ended = true WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: drop_binding
DELETE FROM memoryfs.bindings WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: drop_due_binding
DELETE FROM memoryfs.due_bindings WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: due_bindings
SELECT tenant, id, owner FROM memoryfs.due_bindings
WHERE due_time <= clock_timestamp()
ORDER BY due_time
LIMIT %(limit)s;

-- name: put_off_binding
UPDATE memoryfs.due_bindings SET due_time = clock_timestamp() + interval '1 minute'
WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: note_working_items
INSERT INTO memoryfs.working_items (tenant, target_hash, item_id)
SELECT %(tenant)s, w.target_hash, w.item_id
FROM unnest(%(targets)s::bytea[], %(ids)s::text[]) AS w (target_hash, item_id)
ON CONFLICT (tenant, target_hash, item_id) DO NOTHING;

-- name: working_items
SELECT item_id FROM memoryfs.working_items WHERE tenant = %(tenant)s AND target_hash = %(target)s ORDER BY item_id;

-- name: drop_working_items
DELETE FROM memoryfs.working_items WHERE tenant = %(tenant)s AND target_hash = %(target)s;
