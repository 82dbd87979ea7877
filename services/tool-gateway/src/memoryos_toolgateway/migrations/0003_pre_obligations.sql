-- What obligations need: what was asked beside what runs, what a result brings into a session, whole texts of cut
-- results, counters, notices; and what ends doubt.

ALTER TABLE toolgateway.calls
    ADD COLUMN asked_arguments bytea,
    ADD COLUMN asked_digest_hmac text NOT NULL DEFAULT '',
    ADD COLUMN facts text[] NOT NULL DEFAULT '{}' CHECK (facts <@ ARRAY ['untrusted_content', 'personal_data']),
    ADD COLUMN fallback boolean NOT NULL DEFAULT false,
    ADD COLUMN full_result_bytes bigint NOT NULL DEFAULT 0,
    ADD COLUMN full_result_sha256 text NOT NULL DEFAULT '',
    ADD COLUMN settle_time timestamptz,
    ADD CHECK ((asked_digest_hmac <> '') = (asked_arguments IS NOT NULL)),
    ADD CHECK ((full_result_bytes > 0) = (full_result_sha256 <> ''));
COMMENT ON COLUMN toolgateway.calls.asked_arguments IS 'content: sealed arguments as asked, where policy changed them; else null';
COMMENT ON COLUMN toolgateway.calls.asked_digest_hmac IS 'id: tenant-keyed HMAC of the digest of the action as asked, where policy changed it; else empty';
COMMENT ON COLUMN toolgateway.calls.facts IS 'id: what its result brings into the session of whoever reads it';
COMMENT ON COLUMN toolgateway.calls.fallback IS 'id: the skill''s fallback answered';
COMMENT ON COLUMN toolgateway.calls.full_result_bytes IS 'id: size of the whole result, where the result was cut; else 0';
COMMENT ON COLUMN toolgateway.calls.full_result_sha256 IS 'id: SHA-256 of the whole result, where the result was cut; else empty';
COMMENT ON COLUMN toolgateway.calls.settle_time IS 'id: database time before which nothing may say of a sent call that it did not happen';
GRANT UPDATE (asked_arguments, facts, fallback, full_result_bytes, full_result_sha256, settle_time)
    ON toolgateway.calls TO memoryos_toolgateway;
CREATE INDEX calls_by_user_id ON toolgateway.calls (tenant, user_name, id);

-- Rates and budgets: one counter a key and length of window. A window begins with the first call that it counts.

CREATE TABLE toolgateway.rate_windows (
    tenant text NOT NULL CHECK (tenant <> ''),
    key_hmac text NOT NULL,
    window_s bigint NOT NULL CHECK (window_s > 0),
    used numeric NOT NULL CHECK (used >= 0),
    end_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, key_hmac, window_s)
);
COMMENT ON TABLE toolgateway.rate_windows IS 'What calls have taken of rates and budgets in the running windows.';
COMMENT ON COLUMN toolgateway.rate_windows.tenant IS 'id: tenant';
COMMENT ON COLUMN toolgateway.rate_windows.key_hmac IS 'id: tenant-keyed HMAC of the key that policy named';
COMMENT ON COLUMN toolgateway.rate_windows.window_s IS 'id: length of the window';
COMMENT ON COLUMN toolgateway.rate_windows.used IS 'id: what was taken in it';
COMMENT ON COLUMN toolgateway.rate_windows.end_time IS 'id: when it ends';
CREATE INDEX rate_windows_end ON toolgateway.rate_windows (tenant, end_time);
ALTER TABLE toolgateway.rate_windows ENABLE ROW LEVEL SECURITY;
ALTER TABLE toolgateway.rate_windows FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON toolgateway.rate_windows USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON toolgateway.rate_windows TO memoryos_toolgateway;

-- Whole texts of results that were cut.

CREATE TABLE toolgateway.full_results (
    tenant text NOT NULL CHECK (tenant <> ''),
    call_id text NOT NULL,
    user_name text NOT NULL,
    content bytea NOT NULL,
    size_bytes bigint NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, call_id)
);
COMMENT ON TABLE toolgateway.full_results IS 'Whole results of calls whose result was cut, for some time.';
COMMENT ON COLUMN toolgateway.full_results.tenant IS 'id: tenant';
COMMENT ON COLUMN toolgateway.full_results.call_id IS 'id: call';
COMMENT ON COLUMN toolgateway.full_results.user_name IS 'id: user on whose behalf';
COMMENT ON COLUMN toolgateway.full_results.content IS 'content: sealed result, JSON, masked as the call''s result is';
COMMENT ON COLUMN toolgateway.full_results.size_bytes IS 'id: its size';
COMMENT ON COLUMN toolgateway.full_results.create_time IS 'id: when it was kept';
CREATE INDEX full_results_by_user ON toolgateway.full_results (tenant, user_name);
CREATE INDEX full_results_by_time ON toolgateway.full_results (tenant, create_time);
ALTER TABLE toolgateway.full_results ENABLE ROW LEVEL SECURITY;
ALTER TABLE toolgateway.full_results FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON toolgateway.full_results USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
GRANT SELECT, INSERT, DELETE ON toolgateway.full_results TO memoryos_toolgateway;

