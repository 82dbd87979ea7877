-- Who holds a task, beside when its lease runs out: a worker that is gone (its
-- session lock is free, see presence_key) is not waited for.

ALTER TABLE harness.due_tasks ADD COLUMN holder text;
COMMENT ON COLUMN harness.due_tasks.holder IS 'id: worker that holds the task; null while nobody does';
CREATE INDEX due_tasks_held ON harness.due_tasks (holder) WHERE holder IS NOT NULL;

CREATE FUNCTION harness.presence_key(holder text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hashtextextended('memoryos_harness.worker:' || holder, 0);
COMMENT ON FUNCTION harness.presence_key IS
    'Key of the advisory lock that a worker holds as long as its process lives.';
