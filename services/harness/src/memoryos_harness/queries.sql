-- Statements of Harness. Row security adds tenant and user of the transaction to
-- every one of them; they are written out all the same (I1).

-- name: insert_session
INSERT INTO harness.sessions (tenant, id, user_id)
VALUES (core.tenant(), %(id)s, core.user_name())
RETURNING id, user_id, create_time, last_active_time, turn_count

-- name: get_session
SELECT id, user_id, create_time, last_active_time, turn_count
FROM harness.sessions
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s

-- name: extend_session
-- Takes the next places in a session; the row lock puts writers in order.
UPDATE harness.sessions
SET message_count = message_count + %(messages)s,
    worded_count = worded_count + CASE WHEN worded_count = message_count THEN %(messages)s ELSE 0 END,
    turn_count = turn_count + %(turns)s,
    last_active_time = clock_timestamp()
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s
RETURNING message_count

-- name: insert_message
INSERT INTO harness.messages
    (tenant, session_id, sequence, id, user_id, role, sealed_content, tool_call_id, tool_name, token_count)
VALUES (core.tenant(), %(session_id)s, %(sequence)s, %(id)s, core.user_name(), %(role)s, %(sealed_content)s,
    %(tool_call_id)s, %(tool_name)s, %(token_count)s)

-- name: list_messages
SELECT id, sequence, role, sealed_content, tool_call_id, tool_name, token_count, create_time
FROM harness.messages
WHERE tenant = core.tenant() AND user_id = core.user_name() AND session_id = %(session_id)s
    AND sequence > %(after)s
ORDER BY sequence
LIMIT %(limit)s

-- name: last_messages
SELECT id, sequence, role, sealed_content, tool_call_id, tool_name, token_count, create_time
FROM harness.messages
WHERE tenant = core.tenant() AND user_id = core.user_name() AND session_id = %(session_id)s
    AND sequence < %(before)s
ORDER BY sequence DESC
LIMIT %(limit)s

-- name: insert_task
INSERT INTO harness.tasks
    (tenant, id, user_id, agent_chain, session_id, question_sequence, agent, agent_version, agent_label,
     sealed_agent, sealed_grant, sealed_input, deadline_time, traceparent, event_count, parent_task_id, depth, priority)
VALUES (core.tenant(), %(id)s, core.user_name(), %(agent_chain)s, %(session_id)s, %(question_sequence)s, %(agent)s,
    %(agent_version)s, %(agent_label)s, %(sealed_agent)s, %(sealed_grant)s, %(sealed_input)s,
    clock_timestamp() + make_interval(secs => %(seconds)s), %(traceparent)s, 1, %(parent_task_id)s, %(depth)s,
    COALESCE(%(priority)s, (
        SELECT parent.priority
        FROM harness.tasks AS parent
        WHERE parent.tenant = core.tenant() AND parent.user_id = core.user_name() AND parent.id = %(parent_task_id)s
    ), 0))

-- name: get_task
SELECT id, user_id, agent_chain, session_id, agent, agent_version, sealed_input, sealed_output, state, error_code,
    error_message, attempt, lease_epoch, step_count, traceparent, create_time, update_time, end_time, parent_task_id,
    depth, priority, agent_label, token_count, call_count, sealed_agent,
    deadline_time + COALESCE(clock_timestamp() - park_time, interval '0') AS deadline_time
FROM harness.tasks
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s

-- name: look_at_claim
-- Locks the task; `held` are the other tasks of the tenant that are held, at most as many as it has slots.
SELECT state, (
        SELECT count(*) FROM (
            SELECT FROM harness.due_tasks AS due
            WHERE due.tenant = core.tenant() AND due.task_id <> %(id)s AND due.holder IS NOT NULL
            LIMIT %(slots)s
        ) AS others
    ) AS held
FROM harness.tasks
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s
FOR NO KEY UPDATE

-- name: claim_task
-- The compare-and-set that makes one worker the holder: of a task that nobody
-- holds, whose lease ran out, or whose worker is gone (its session lock is free).
-- The last two are attempts that died; the first claim and the one after FAILED,
-- which is RETRY from then on, start one. A task at rest is not taken.
-- The row was locked by a statement before: one that locks and changes would see
-- columns of two versions of a row that somebody else has just changed.
UPDATE harness.tasks
SET lease_epoch = lease_epoch + 1,
    lease_holder = %(holder)s,
    lease_expire_time = clock_timestamp() + make_interval(secs => %(lease_s)s),
    attempt = attempt + CASE WHEN attempt = 0 OR lease_holder IS NOT NULL OR state = 'FAILED' THEN 1 ELSE 0 END,
    state = CASE WHEN state = 'FAILED' THEN 'RETRY' ELSE state END,
    event_count = event_count + CASE WHEN state = 'FAILED' THEN 1 ELSE 0 END,
    stalled_attempts = stalled_attempts + CASE WHEN lease_holder IS NOT NULL THEN 1 ELSE 0 END,
    update_time = clock_timestamp()
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s
    AND end_time IS NULL AND state <> 'PAUSED'
    AND (lease_holder IS NULL OR lease_expire_time <= clock_timestamp()
        OR pg_try_advisory_xact_lock_shared(harness.presence_key(lease_holder)))
