-- Schema harness_queue: the job queue of procrastinate 3.10.0 (MIT licence), which wakes workers.
--
-- Its jobs carry a tenant and a task id, nothing else. The tables are the package's
-- own (`include` takes its schema file; another version of it is refused until a new
-- migration says how to get there). Functions are pinned to their schema, so that a
-- job can be deferred inside a transaction that has another search_path.

CREATE SCHEMA harness_queue;
COMMENT ON SCHEMA harness_queue IS 'system: job queue of procrastinate; ids only';
REVOKE ALL ON SCHEMA harness_queue FROM PUBLIC;
SET LOCAL search_path = harness_queue;

-- include: procrastinate/sql/schema.sql

RESET search_path;

DO $$
DECLARE
    routine regprocedure;
BEGIN
    FOR routine IN SELECT oid FROM pg_proc WHERE pronamespace = 'harness_queue'::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = harness_queue, pg_temp', routine);
    END LOOP;
END
$$;

GRANT USAGE ON SCHEMA harness_queue TO memoryos_harness;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA harness_queue TO memoryos_harness;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA harness_queue TO memoryos_harness;
