-- Parts that statements of policy share.

-- name: decision_columns
decision_id, create_time, call_id, skill, action_digest_hmac, effect, reasons, agent_message, obligations,
    risk, bundle_revision, bundle_confirm_time, review_id, user_name, chain, session_id, task_id, trace_id

-- name: review_columns
r.review_id, r.call_id, r.decision_id, r.group_name, r.quorum, r.skill, r.skill_version, r.effect_class, r.risk,
    r.resource_type, r.action_digest_hmac, r.user_name, r.chain, r.reasons, r.create_time, r.expire_time,
    r.resolve_time, r.version,
    CASE WHEN r.state = 'pending' AND r.expire_time <= clock_timestamp() THEN 'expired' ELSE r.state END AS state

-- name: review_visible
(%(all)s OR r.group_name = ANY(%(groups)s)
        OR (r.user_name = %(user)s AND r.chain[1:cardinality(%(chain)s::text[])] = %(chain)s::text[]))