RETURNING lease_epoch, state, event_count, pause_requested,
    session_id, question_sequence, sealed_agent, sealed_grant, sealed_input, attempt,
    stalled_attempts, step_count, token_count, call_count, traceparent,
    update_time AS claim_time,
    extract(epoch FROM deadline_time - COALESCE(park_time, clock_timestamp()))::float8 AS seconds_left,
    COALESCE(extract(epoch FROM clock_timestamp() - park_time), 0)::float8 AS parked_s

-- name: extend_lease
UPDATE harness.tasks
SET lease_expire_time = clock_timestamp() + make_interval(secs => %(lease_s)s)
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s
    AND lease_epoch = %(epoch)s AND lease_holder IS NOT NULL
RETURNING state

-- name: lock_task
-- NO KEY: a second UPDATE of a child's row in one transaction looks at its parent's row (FOR KEY SHARE, by the foreign
-- key), which must not wait for somebody who holds the parent and waits for the child.
SELECT id, state, lease_epoch, stalled_attempts, pause_requested, lease_holder IS NOT NULL AS held,
    COALESCE(lease_expire_time > clock_timestamp(), false) AS live
FROM harness.tasks
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s
FOR NO KEY UPDATE

-- name: move_task
-- Every change that a worker makes to a task. The lease epoch is its fence: a
-- worker whose task was taken over changes nothing.
UPDATE harness.tasks
SET state = %(state)s,
    update_time = clock_timestamp(),
    step_count = step_count + %(steps)s,
    token_count = token_count + %(tokens)s,
    call_count = call_count + %(calls)s,
    event_count = event_count + %(events)s,
    stalled_attempts = CASE WHEN %(progress)s THEN 0 ELSE stalled_attempts + %(stalled)s END,
    deadline_time = deadline_time
        + CASE WHEN %(parked)s THEN interval '0' ELSE COALESCE(clock_timestamp() - park_time, interval '0') END
        - make_interval(secs => %(charged_s)s),
    park_time = CASE WHEN %(parked)s THEN COALESCE(park_time, clock_timestamp()) END,
    lease_holder = CASE WHEN %(held)s THEN lease_holder END,
    lease_expire_time = CASE WHEN %(held)s THEN lease_expire_time END,
    pause_requested = pause_requested AND NOT (%(ended)s OR %(state)s = 'PAUSED'),
    error_code = %(error_code)s,
    error_message = %(error_message)s,
    sealed_output = %(sealed_output)s,
    end_time = CASE WHEN %(ended)s THEN clock_timestamp() END
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s
    AND lease_epoch = %(epoch)s AND lease_holder IS NOT NULL
RETURNING event_count, step_count, stalled_attempts, session_id, agent, agent_chain, traceparent,
    update_time, parent_task_id

-- name: lock_parent
-- Before the row of the task itself: locks go from the top of a family to its bottom.
SELECT id
FROM harness.tasks
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = (
    SELECT child.parent_task_id
    FROM harness.tasks AS child
    WHERE child.tenant = core.tenant() AND child.user_id = core.user_name() AND child.id = %(id)s
)
FOR NO KEY UPDATE

-- name: lock_children
SELECT id, parent_task_id, state, lease_epoch, COALESCE(lease_expire_time > clock_timestamp(), false) AS live
FROM harness.tasks
WHERE tenant = core.tenant() AND user_id = core.user_name() AND parent_task_id = ANY(%(ids)s) AND end_time IS NULL
ORDER BY id
FOR NO KEY UPDATE

-- name: living_children
SELECT EXISTS (
    SELECT
    FROM harness.tasks
    WHERE tenant = core.tenant() AND user_id = core.user_name() AND parent_task_id = %(id)s AND end_time IS NULL
)

