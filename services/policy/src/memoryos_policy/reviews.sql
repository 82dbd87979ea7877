-- Statements of reviews, by name.

-- name: insert_review
INSERT INTO policy.reviews (
    tenant, review_id, call_id, decision_id, group_name, quorum, skill, skill_version, effect_class, risk,
    resource_type, action_digest_hmac, user_name, chain, reasons, create_time, expire_time
) SELECT
    %(tenant)s, %(review_id)s, %(call_id)s, %(decision_id)s, %(group)s, %(quorum)s, %(skill)s, %(skill_version)s,
    %(effect_class)s, %(risk)s, %(resource_type)s, %(action_digest_hmac)s, %(user_name)s, %(chain)s, %(reasons)s,
    opened, opened + make_interval(secs => %(expires_in_s)s)
FROM clock_timestamp() AS opened
ON CONFLICT (tenant, call_id) DO NOTHING

-- name: review
SELECT /*review_columns*/
FROM policy.reviews r
WHERE r.tenant = %(tenant)s AND r.review_id = %(review_id)s

-- name: review_of_call
SELECT /*review_columns*/
FROM policy.reviews r
WHERE r.tenant = %(tenant)s AND r.call_id = %(call_id)s

-- name: lock_review
SELECT 1 FROM policy.reviews WHERE tenant = %(tenant)s AND review_id = %(review_id)s FOR UPDATE

-- name: reviews_newest
SELECT * FROM (
    SELECT /*review_columns*/
    FROM policy.reviews r
    WHERE r.tenant = %(tenant)s AND /*review_visible*/
        AND (%(before)s::text IS NULL OR r.review_id < %(before)s)
) AS found
WHERE %(state)s::text IS NULL OR state = %(state)s
ORDER BY review_id DESC
LIMIT %(limit)s

-- name: reviews_pending
-- The pending ones that a feed begins with: those that have not changed since.
SELECT /*review_columns*/
FROM policy.reviews r
WHERE r.tenant = %(tenant)s AND r.state = 'pending' AND r.expire_time > %(since)s AND r.xid < %(horizon)s::xid8
    AND r.review_id > %(from_id)s AND /*review_visible*/
ORDER BY r.review_id
LIMIT %(limit)s

-- name: reviews_changed
SELECT r.xid::text AS xid, /*review_columns*/
FROM policy.reviews r
WHERE r.tenant = %(tenant)s AND r.xid >= %(from_xid)s::xid8 AND r.xid < %(horizon)s::xid8
    AND (r.xid, r.review_id) > (%(from_xid)s::xid8, %(from_id)s) AND /*review_visible*/
ORDER BY r.xid, r.review_id
LIMIT %(limit)s

-- name: reviews_expired
-- Pending ones whose time ended between two looks; what is above the horizon comes as a change, and has ended by then.
SELECT /*review_columns*/
FROM policy.reviews r
WHERE r.tenant = %(tenant)s AND r.state = 'pending' AND r.xid < %(horizon)s::xid8
    AND r.expire_time >= %(since)s AND r.expire_time < %(now)s
    AND (r.expire_time, r.review_id) > (%(since)s, %(from_id)s) AND /*review_visible*/
ORDER BY r.expire_time, r.review_id
LIMIT %(limit)s

-- name: votes
SELECT reviewer, verdict, comment, create_time
FROM policy.review_votes
WHERE tenant = %(tenant)s AND review_id = %(review_id)s
ORDER BY create_time, reviewer

-- name: put_vote
INSERT INTO policy.review_votes (tenant, review_id, reviewer, verdict, comment)
VALUES (%(tenant)s, %(review_id)s, %(reviewer)s, %(verdict)s, %(comment)s)
ON CONFLICT (tenant, review_id, reviewer) DO UPDATE
SET verdict = excluded.verdict, comment = excluded.comment, create_time = clock_timestamp()

-- name: move_review
UPDATE policy.reviews
SET state = %(state)s, version = version + 1, xid = pg_current_xact_id(),
    resolve_time = CASE WHEN %(state)s <> 'pending' THEN clock_timestamp() END
WHERE tenant = %(tenant)s AND review_id = %(review_id)s AND state = 'pending' AND expire_time > clock_timestamp()
