-- Jobs of every service, and the scope of work that no reader asked for.

-- A transaction of `Database.upkeep`: erasure, retention, rollback by an administrator, verification.
-- It sees the rows of one tenant whoever may read them; policies say so by name.
CREATE FUNCTION core.upkeep() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(pg_catalog.current_setting('memoryos.upkeep', true), '') = 'on'
$$;
GRANT EXECUTE ON FUNCTION core.upkeep() TO
    memoryos_memoryfs, memoryos_harness, memoryos_toolgateway, memoryos_policy;

CREATE TABLE core.jobs (
    tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''),
    id text COLLATE "C" NOT NULL,
    service text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    state int2 NOT NULL DEFAULT 1,
    phase text COLLATE "C" NOT NULL DEFAULT '',
    done_count int8 NOT NULL DEFAULT 0,
    total_count int8 NOT NULL DEFAULT 0,
    user_name text COLLATE "C" NOT NULL,
    input bytea NOT NULL,
    checkpoint jsonb NOT NULL DEFAULT '{}',
    result jsonb NOT NULL DEFAULT '{}',
    error_reason text COLLATE "C" NOT NULL DEFAULT '',
    attempts int4 NOT NULL DEFAULT 0,
    faults int4 NOT NULL DEFAULT 0,
    epoch int8 NOT NULL DEFAULT 0,
    cancel_requested boolean NOT NULL DEFAULT false,
    trace_parent text COLLATE "C" NOT NULL DEFAULT '',
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    start_time timestamptz,
    end_time timestamptz,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX jobs_by_time ON core.jobs (tenant, service, create_time DESC, id DESC);
COMMENT ON TABLE core.jobs IS 'Long operations: where each stands, and what it needs to go on.';
COMMENT ON COLUMN core.jobs.tenant IS 'id: tenant';
COMMENT ON COLUMN core.jobs.id IS 'id: name of the job';
COMMENT ON COLUMN core.jobs.service IS 'id: service that works on it';
COMMENT ON COLUMN core.jobs.kind IS 'id: what it does';
COMMENT ON COLUMN core.jobs.state IS 'id: number of memoryos.jobs.v1.JobState';
COMMENT ON COLUMN core.jobs.phase IS 'id: step that it is in';
COMMENT ON COLUMN core.jobs.done_count IS 'id: units done';
COMMENT ON COLUMN core.jobs.total_count IS 'id: units in all, 0: not known';
COMMENT ON COLUMN core.jobs.user_name IS 'id: user who asked for it';
COMMENT ON COLUMN core.jobs.input IS 'content: scope of its caller and what was asked for, sealed under the key of that user; empty once it has ended';
COMMENT ON COLUMN core.jobs.checkpoint IS 'id: ids and counts from which it goes on';
COMMENT ON COLUMN core.jobs.result IS 'id: counts, names and digests';
COMMENT ON COLUMN core.jobs.error_reason IS 'id: why it failed';
COMMENT ON COLUMN core.jobs.attempts IS 'id: times a process took it up';
COMMENT ON COLUMN core.jobs.faults IS 'id: times it was taken up since it last came further';
COMMENT ON COLUMN core.jobs.epoch IS 'id: number of the lease; an earlier holder can write nothing';
COMMENT ON COLUMN core.jobs.cancel_requested IS 'id: it was asked to stop';
COMMENT ON COLUMN core.jobs.trace_parent IS 'id: trace that it continues';
COMMENT ON COLUMN core.jobs.create_time IS 'id: when it was asked for';
COMMENT ON COLUMN core.jobs.start_time IS 'id: when a process first took it up';
COMMENT ON COLUMN core.jobs.end_time IS 'id: when it ended';
ALTER TABLE core.jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE core.jobs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON core.jobs USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());

-- Content-free queue: who works on which job until when.
CREATE TABLE core.due_jobs (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    service text COLLATE "C" NOT NULL,
    due_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, id)
);
CREATE INDEX due_jobs_by_tenant ON core.due_jobs (service, tenant, due_time);
COMMENT ON TABLE core.due_jobs IS 'Jobs that are not ended; due_time is when the next process may take one up (the lease of the present one).';
COMMENT ON COLUMN core.due_jobs.tenant IS 'id: tenant';
COMMENT ON COLUMN core.due_jobs.id IS 'id: name of the job';
COMMENT ON COLUMN core.due_jobs.service IS 'id: service that works on it';
COMMENT ON COLUMN core.due_jobs.due_time IS 'id: not to be taken up before, by the database clock';

GRANT SELECT, INSERT, UPDATE, DELETE ON core.jobs, core.due_jobs TO
    memoryos_memoryfs, memoryos_harness, memoryos_toolgateway, memoryos_policy;
