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
