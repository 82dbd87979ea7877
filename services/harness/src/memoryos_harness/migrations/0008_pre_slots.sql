-- How many tasks of one tenant are held at once, and which wait for their turn.

ALTER TABLE harness.due_tasks ADD COLUMN waits boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN harness.due_tasks.waits IS 'id: due, and waiting for a slot of its tenant; nobody is woken for it';
CREATE INDEX due_tasks_waiting ON harness.due_tasks (tenant, priority DESC, due_time, task_id) WHERE waits;
CREATE INDEX due_tasks_holding ON harness.due_tasks (tenant) WHERE holder IS NOT NULL;
CREATE INDEX due_tasks_woken ON harness.due_tasks (tenant, due_time) WHERE holder IS NULL AND NOT waits;

-- How many tasks more of a tenant somebody may be woken for, one of them aside: as many as are neither held nor woken
-- for, and no more than a few that are woken for and not yet held. Those stand in the one queue of all tenants, before
-- the others' and whatever their priority is, so they are few.
CREATE FUNCTION harness.slots_free(of_tenant text, but text, slots integer) RETURNS integer
    LANGUAGE sql STABLE
    RETURN (
        WITH held AS (
            SELECT FROM harness.due_tasks
            WHERE tenant = of_tenant AND task_id <> but AND holder IS NOT NULL
            LIMIT slots
        ), woken AS (
            SELECT FROM harness.due_tasks
            WHERE tenant = of_tenant AND task_id <> but AND holder IS NULL AND NOT waits
                AND due_time <= clock_timestamp() AND quiet_until > clock_timestamp()
            LIMIT slots
        )
        SELECT GREATEST(0, LEAST(
            slots - (SELECT count(*) FROM held) - (SELECT count(*) FROM woken),
            8 - (SELECT count(*) FROM woken)
        ))
    )::integer;
COMMENT ON FUNCTION harness.slots_free IS 'Tasks of a tenant for which somebody may be woken, one of them aside.';
GRANT EXECUTE ON FUNCTION harness.slots_free TO memoryos_harness;