-- Who is told of the end of a call. Made with the dispatch (or the refusal), due with the end.

CREATE TABLE toolgateway.notices (
    tenant text NOT NULL CHECK (tenant <> ''),
    id text NOT NULL,
    call_id text NOT NULL,
    user_name text NOT NULL,
    channel text NOT NULL,
    text text NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, id)
);
COMMENT ON TABLE toolgateway.notices IS 'Notices that policy asked for and that have not arrived.';
COMMENT ON COLUMN toolgateway.notices.tenant IS 'id: tenant';
COMMENT ON COLUMN toolgateway.notices.id IS 'id: call and place among its notices';
COMMENT ON COLUMN toolgateway.notices.call_id IS 'id: call';
COMMENT ON COLUMN toolgateway.notices.user_name IS 'id: user on whose behalf the call is made';
COMMENT ON COLUMN toolgateway.notices.channel IS 'id: channel of the configuration';
COMMENT ON COLUMN toolgateway.notices.text IS 'id: sentence of a policy rule';
COMMENT ON COLUMN toolgateway.notices.tries IS 'id: how often it was sent in vain';
COMMENT ON COLUMN toolgateway.notices.create_time IS 'id: when it was asked for';
CREATE INDEX notices_by_call ON toolgateway.notices (tenant, call_id);
CREATE INDEX notices_by_user ON toolgateway.notices (tenant, user_name);
ALTER TABLE toolgateway.notices ENABLE ROW LEVEL SECURITY;
ALTER TABLE toolgateway.notices FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON toolgateway.notices USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
GRANT SELECT, INSERT, DELETE, UPDATE (tries) ON toolgateway.notices TO memoryos_toolgateway;

-- Queues of all tenants, without content and without row-level security.

CREATE TABLE toolgateway.due_notices (
    tenant text NOT NULL CHECK (tenant <> ''),
    notice_id text NOT NULL,
    due_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, notice_id)
);
COMMENT ON TABLE toolgateway.due_notices IS 'queue: notices of calls that have ended.';
COMMENT ON COLUMN toolgateway.due_notices.tenant IS 'id: tenant';
COMMENT ON COLUMN toolgateway.due_notices.notice_id IS 'id: notice';
COMMENT ON COLUMN toolgateway.due_notices.due_time IS 'id: when it is sent next';
CREATE INDEX due_notices_time ON toolgateway.due_notices (due_time);
GRANT SELECT, INSERT, UPDATE, DELETE ON toolgateway.due_notices TO memoryos_toolgateway;

CREATE TABLE toolgateway.doubts (
    tenant text NOT NULL CHECK (tenant <> ''),
    call_id text NOT NULL,
    due_time timestamptz NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, call_id)
);
COMMENT ON TABLE toolgateway.doubts IS 'queue: calls whose outcome is unknown, for asking their upstream.';
COMMENT ON COLUMN toolgateway.doubts.tenant IS 'id: tenant';
COMMENT ON COLUMN toolgateway.doubts.call_id IS 'id: call';
COMMENT ON COLUMN toolgateway.doubts.due_time IS 'id: when its upstream is asked next';
COMMENT ON COLUMN toolgateway.doubts.tries IS 'id: how often it was asked in vain';
CREATE INDEX doubts_time ON toolgateway.doubts (due_time);
GRANT SELECT, INSERT, UPDATE, DELETE ON toolgateway.doubts TO memoryos_toolgateway;

-- Who ended a doubt, and why.

CREATE TABLE toolgateway.reconciliations (
    tenant text NOT NULL CHECK (tenant <> ''),
    call_id text NOT NULL,
    user_name text NOT NULL,
    by_user text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('happened', 'did_not_happen')),
    comment bytea,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, call_id)
);
COMMENT ON TABLE toolgateway.reconciliations IS 'Calls of unknown outcome that a person or their upstream has ended.';
COMMENT ON COLUMN toolgateway.reconciliations.tenant IS 'id: tenant';
COMMENT ON COLUMN toolgateway.reconciliations.call_id IS 'id: call';
COMMENT ON COLUMN toolgateway.reconciliations.user_name IS 'id: user on whose behalf the call was made';
COMMENT ON COLUMN toolgateway.reconciliations.by_user IS 'id: person whose word it is; empty: the upstream was asked';
COMMENT ON COLUMN toolgateway.reconciliations.outcome IS 'id: what was said';
COMMENT ON COLUMN toolgateway.reconciliations.comment IS 'content: sealed reason of a person';
COMMENT ON COLUMN toolgateway.reconciliations.create_time IS 'id: when';
CREATE INDEX reconciliations_by_user ON toolgateway.reconciliations (tenant, user_name);
CREATE INDEX reconciliations_by_person ON toolgateway.reconciliations (tenant, by_user);
ALTER TABLE toolgateway.reconciliations ENABLE ROW LEVEL SECURITY;
ALTER TABLE toolgateway.reconciliations FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON toolgateway.reconciliations USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
CREATE POLICY erasure_only ON toolgateway.reconciliations AS RESTRICTIVE FOR DELETE USING (core.upkeep());
GRANT SELECT, INSERT, DELETE ON toolgateway.reconciliations TO memoryos_toolgateway;
