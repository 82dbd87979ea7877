-- Statements of policy, by name.

-- name: circumstances
-- All that is known of calls beyond their requests; session_facts is FACTS of memoryos_postgres.session_facts.
SELECT facts.seen, facts.sources, facts.said, (
    SELECT jsonb_agg(to_jsonb(review)) FROM (
        SELECT r.call_id, r.review_id, r.group_name, r.action_digest_hmac,
            CASE WHEN r.state <> 'denied' AND r.expire_time <= clock_timestamp() THEN 'expired' ELSE r.state END AS state,
            (SELECT count(*) FROM policy.review_votes v
                WHERE v.tenant = r.tenant AND v.review_id = r.review_id AND v.verdict = 'approve') AS approvals
        FROM policy.reviews r
        WHERE r.tenant = %(tenant)s AND r.call_id = ANY(%(call_ids)s)
    ) AS review
) AS reviews
FROM (/*session_facts*/) AS facts

-- name: insert_decisions
-- The rows are NEW_ROW of adapters/decision_rows.py, one a decision.
INSERT INTO policy.decisions (
    tenant, decision_id, call_id, attempt, skill, skill_version, action_digest_hmac, effect, reasons, agent_message,
    obligations, rewrites, risk, bundle_revision, bundle_confirm_time, review_id, user_name, chain, session_id, task_id,
    service, trace_id, input
) VALUES /*rows*/
RETURNING decision_id, create_time

-- name: decision
SELECT decision_id, create_time, call_id, skill, action_digest_hmac, effect, reasons, agent_message, obligations,
    risk, bundle_revision, bundle_confirm_time, review_id, user_name, chain, session_id, task_id, trace_id
FROM policy.decisions
WHERE tenant = %(tenant)s AND decision_id = %(decision_id)s

-- name: decision_input
SELECT input FROM policy.decisions WHERE tenant = %(tenant)s AND decision_id = %(decision_id)s

-- name: decisions_newest
SELECT decision_id, create_time, call_id, skill, action_digest_hmac, effect, reasons, agent_message, obligations,
    risk, bundle_revision, bundle_confirm_time, review_id, user_name, chain, session_id, task_id, trace_id
FROM policy.decisions
WHERE tenant = %(tenant)s
    AND (%(user)s::text IS NULL
        OR (user_name = %(user)s AND chain[1:cardinality(%(chain)s::text[])] = %(chain)s::text[]))
    AND (%(call_id)s::text = '' OR call_id = %(call_id)s)
    AND (%(effect)s::text IS NULL OR effect = %(effect)s)
    AND (%(before)s::text IS NULL OR decision_id < %(before)s)
ORDER BY decision_id DESC
LIMIT %(limit)s

-- name: insert_review
INSERT INTO policy.reviews (
    tenant, review_id, call_id, decision_id, group_name, quorum, skill, action_digest_hmac, user_name, chain, reasons,
    create_time, expire_time
) SELECT
    %(tenant)s, %(review_id)s, %(call_id)s, %(decision_id)s, %(group)s, %(quorum)s, %(skill)s, %(action_digest_hmac)s,
    %(user_name)s, %(chain)s, %(reasons)s, opened, opened + make_interval(secs => %(expires_in_s)s)
FROM clock_timestamp() AS opened
ON CONFLICT (tenant, call_id) DO NOTHING

-- name: review
SELECT review_id, call_id, decision_id, group_name, quorum, skill, action_digest_hmac, user_name, chain, reasons,
    create_time, expire_time, resolve_time, version,
    CASE WHEN state = 'pending' AND expire_time <= clock_timestamp() THEN 'expired' ELSE state END AS state
FROM policy.reviews
WHERE tenant = %(tenant)s AND review_id = %(review_id)s

-- name: review_of_call
SELECT review_id, call_id, decision_id, group_name, quorum, skill, action_digest_hmac, user_name, chain, reasons,
    create_time, expire_time, resolve_time, version,
    CASE WHEN state = 'pending' AND expire_time <= clock_timestamp() THEN 'expired' ELSE state END AS state
FROM policy.reviews
WHERE tenant = %(tenant)s AND call_id = %(call_id)s

-- name: lock_review
SELECT 1 FROM policy.reviews WHERE tenant = %(tenant)s AND review_id = %(review_id)s FOR UPDATE

-- name: reviews_newest
SELECT review_id, call_id, decision_id, group_name, quorum, skill, action_digest_hmac, user_name, chain, reasons,
    create_time, expire_time, resolve_time, version, now_state.state
FROM policy.reviews r
CROSS JOIN LATERAL (
    SELECT CASE WHEN r.state = 'pending' AND r.expire_time <= clock_timestamp() THEN 'expired' ELSE r.state END AS state
) AS now_state
WHERE r.tenant = %(tenant)s
    AND (%(all)s OR r.group_name = ANY(%(groups)s)
        OR (r.user_name = %(user)s AND r.chain[1:cardinality(%(chain)s::text[])] = %(chain)s::text[]))
    AND (%(before)s::text IS NULL OR r.review_id < %(before)s)
    AND (%(state)s::text IS NULL OR now_state.state = %(state)s)
ORDER BY r.review_id DESC
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
SET state = %(state)s, version = version + 1,
    resolve_time = CASE WHEN %(state)s <> 'pending' THEN clock_timestamp() END
WHERE tenant = %(tenant)s AND review_id = %(review_id)s AND state = 'pending' AND expire_time > clock_timestamp()
