-- Statements of the effect journal. Every change of state names the state it starts from.

-- name: find_call
SELECT *, state = 'DISPATCHED' AND deadline < clock_timestamp() AS overdue
FROM toolgateway.calls
WHERE tenant = %(tenant)s AND issuer = %(issuer)s AND request_id = %(request_id)s;

-- name: get_call
SELECT *, state = 'DISPATCHED' AND deadline < clock_timestamp() AS overdue
FROM toolgateway.calls
WHERE tenant = %(tenant)s AND id = %(id)s AND (user_name = %(user)s OR %(any_user)s);

-- name: greatest_epoch
SELECT max(lease_epoch) AS lease_epoch
FROM toolgateway.calls
WHERE tenant = %(tenant)s AND task_id = %(task_id)s AND task_id <> '';

-- name: raise_epoch
UPDATE toolgateway.calls SET lease_epoch = %(lease_epoch)s
WHERE tenant = %(tenant)s AND id = %(id)s AND lease_epoch <= %(lease_epoch)s;

-- name: insert_call
INSERT INTO toolgateway.calls (
    tenant, id, issuer, request_id, user_name, chain, session_id, task_id, skill, version, definition_digest,
    effect_class, action_digest_hmac, arguments, state, error_code, agent_message, decision_id, lease_epoch,
    traceparent, end_time)
VALUES (
    %(tenant)s, %(id)s, %(issuer)s, %(request_id)s, %(user)s, %(chain)s, %(session_id)s, %(task_id)s, %(skill)s,
    %(version)s, %(definition_digest)s, %(effect_class)s, %(action_digest_hmac)s, %(arguments)s, %(state)s,
    %(error_code)s, %(agent_message)s, %(decision_id)s, %(lease_epoch)s, %(traceparent)s,
    CASE WHEN %(state)s = 'DENIED' THEN clock_timestamp() END)
ON CONFLICT (tenant, issuer, request_id) DO NOTHING
RETURNING *, false AS overdue;

-- name: park_call
UPDATE toolgateway.calls
SET state = 'PARKED', decision_id = %(decision_id)s, agent_message = %(agent_message)s,
    review_id = CASE WHEN %(review_id)s = '' THEN review_id ELSE %(review_id)s END
WHERE tenant = %(tenant)s AND id = %(id)s AND state IN ('INTENDED', 'PARKED')
RETURNING *, false AS overdue;

-- name: dispatch_call
UPDATE toolgateway.calls
SET state = 'DISPATCHED', dispatches = dispatches + 1, decision_id = %(decision_id)s,
    review_id = CASE WHEN %(review_id)s = '' THEN review_id ELSE %(review_id)s END,
    approval_used = approval_used OR %(review_id)s <> '',
    deadline = clock_timestamp() + make_interval(secs => %(allowance_s)s), dispatch_time = clock_timestamp(),
    error_code = '', agent_message = '', end_time = NULL
WHERE tenant = %(tenant)s AND id = %(id)s AND state = %(from_state)s AND dispatches = %(dispatches)s
    AND (state IN ('INTENDED', 'PARKED') OR (state = 'UNKNOWN' AND effect_class <> 'non_idempotent'))
    AND action_digest_hmac = %(action_digest_hmac)s AND NOT approval_used
RETURNING *, false AS overdue;

-- name: queue_deadline
INSERT INTO toolgateway.dispatched (tenant, call_id, deadline) VALUES (%(tenant)s, %(id)s, %(deadline)s)
ON CONFLICT (tenant, call_id) DO UPDATE SET deadline = excluded.deadline;

-- name: unqueue_deadline
DELETE FROM toolgateway.dispatched WHERE tenant = %(tenant)s AND call_id = %(id)s;

-- name: deny_call
UPDATE toolgateway.calls
SET state = 'DENIED', decision_id = CASE WHEN %(decision_id)s = '' THEN decision_id ELSE %(decision_id)s END,
    error_code = %(error_code)s, agent_message = %(agent_message)s, end_time = clock_timestamp()
WHERE tenant = %(tenant)s AND id = %(id)s AND state IN ('INTENDED', 'PARKED')
    -- A verdict given without knowing of the call's review says nothing of it.
    AND state = %(from_state)s AND review_id = %(known_review_id)s
RETURNING *, false AS overdue;

-- name: finish_call
UPDATE toolgateway.calls
SET state = %(state)s, result = %(result)s, error_code = %(error_code)s, agent_message = %(agent_message)s,
    deadline = NULL, end_time = clock_timestamp()
WHERE tenant = %(tenant)s AND id = %(id)s AND dispatches = %(dispatches)s
    AND (state = 'DISPATCHED' OR (state = 'UNKNOWN' AND %(state)s <> 'UNKNOWN'))
RETURNING *, false AS overdue;

-- name: expire_call
UPDATE toolgateway.calls
SET state = 'UNKNOWN', error_code = %(error_code)s, agent_message = %(agent_message)s, deadline = NULL,
    end_time = clock_timestamp()
WHERE tenant = %(tenant)s AND id = %(id)s AND state = 'DISPATCHED' AND deadline < clock_timestamp()
RETURNING *, false AS overdue;

-- name: overdue_calls
SELECT tenant, call_id FROM toolgateway.dispatched
WHERE deadline < clock_timestamp()
ORDER BY deadline
LIMIT %(limit)s;
