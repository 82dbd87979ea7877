-- Statements of people who let tasks rest, go on and be tried again, and of those who list them. Row security adds
-- tenant and user of the transaction to every one of them; they are written out all the same (I1).

-- name: pause_task
-- Of a task that nobody holds. The epoch grows, so that a worker which comes back late is fenced.
UPDATE harness.tasks
SET state = 'PAUSED', update_time = clock_timestamp(), event_count = event_count + 1, lease_epoch = lease_epoch + 1,
    lease_holder = NULL, lease_expire_time = NULL, park_time = COALESCE(park_time, clock_timestamp()),
    pause_requested = false
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s
RETURNING event_count

-- name: ask_to_pause
UPDATE harness.tasks
SET pause_requested = true, update_time = clock_timestamp()
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s

-- name: take_pause_back
UPDATE harness.tasks
SET pause_requested = false, update_time = clock_timestamp()
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = ANY(%(ids)s) AND pause_requested

-- name: resume_task
-- Time at rest does not count against the deadline.
UPDATE harness.tasks
SET state = 'RETRY', update_time = clock_timestamp(), event_count = event_count + 1,
    deadline_time = deadline_time + COALESCE(clock_timestamp() - park_time, interval '0'), park_time = NULL
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s
RETURNING event_count

-- name: retry_task
-- Attempts count anew. The task has the time that it had left, or all of it again where none was.
UPDATE harness.tasks
SET state = 'RETRY', update_time = clock_timestamp(), event_count = event_count + 1, lease_epoch = lease_epoch + 1,
    attempt = attempt + 1, stalled_attempts = 0, error_code = '', error_message = '',
    deadline_time = clock_timestamp() + CASE
        WHEN deadline_time > COALESCE(end_time, clock_timestamp())
        THEN deadline_time - COALESCE(end_time, clock_timestamp())
        ELSE make_interval(secs => %(seconds)s)
    END,
    park_time = NULL, end_time = NULL, lease_holder = NULL, lease_expire_time = NULL, pause_requested = false
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s
RETURNING event_count

-- name: open_hand_offs
SELECT task_id, id
FROM harness.steps
WHERE tenant = core.tenant() AND user_id = core.user_name() AND task_id = ANY(%(ids)s) AND kind = 'HAND_OFF'
    AND state = 'STARTED'

-- name: answer_hand_off
UPDATE harness.steps
SET state = 'DONE', sealed_output = %(sealed_output)s, end_time = clock_timestamp()
WHERE tenant = core.tenant() AND user_id = core.user_name() AND task_id = %(task_id)s AND id = %(id)s
    AND state = 'STARTED'

-- name: list_tasks
SELECT id, user_id, agent_chain, session_id, agent, agent_version, sealed_input, sealed_output, state, error_code,
    error_message, attempt, lease_epoch, step_count, traceparent, create_time, update_time, end_time, parent_task_id,
    depth, priority, agent_label, token_count, call_count, sealed_agent,
    deadline_time + COALESCE(clock_timestamp() - park_time, interval '0') AS deadline_time
FROM harness.tasks
WHERE tenant = core.tenant() /*whose*/
    AND (create_time, id) < (%(before_time)s, %(before_id)s)
    AND (%(states)s::text[] = '{}' OR state = ANY(%(states)s::text[]))
    AND (%(session_id)s = '' OR session_id = %(session_id)s)
    AND (%(agent)s = '' OR agent = %(agent)s)
    AND (%(parent_task_id)s = '' OR parent_task_id = %(parent_task_id)s)
ORDER BY create_time DESC, id DESC
LIMIT %(limit)s