-- name: waiting_parent
-- The parent of a task that has ended, when it waits and nothing else that it waits for goes on.
SELECT parent.id
FROM harness.tasks AS child
JOIN harness.tasks AS parent ON parent.tenant = child.tenant AND parent.id = child.parent_task_id
WHERE child.tenant = core.tenant() AND child.user_id = core.user_name() AND child.id = %(id)s
    AND parent.user_id = core.user_name() AND parent.state IN ('WAITING_TASK', 'CANCELLING')
    AND parent.lease_holder IS NULL
    AND NOT EXISTS (
        SELECT
        FROM harness.tasks AS other
        WHERE other.tenant = core.tenant() AND other.user_id = core.user_name()
            AND other.parent_task_id = parent.id AND other.end_time IS NULL
    )

-- name: release_task
UPDATE harness.tasks
SET lease_holder = NULL, lease_expire_time = NULL, stalled_attempts = stalled_attempts + %(stalled)s,
    update_time = clock_timestamp()
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s
    AND lease_epoch = %(epoch)s AND lease_holder IS NOT NULL

-- name: cancel_task
-- By the task's user, who holds no lease: the epoch grows when the task ends, so
-- that a worker which comes back late is fenced.
UPDATE harness.tasks
SET state = %(state)s,
    update_time = clock_timestamp(),
    event_count = event_count + 1,
    lease_epoch = lease_epoch + CASE WHEN %(ended)s THEN 1 ELSE 0 END,
    lease_holder = CASE WHEN NOT %(ended)s THEN lease_holder END,
    lease_expire_time = CASE WHEN NOT %(ended)s THEN lease_expire_time END,
    deadline_time = deadline_time + COALESCE(clock_timestamp() - park_time, interval '0'),
    park_time = NULL,
    pause_requested = false,
    end_time = CASE WHEN %(ended)s THEN clock_timestamp() END
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s
RETURNING id, event_count, session_id, agent, agent_chain, parent_task_id

-- name: insert_event
INSERT INTO harness.task_events (tenant, task_id, sequence, user_id, state, step_id)
VALUES (core.tenant(), %(task_id)s, %(sequence)s, core.user_name(), %(state)s, %(step_id)s)

-- name: list_events
SELECT sequence, state, step_id, create_time
FROM harness.task_events
WHERE tenant = core.tenant() AND user_id = core.user_name() AND task_id = %(task_id)s AND sequence > %(after)s
ORDER BY sequence
LIMIT %(limit)s

-- name: insert_step
INSERT INTO harness.steps
    (tenant, task_id, sequence, id, user_id, kind, state, target, sealed_input, lease_epoch)
VALUES (core.tenant(), %(task_id)s, %(sequence)s, %(id)s, core.user_name(), %(kind)s, 'STARTED', %(target)s,
    %(sealed_input)s, %(epoch)s)

-- name: insert_child_step
INSERT INTO harness.steps
    (tenant, task_id, sequence, id, user_id, kind, state, target, sealed_input, lease_epoch, child_task_id)
VALUES (core.tenant(), %(task_id)s, %(sequence)s, %(id)s, core.user_name(), 'CHILD_TASK', 'STARTED', %(target)s,
    %(sealed_input)s, %(epoch)s, %(child_task_id)s)

-- name: children_of_steps
-- Of the steps that wait; `seconds_left` is what a child that has ended left of its time.
SELECT step.id AS step_id, child.id, child.state, child.end_time, child.error_code, child.error_message,
    child.sealed_agent, child.sealed_output, child.token_count, child.call_count,
    extract(epoch FROM child.deadline_time - COALESCE(child.end_time, clock_timestamp()))::float8 AS seconds_left
FROM harness.steps AS step
JOIN harness.tasks AS child ON child.tenant = step.tenant AND child.id = step.child_task_id
WHERE step.tenant = core.tenant() AND step.user_id = core.user_name() AND child.user_id = core.user_name()
    AND step.task_id = %(task_id)s AND step.state = 'STARTED'
ORDER BY step.sequence

-- name: restart_step
UPDATE harness.steps
SET lease_epoch = %(epoch)s
WHERE tenant = core.tenant() AND user_id = core.user_name() AND task_id = %(task_id)s AND id = %(id)s
    AND state = 'STARTED'

-- name: finish_step
UPDATE harness.steps
SET state = %(state)s,
    sealed_output = %(sealed_output)s,
    call_id = %(call_id)s,
    decision_id = %(decision_id)s,
    review_id = %(review_id)s,
    item_ids = %(item_ids)s,
    lease_epoch = %(epoch)s,
    end_time = clock_timestamp()
WHERE tenant = core.tenant() AND user_id = core.user_name() AND task_id = %(task_id)s AND id = %(id)s
    AND state = 'STARTED'

