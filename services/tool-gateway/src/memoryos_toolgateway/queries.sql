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
    effect_class, action_digest_hmac, arguments, asked_arguments, asked_digest_hmac, state, error_code,
    agent_message, decision_id, lease_epoch, traceparent, dispatches, dispatch_time, deadline, settle_time, end_time)
VALUES (
    %(tenant)s, %(id)s, %(issuer)s, %(request_id)s, %(user)s, %(chain)s, %(session_id)s, %(task_id)s, %(skill)s,
    %(version)s, %(definition_digest)s, %(effect_class)s, %(action_digest_hmac)s, %(arguments)s,
    %(asked_arguments)s, %(asked_digest_hmac)s, %(state)s, %(error_code)s, %(agent_message)s, %(decision_id)s,
    %(lease_epoch)s, %(traceparent)s,
    -- One that is sent at once has its times; null makes null of the others.
    CASE WHEN %(state)s = 'DISPATCHED' THEN 1 ELSE 0 END,
    CASE WHEN %(state)s = 'DISPATCHED' THEN clock_timestamp() END,
    clock_timestamp() + make_interval(secs => %(allowance_s)s::float8),
    clock_timestamp() + make_interval(secs => %(allowance_s)s::float8 + %(timeout_s)s::float8),
    CASE WHEN %(state)s IN ('DENIED', 'CANCELLED') THEN clock_timestamp() END)
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
    settle_time = clock_timestamp() + make_interval(secs => %(allowance_s)s + %(timeout_s)s),
    error_code = '', agent_message = '', end_time = NULL
WHERE tenant = %(tenant)s AND id = %(id)s AND state = %(from_state)s AND dispatches = %(dispatches)s
    AND (state IN ('INTENDED', 'PARKED') OR (state = 'UNKNOWN' AND effect_class <> 'non_idempotent'))
    AND action_digest_hmac = %(action_digest_hmac)s AND NOT approval_used
RETURNING *, false AS overdue;

-- name: queue_deadline
INSERT INTO toolgateway.dispatched (tenant, call_id, deadline) VALUES (%(tenant)s, %(id)s, %(deadline)s)
ON CONFLICT (tenant, call_id) DO UPDATE SET deadline = excluded.deadline;

-- name: close_call
WITH deadline AS (
    DELETE FROM toolgateway.dispatched WHERE tenant = %(tenant)s AND call_id = %(id)s
), doubt AS (
    DELETE FROM toolgateway.doubts WHERE tenant = %(tenant)s AND call_id = %(id)s AND %(state)s <> 'UNKNOWN'
)
INSERT INTO toolgateway.due_notices (tenant, notice_id, due_time)
SELECT tenant, id, clock_timestamp() FROM toolgateway.notices WHERE tenant = %(tenant)s AND call_id = %(id)s
ON CONFLICT DO NOTHING;

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
    facts = %(facts)s, fallback = %(fallback)s, full_result_bytes = %(full_result_bytes)s,
    full_result_sha256 = %(full_result_sha256)s, deadline = NULL, end_time = clock_timestamp()
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

-- name: may_send
SELECT 1 FROM toolgateway.calls
WHERE tenant = %(tenant)s AND id = %(id)s AND state = 'DISPATCHED' AND dispatches = %(dispatches)s
    AND deadline >= clock_timestamp() + make_interval(secs => %(needs_s)s);

-- name: end_unsent
UPDATE toolgateway.calls
SET state = %(state)s, result = %(result)s, error_code = %(error_code)s, agent_message = %(agent_message)s,
    fallback = %(fallback)s, end_time = clock_timestamp()
WHERE tenant = %(tenant)s AND id = %(id)s AND state = 'INTENDED' AND dispatches = 0
RETURNING *, false AS overdue;

-- name: take_rate
INSERT INTO toolgateway.rate_windows AS w (tenant, key_hmac, window_s, used, end_time)
VALUES (%(tenant)s, %(key_hmac)s, %(window_s)s, %(cost)s::numeric,
    clock_timestamp() + make_interval(secs => %(window_s)s))
ON CONFLICT (tenant, key_hmac, window_s) DO UPDATE SET
    used = excluded.used + CASE WHEN w.end_time <= clock_timestamp() THEN 0 ELSE w.used END,
    end_time = CASE WHEN w.end_time <= clock_timestamp() THEN excluded.end_time ELSE w.end_time END
RETURNING used <= %(limit)s::numeric AS fits, extract(epoch FROM end_time - clock_timestamp())::float8 AS left_s;

-- name: give_rate
UPDATE toolgateway.rate_windows SET used = greatest(used - %(cost)s::numeric, 0)
WHERE tenant = %(tenant)s AND key_hmac = %(key_hmac)s AND window_s = %(window_s)s
    -- Only the window that it was taken of.
    AND end_time - make_interval(secs => window_s) <= %(dispatch_time)s;

-- name: sweep_rates
DELETE FROM toolgateway.rate_windows WHERE (tenant, key_hmac, window_s) IN (
    SELECT tenant, key_hmac, window_s FROM toolgateway.rate_windows
    WHERE tenant = %(tenant)s AND end_time < clock_timestamp() - interval '1 minute'
    ORDER BY end_time LIMIT 10 FOR UPDATE SKIP LOCKED);

-- name: lock_full_results
SELECT pg_advisory_xact_lock(hashtextextended('toolgateway.full_results/' || %(tenant)s, 0));

