-- Tasks that rest, are retried, have parents and children, and steps of new kinds.

ALTER TABLE harness.tasks
    DROP CONSTRAINT tasks_state_check,
    ADD CONSTRAINT tasks_state_check CHECK (state IN ('IDLE', 'THINKING', 'TOOL_CALLING', 'RESPONDING',
        'WAITING_REVIEW', 'CANCELLING', 'FAILED', 'SUCCEEDED', 'DEAD', 'CANCELLED', 'PAUSED', 'RETRY', 'WAITING_TASK')),
    ADD COLUMN parent_task_id text,
    ADD COLUMN depth integer NOT NULL DEFAULT 0,
    ADD COLUMN priority smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 9),
    ADD COLUMN agent_label text NOT NULL DEFAULT '',
    -- Rows of before have no parent, and the owner may not look at them without a scope to check that.
    ADD FOREIGN KEY (tenant, parent_task_id) REFERENCES harness.tasks (tenant, id) NOT VALID,
    ADD CHECK ((parent_task_id IS NULL) = (depth = 0));
COMMENT ON COLUMN harness.tasks.parent_task_id IS 'id: task whose agent started it; null for one that was submitted';
COMMENT ON COLUMN harness.tasks.depth IS 'id: parents above it';
COMMENT ON COLUMN harness.tasks.priority IS 'id: sooner when higher';
COMMENT ON COLUMN harness.tasks.agent_label IS 'id: release label of the agent version';
CREATE INDEX tasks_by_parent ON harness.tasks (tenant, parent_task_id) WHERE parent_task_id IS NOT NULL;
CREATE INDEX tasks_by_user ON harness.tasks (tenant, user_id, create_time DESC, id DESC);
CREATE INDEX tasks_by_time ON harness.tasks (tenant, create_time DESC, id DESC);
CREATE INDEX sessions_by_user ON harness.sessions (tenant, user_id, last_active_time DESC, id DESC);
CREATE INDEX sessions_by_time ON harness.sessions (tenant, last_active_time DESC, id DESC);

ALTER TABLE harness.steps
    DROP CONSTRAINT steps_kind_check,
    ADD CONSTRAINT steps_kind_check CHECK (kind IN ('MODEL_CALL', 'MEMORY_READ', 'TOOL_CALL', 'CHILD_TASK',
        'PAGE_OUT', 'HAND_OFF')),
    ADD COLUMN child_task_id text;
COMMENT ON COLUMN harness.steps.child_task_id IS 'id: task of the sub-agent that the step started';

ALTER TABLE harness.due_tasks ADD COLUMN priority smallint NOT NULL DEFAULT 0;
COMMENT ON COLUMN harness.due_tasks.priority IS 'id: sooner when higher';