-- name: give_up_step
UPDATE harness.steps
SET state = %(state)s, sealed_output = %(sealed_output)s, lease_epoch = %(epoch)s, end_time = clock_timestamp()
WHERE tenant = core.tenant() AND user_id = core.user_name() AND task_id = %(task_id)s AND id = %(id)s
    AND state = 'STARTED'

-- name: park_step
UPDATE harness.steps
SET call_id = %(call_id)s, decision_id = %(decision_id)s, review_id = %(review_id)s, lease_epoch = %(epoch)s
WHERE tenant = core.tenant() AND user_id = core.user_name() AND task_id = %(task_id)s AND id = %(id)s
    AND state = 'STARTED'

-- name: list_steps
SELECT id, sequence, kind, state, target, sealed_input, sealed_output, call_id, decision_id, review_id, item_ids,
    lease_epoch, create_time, end_time, child_task_id
FROM harness.steps
WHERE tenant = core.tenant() AND user_id = core.user_name() AND task_id = %(task_id)s AND sequence > %(after)s
ORDER BY sequence
LIMIT %(limit)s

-- name: steps_by_id
SELECT id, sequence, kind, state, target, sealed_input, sealed_output, call_id, decision_id, review_id, item_ids,
    lease_epoch, create_time, end_time, child_task_id
FROM harness.steps
WHERE tenant = core.tenant() AND user_id = core.user_name() AND task_id = %(task_id)s AND id = ANY(%(ids)s)

-- name: open_steps
SELECT id
FROM harness.steps
WHERE tenant = core.tenant() AND user_id = core.user_name() AND task_id = %(task_id)s AND state = 'STARTED'

-- name: user_of_due_task
SELECT user_id FROM harness.due_tasks WHERE tenant = %(tenant)s AND task_id = %(task_id)s

-- name: set_due
-- Of a task that is held.
INSERT INTO harness.due_tasks (tenant, task_id, user_id, due_time, quiet_until, holder)
VALUES (core.tenant(), %(task_id)s, core.user_name(), clock_timestamp() + make_interval(secs => %(after_s)s),
    clock_timestamp() + make_interval(secs => %(after_s)s), %(holder)s)
ON CONFLICT (tenant, task_id) DO UPDATE
SET due_time = EXCLUDED.due_time, quiet_until = EXCLUDED.quiet_until, holder = EXCLUDED.holder, waits = false

-- name: wake_task
WITH due AS (
    INSERT INTO harness.due_tasks AS due (tenant, task_id, user_id, due_time, quiet_until, holder, priority, waits)
    SELECT core.tenant(), task.id, core.user_name(), clock_timestamp() + make_interval(secs => %(after_s)s::float8),
        clock_timestamp() + make_interval(secs => %(after_s)s::float8 + %(quiet_s)s::float8), NULL, task.priority,
        %(after_s)s::float8 <= 0 AND harness.slots_free(task.tenant, task.id, %(slots)s) = 0
    FROM harness.tasks AS task
    WHERE task.tenant = core.tenant() AND task.user_id = core.user_name() AND task.id = %(task_id)s
        AND task.state <> 'PAUSED'  -- nobody is woken for a task at rest
    ON CONFLICT (tenant, task_id) DO UPDATE
    SET due_time = EXCLUDED.due_time, quiet_until = EXCLUDED.quiet_until, holder = NULL, priority = EXCLUDED.priority,
        waits = EXCLUDED.waits
    RETURNING due.tenant, due.task_id, due.waits
)
SELECT harness_queue.procrastinate_defer_jobs_v1(ARRAY[ROW(
    %(queue)s::varchar, %(task_name)s::varchar, 0, NULL::text, NULL::text,
    jsonb_build_object('tenant', due.tenant, 'task_id', due.task_id),
    CASE WHEN %(after_s)s::float8 > 0 THEN clock_timestamp() + make_interval(secs => %(after_s)s::float8) END
)]::harness_queue.procrastinate_job_to_defer_v1[])
FROM due
WHERE NOT due.waits

-- name: lock_slots
-- Claims of one tenant go one after the other: two at once would both see the last slot free.
SELECT pg_advisory_xact_lock(hashtextextended('memoryos_harness.slots:' || core.tenant(), 0))

-- name: wait_for_slot
UPDATE harness.due_tasks
SET waits = true
WHERE tenant = core.tenant() AND task_id = %(task_id)s AND holder IS NULL

