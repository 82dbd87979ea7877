-- name: start_job
INSERT INTO core.jobs (tenant, id, service, kind, user_name, input, trace_parent)
VALUES (%(tenant)s, %(id)s, %(service)s, %(kind)s, %(user)s, %(input)s, %(trace_parent)s);

-- name: make_due
INSERT INTO core.due_jobs (tenant, id, service) VALUES (%(tenant)s, %(id)s, %(service)s);

-- name: find_job
SELECT * FROM core.jobs
WHERE tenant = %(tenant)s AND id = %(id)s AND service = %(service)s
    AND (%(all)s OR user_name = ANY (%(users)s::text[]));

-- name: list_jobs
SELECT * FROM core.jobs
WHERE tenant = %(tenant)s AND service = %(service)s
    AND (%(all)s OR user_name = ANY (%(users)s::text[]))
    AND (%(kind)s = '' OR kind = %(kind)s)
    AND (create_time, id) < (coalesce(%(before_time)s::timestamptz, 'infinity'), %(before_id)s)
ORDER BY create_time DESC, id DESC
LIMIT %(limit)s;

-- name: cancel_job
-- One that waits ends here, unless its kind is never stopped; one that runs is told at its next save or heartbeat.
UPDATE core.jobs SET
    cancel_requested = true,
    state = CASE WHEN state = 1 AND kind <> ALL (%(unstoppable)s::text[]) THEN 5 ELSE state END,
    input = CASE WHEN state = 1 AND kind <> ALL (%(unstoppable)s::text[]) THEN ''::bytea ELSE input END,
    end_time = CASE WHEN state = 1 AND kind <> ALL (%(unstoppable)s::text[]) THEN clock_timestamp() ELSE end_time END
WHERE tenant = %(tenant)s AND id = %(id)s AND state IN (1, 2)
RETURNING state;

-- name: not_due
DELETE FROM core.due_jobs WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: claim_due
-- The tenant after the last one served, in turns; within a tenant, who waits longest. What another process claims in
-- this instant is passed over. The lease is the new due_time.
WITH next AS (
    SELECT tenant, id FROM core.due_jobs
    WHERE service = %(service)s AND due_time <= clock_timestamp()
        AND tenant > %(after)s AND tenant <> ALL (%(busy)s::text[])
    ORDER BY tenant, due_time, id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE core.due_jobs AS d SET due_time = clock_timestamp() + make_interval(secs => %(lease_s)s)
FROM next WHERE d.tenant = next.tenant AND d.id = next.id
RETURNING d.tenant, d.id;

-- name: kind_of_job
SELECT kind FROM core.jobs WHERE tenant = %(tenant)s AND id = %(id)s AND state IN (1, 2);

-- name: take_up
-- Whoever held it before can write nothing from here on.
UPDATE core.jobs SET
    epoch = epoch + 1, attempts = attempts + 1, faults = faults + 1, state = 2,
    start_time = coalesce(start_time, clock_timestamp())
WHERE tenant = %(tenant)s AND id = %(id)s AND state IN (1, 2)
RETURNING *;

-- name: beat
UPDATE core.due_jobs AS d SET due_time = clock_timestamp() + make_interval(secs => %(lease_s)s)
FROM core.jobs AS j
WHERE d.tenant = %(tenant)s AND d.id = %(id)s
    AND j.tenant = d.tenant AND j.id = d.id AND j.epoch = %(epoch)s AND j.state = 2
RETURNING j.cancel_requested;

-- name: save_job
UPDATE core.jobs SET
    phase = coalesce(%(phase)s, phase),
    done_count = coalesce(%(done)s, done_count),
    total_count = coalesce(%(total)s, total_count),
    faults = CASE WHEN coalesce(%(checkpoint)s::jsonb, checkpoint) IS DISTINCT FROM checkpoint THEN 0 ELSE faults END,
    checkpoint = coalesce(%(checkpoint)s::jsonb, checkpoint)
WHERE tenant = %(tenant)s AND id = %(id)s AND epoch = %(epoch)s AND state = 2
RETURNING cancel_requested;

-- name: end_job
-- What was asked for is not kept beyond the end.
UPDATE core.jobs SET
    state = %(state)s, result = %(result)s::jsonb, error_reason = %(reason)s, input = ''::bytea,
    end_time = clock_timestamp()
WHERE tenant = %(tenant)s AND id = %(id)s AND epoch = %(epoch)s AND state = 2
RETURNING id;

-- name: put_off_job
-- Back to the queue; `forgiven`: faults that are none of the job's, as an outage or an end of the process.
WITH mine AS (
    UPDATE core.jobs SET
        epoch = epoch + 1, error_reason = %(reason)s,
        faults = greatest(faults - %(forgiven)s, 0), attempts = greatest(attempts - %(takes)s, 0)
    WHERE tenant = %(tenant)s AND id = %(id)s AND epoch = %(epoch)s AND state = 2
    RETURNING tenant, id
)
UPDATE core.due_jobs AS d SET due_time = clock_timestamp() + make_interval(secs => %(delay_s)s)
FROM mine WHERE d.tenant = mine.tenant AND d.id = mine.id;

-- name: put_off_due
UPDATE core.due_jobs SET due_time = clock_timestamp() + make_interval(secs => %(delay_s)s)
WHERE tenant = %(tenant)s AND id = %(id)s;
