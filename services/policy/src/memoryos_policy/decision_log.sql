-- Statements that read decisions, by name. `/*conditions*/` are those of adapters/decision_log.py that a filter names.

-- name: decision
SELECT /*decision_columns*/
FROM policy.decisions
WHERE tenant = %(tenant)s AND decision_id = %(decision_id)s

-- name: decision_inputs
SELECT decision_id, input, rewrites
FROM policy.decisions
WHERE tenant = %(tenant)s AND decision_id = ANY(%(decision_ids)s)

-- name: decisions_newest
SELECT /*decision_columns*/
FROM policy.decisions
WHERE tenant = %(tenant)s/*conditions*/
ORDER BY decision_id DESC
LIMIT %(limit)s

-- name: decisions_newest_by_rule
-- What rules said stands in no index: so many decisions are looked at for one page, and no more.
SELECT * FROM (
    SELECT /*decision_columns*/
    FROM policy.decisions
    WHERE tenant = %(tenant)s/*conditions*/
    ORDER BY decision_id DESC
    LIMIT %(looked_at)s
) AS part
WHERE reasons @> %(code)s::jsonb AND reasons @> %(policy)s::jsonb
ORDER BY decision_id DESC
LIMIT %(limit)s

-- name: decisions_looked_at
-- The last decision that one page by rule looks at, if there are so many.
SELECT decision_id
FROM policy.decisions
WHERE tenant = %(tenant)s/*conditions*/
ORDER BY decision_id DESC
OFFSET %(looked_at)s - 1
LIMIT 1

-- name: feed_horizon
-- Every transaction below it has ended: nothing can be committed behind a position there.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon, clock_timestamp() AS now

-- name: decisions_after
SELECT d.xid::text AS xid, /*decision_columns*/
FROM policy.decisions d
WHERE tenant = %(tenant)s AND d.xid >= %(from_xid)s::xid8 AND d.xid < %(horizon)s::xid8
    AND (d.xid, decision_id) > (%(from_xid)s::xid8, %(from_id)s)
    AND (%(effect)s = '' OR effect = %(effect)s)
ORDER BY d.xid, decision_id
LIMIT %(limit)s

-- name: keep_bundle
INSERT INTO policy.bundles (revision, archive) VALUES (%(revision)s, %(archive)s) ON CONFLICT (revision) DO NOTHING

-- name: bundle
SELECT archive FROM policy.bundles WHERE revision = %(revision)s