-- name: sweep_full_results
DELETE FROM toolgateway.full_results WHERE (tenant, call_id) IN (
    SELECT tenant, call_id FROM toolgateway.full_results
    WHERE tenant = %(tenant)s AND create_time < clock_timestamp() - make_interval(hours => %(hours)s)
    ORDER BY create_time LIMIT 20);

-- name: keep_full_result
INSERT INTO toolgateway.full_results (tenant, call_id, user_name, content, size_bytes)
SELECT %(tenant)s, %(id)s, %(user)s, %(content)s, %(size_bytes)s
WHERE %(size_bytes)s + (SELECT coalesce(sum(size_bytes), 0) FROM toolgateway.full_results
        WHERE tenant = %(tenant)s AND user_name = %(user)s) <= %(user_bytes_max)s
    AND %(size_bytes)s + (SELECT coalesce(sum(size_bytes), 0) FROM toolgateway.full_results
        WHERE tenant = %(tenant)s) <= %(tenant_bytes_max)s
ON CONFLICT DO NOTHING;

-- name: full_result
SELECT content FROM toolgateway.full_results
WHERE tenant = %(tenant)s AND call_id = %(id)s
    AND create_time >= clock_timestamp() - make_interval(hours => %(hours)s);

-- name: ask_notice
INSERT INTO toolgateway.notices (tenant, id, call_id, user_name, channel, text)
VALUES (%(tenant)s, %(notice_id)s, %(id)s, %(user)s, %(channel)s, %(text)s)
ON CONFLICT DO NOTHING;

-- name: due_notices
UPDATE toolgateway.due_notices SET due_time = clock_timestamp() + make_interval(secs => %(lease_s)s)
WHERE (tenant, notice_id) IN (
    SELECT tenant, notice_id FROM toolgateway.due_notices WHERE due_time <= clock_timestamp()
    ORDER BY due_time LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING tenant, notice_id;

-- name: try_notice
UPDATE toolgateway.notices AS n SET tries = n.tries + 1
FROM toolgateway.calls AS c
WHERE n.tenant = %(tenant)s AND n.id = %(notice_id)s AND c.tenant = n.tenant AND c.id = n.call_id
RETURNING n.tenant, n.id, n.channel, n.text, n.call_id, n.tries, c.skill, c.state;

-- name: put_notice_off
UPDATE toolgateway.due_notices SET due_time = clock_timestamp() + make_interval(secs => %(pause_s)s)
WHERE tenant = %(tenant)s AND notice_id = %(notice_id)s;

-- name: forget_notice
DELETE FROM toolgateway.notices WHERE tenant = %(tenant)s AND id = %(notice_id)s;

-- name: unqueue_notice
DELETE FROM toolgateway.due_notices WHERE tenant = %(tenant)s AND notice_id = %(notice_id)s;

-- name: list_calls
SELECT *, false AS overdue FROM toolgateway.calls
WHERE tenant = %(tenant)s
    AND (%(any_user)s OR (user_name = %(user)s AND chain[1:cardinality(%(chain)s::text[])] = %(chain)s::text[]))
    AND (%(state)s = '' OR state = %(state)s) AND (%(skill)s = '' OR skill = %(skill)s)
    AND (%(session_id)s = '' OR session_id = %(session_id)s) AND (%(task_id)s = '' OR task_id = %(task_id)s)
    AND (%(after)s = '' OR id < %(after)s)
ORDER BY id DESC
LIMIT %(limit)s;

-- name: cancel_call
UPDATE toolgateway.calls
SET state = 'CANCELLED', error_code = %(error_code)s, agent_message = %(agent_message)s, end_time = clock_timestamp()
WHERE tenant = %(tenant)s AND id = %(id)s AND state IN ('INTENDED', 'PARKED')
RETURNING *, false AS overdue;

-- name: queue_doubt
INSERT INTO toolgateway.doubts (tenant, call_id, due_time)
SELECT tenant, id, coalesce(settle_time, clock_timestamp()) FROM toolgateway.calls
WHERE tenant = %(tenant)s AND id = %(id)s AND state = 'UNKNOWN'
ON CONFLICT (tenant, call_id) DO UPDATE SET due_time = excluded.due_time, tries = 0;

-- name: unqueue_doubt
DELETE FROM toolgateway.doubts WHERE tenant = %(tenant)s AND call_id = %(id)s;

-- name: due_doubts
UPDATE toolgateway.doubts
SET tries = tries + 1, due_time = clock_timestamp() + make_interval(secs => least(5 * 2 ^ least(tries, 10), 3600))
WHERE (tenant, call_id) IN (
    SELECT tenant, call_id FROM toolgateway.doubts WHERE due_time <= clock_timestamp()
    ORDER BY due_time LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING tenant, call_id;

-- name: get_doubt
SELECT *, false AS overdue FROM toolgateway.calls
WHERE tenant = %(tenant)s AND id = %(id)s AND state = 'UNKNOWN' AND effect_class <> 'read';

-- name: settle_call
UPDATE toolgateway.calls
SET state = %(state)s, result = %(result)s, error_code = %(error_code)s, agent_message = %(agent_message)s,
    end_time = clock_timestamp()
WHERE tenant = %(tenant)s AND id = %(id)s AND state = 'UNKNOWN' AND dispatches = %(dispatches)s
    AND coalesce(settle_time, end_time + interval '20 minutes') <= clock_timestamp()
RETURNING *, false AS overdue;

-- name: note_reconciliation
INSERT INTO toolgateway.reconciliations (tenant, call_id, user_name, by_user, outcome, comment)
VALUES (%(tenant)s, %(id)s, %(user)s, %(by_user)s, %(outcome)s, %(comment)s);