-- name: give_slots
-- Of the transaction's tenant: as many tasks as it has slots free, in the order of priority and age.
WITH next AS (
    SELECT task_id
    FROM harness.due_tasks
    WHERE tenant = core.tenant() AND waits
    ORDER BY priority DESC, due_time, task_id
    LIMIT harness.slots_free(core.tenant(), '', %(slots)s)
    FOR UPDATE SKIP LOCKED
), given AS (
    UPDATE harness.due_tasks AS due
    SET waits = false, quiet_until = clock_timestamp() + make_interval(secs => %(quiet_s)s)
    FROM next
    WHERE due.tenant = core.tenant() AND due.task_id = next.task_id
    RETURNING due.tenant, due.task_id
)
SELECT harness_queue.procrastinate_defer_jobs_v1(ARRAY[ROW(
    %(queue)s::varchar, %(task_name)s::varchar, 0, NULL::text, NULL::text,
    jsonb_build_object('tenant', given.tenant, 'task_id', given.task_id), NULL::timestamptz
)]::harness_queue.procrastinate_job_to_defer_v1[])
FROM given

-- name: give_all_slots
-- The same by the sweeper, of all tenants.
WITH next AS (
    SELECT waiting.tenant, waiting.task_id
    FROM (SELECT DISTINCT tenant FROM harness.due_tasks WHERE waits) AS one
    CROSS JOIN LATERAL (
        SELECT due.tenant, due.task_id
        FROM harness.due_tasks AS due
        WHERE due.tenant = one.tenant AND due.waits
        ORDER BY due.priority DESC, due.due_time, due.task_id
        LIMIT harness.slots_free(one.tenant, '', %(slots)s)
        FOR UPDATE SKIP LOCKED
    ) AS waiting
)
UPDATE harness.due_tasks AS due
SET waits = false, quiet_until = clock_timestamp() + make_interval(secs => %(quiet_s)s)
FROM next
WHERE due.tenant = next.tenant AND due.task_id = next.task_id
RETURNING due.tenant, due.task_id

-- name: note_sweep
UPDATE harness.sweeps SET last_time = clock_timestamp()

-- name: since_sweep
SELECT extract(epoch FROM clock_timestamp() - last_time)::float8 FROM harness.sweeps

-- name: clear_due
DELETE FROM harness.due_tasks WHERE tenant = core.tenant() AND task_id = %(task_id)s

-- name: show_presence
SELECT pg_advisory_lock(harness.presence_key(%(holder)s))

-- name: due_of_gone_workers
-- The lock of a worker that lives cannot be had; of one that is gone it can.
-- What somebody else is at is left to the next sweep: waiting for it could be waited for.
WITH gone AS (
    SELECT tenant, task_id
    FROM harness.due_tasks
    WHERE holder IS NOT NULL AND pg_try_advisory_xact_lock_shared(harness.presence_key(holder))
    FOR UPDATE SKIP LOCKED
)
UPDATE harness.due_tasks AS due
SET due_time = clock_timestamp(), quiet_until = clock_timestamp(), holder = NULL
FROM gone
WHERE due.tenant = gone.tenant AND due.task_id = gone.task_id

-- name: wake_due
-- Whoever locks a row first sends its wake-up; the other sweeper passes over it.
WITH due AS (
    SELECT tenant, task_id
    FROM harness.due_tasks
    WHERE due_time <= clock_timestamp() AND quiet_until <= clock_timestamp() AND NOT waits
    ORDER BY due_time
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE harness.due_tasks AS task
SET quiet_until = clock_timestamp() + make_interval(secs => %(quiet_s)s)
FROM due
WHERE task.tenant = due.tenant AND task.task_id = due.task_id
RETURNING task.tenant, task.task_id

-- name: defer_job
SELECT harness_queue.procrastinate_defer_jobs_v1(ARRAY[ROW(
    %(queue)s::varchar, %(task_name)s::varchar, 0, NULL::text, NULL::text,
    jsonb_build_object('tenant', %(tenant)s::text, 'task_id', %(task_id)s::text),
    CASE WHEN %(after_s)s::float8 > 0 THEN clock_timestamp() + make_interval(secs => %(after_s)s::float8) END
)]::harness_queue.procrastinate_job_to_defer_v1[])

-- name: clear_lost_jobs
DELETE FROM harness_queue.procrastinate_jobs AS job
WHERE job.status = 'doing' AND NOT EXISTS (
    SELECT 1 FROM harness_queue.procrastinate_workers AS worker
    WHERE worker.id = job.worker_id
        AND worker.last_heartbeat >= clock_timestamp() - make_interval(secs => %(silent_s)s)
)

-- name: notify_task
SELECT pg_notify('memoryos_harness_task', %(payload)s)
