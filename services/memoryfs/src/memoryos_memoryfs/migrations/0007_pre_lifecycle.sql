-- What becomes of items: what says the same, who said it, what a candidate's life was to be, and words of cold items.
--
-- item_claims and cold_tokens are indexes (no content, no row-level security: what they name is read again under it).
-- item_evidence, candidate_lives and change_reasons are truth of one tenant.

CREATE TABLE memoryfs.item_claims (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    signature int8 NOT NULL,
    PRIMARY KEY (tenant, item_id)
);
CREATE INDEX item_claims_by_signature ON memoryfs.item_claims (tenant, signature);
COMMENT ON TABLE memoryfs.item_claims IS 'Where re-statements of an item are found; derived, no row-level security.';
COMMENT ON COLUMN memoryfs.item_claims.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.item_claims.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.item_claims.signature IS 'id: tenant-keyed hash of the words that carry its meaning';

CREATE TABLE memoryfs.item_evidence (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    source_hash bytea NOT NULL,
    actor text COLLATE "C" NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, item_id, source_hash)
);
COMMENT ON TABLE memoryfs.item_evidence IS 'Sources that said the same as an item, beside its own.';
COMMENT ON COLUMN memoryfs.item_evidence.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.item_evidence.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.item_evidence.source_hash IS 'id: tenant-keyed hash of a message, a page of a document or a tool call';
COMMENT ON COLUMN memoryfs.item_evidence.actor IS 'id: principal that brought it';
COMMENT ON COLUMN memoryfs.item_evidence.create_time IS 'id: when, by the database clock';

CREATE TABLE memoryfs.candidate_lives (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    expire_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, item_id)
);
COMMENT ON TABLE memoryfs.candidate_lives IS 'The end that was asked for an item which is a candidate and ends within a day.';
COMMENT ON COLUMN memoryfs.candidate_lives.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.candidate_lives.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.candidate_lives.expire_time IS 'id: when it stops being served once it is promoted';

CREATE TABLE memoryfs.change_reasons (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    revision int8 NOT NULL,
    sealed bytea NOT NULL,
    PRIMARY KEY (tenant, item_id, revision)
);
COMMENT ON TABLE memoryfs.change_reasons IS 'Why somebody promoted or disputed an item, in words.';
COMMENT ON COLUMN memoryfs.change_reasons.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.change_reasons.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.change_reasons.revision IS 'id: revision that the change made';
COMMENT ON COLUMN memoryfs.change_reasons.sealed IS 'content: the reason, sealed under the key of the data subject';

-- Words of cold items, apart: who does not ask for them pays nothing for them. Same columns as item_tokens, always.
CREATE TABLE memoryfs.cold_tokens (
    LIKE memoryfs.item_tokens INCLUDING DEFAULTS INCLUDING COMMENTS,
    PRIMARY KEY (tenant, item_id)
);
CREATE INDEX cold_tokens_by_hash ON memoryfs.cold_tokens USING gin (tenant, hashes);
CREATE INDEX cold_tokens_by_expiry ON memoryfs.cold_tokens (expire_time) WHERE expire_time IS NOT NULL;
CREATE INDEX cold_tokens_by_time ON memoryfs.cold_tokens (tenant, create_time DESC, item_id DESC)
    INCLUDE (acl, path_id, length);
COMMENT ON TABLE memoryfs.cold_tokens IS 'Words and order of active items that are cold; derived, no row-level security.';

CREATE VIEW memoryfs.all_tokens WITH (security_invoker = true) AS
    SELECT * FROM memoryfs.item_tokens UNION ALL SELECT * FROM memoryfs.cold_tokens;
COMMENT ON VIEW memoryfs.all_tokens IS 'Words of hot and cold items.';

-- How the upkeep of a tenant went last; it is also the queue: names and times only.
CREATE TABLE memoryfs.upkeep_runs (
    tenant text COLLATE "C" NOT NULL,
    due_time timestamptz NOT NULL,
    end_time timestamptz,
    duration_s float8 NOT NULL DEFAULT 0,
    cold_count int8 NOT NULL DEFAULT 0,
    expired_count int8 NOT NULL DEFAULT 0,
    evicted_count int8 NOT NULL DEFAULT 0,
    last_reason text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (tenant)
);
CREATE INDEX upkeep_runs_due ON memoryfs.upkeep_runs (due_time);
COMMENT ON TABLE memoryfs.upkeep_runs IS 'Upkeep of tiers, retention and budgets by tenant: when it is due, what the last one did.';
COMMENT ON COLUMN memoryfs.upkeep_runs.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.upkeep_runs.due_time IS 'id: not to be run before';
COMMENT ON COLUMN memoryfs.upkeep_runs.end_time IS 'id: end of the last run';
COMMENT ON COLUMN memoryfs.upkeep_runs.duration_s IS 'id: seconds it took';
COMMENT ON COLUMN memoryfs.upkeep_runs.cold_count IS 'id: items that it made cold';
COMMENT ON COLUMN memoryfs.upkeep_runs.expired_count IS 'id: items whose retention had ended';
COMMENT ON COLUMN memoryfs.upkeep_runs.evicted_count IS 'id: items beyond the budget of their path';
COMMENT ON COLUMN memoryfs.upkeep_runs.last_reason IS 'id: error reason of a run that failed';

ALTER TABLE memoryfs.item_evidence ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.item_evidence FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.item_evidence
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));
ALTER TABLE memoryfs.change_reasons ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.change_reasons FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.change_reasons
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));
ALTER TABLE memoryfs.candidate_lives ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.candidate_lives FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.candidate_lives
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));

GRANT SELECT ON memoryfs.all_tokens TO memoryos_memoryfs;
GRANT SELECT, INSERT, UPDATE, DELETE ON memoryfs.cold_tokens,
    memoryfs.item_claims, memoryfs.item_evidence, memoryfs.candidate_lives, memoryfs.change_reasons,
    memoryfs.upkeep_runs TO memoryos_memoryfs;
