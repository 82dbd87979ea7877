-- The effect journal of tool calls.

CREATE TABLE toolgateway.calls (
    tenant text NOT NULL CHECK (tenant <> ''),
    id text NOT NULL,
    issuer text NOT NULL,
    request_id text NOT NULL,
    user_name text NOT NULL,
    chain text[] NOT NULL,
    session_id text NOT NULL,
    task_id text NOT NULL,
    skill text NOT NULL,
    version text NOT NULL,
    definition_digest text NOT NULL,
    effect_class text NOT NULL CHECK (effect_class IN ('read', 'idempotent', 'keyed', 'non_idempotent')),
    action_digest_hmac text NOT NULL,
    arguments bytea NOT NULL,
    state text NOT NULL CHECK (state IN
        ('INTENDED', 'PARKED', 'DISPATCHED', 'SUCCEEDED', 'FAILED', 'UNKNOWN', 'DENIED', 'CANCELLED')),
    dispatches integer NOT NULL DEFAULT 0,
    result bytea,
    error_code text NOT NULL,
    agent_message text NOT NULL,
    decision_id text NOT NULL,
    review_id text NOT NULL DEFAULT '',
    approval_used boolean NOT NULL DEFAULT false,
    lease_epoch bigint NOT NULL,
    traceparent text NOT NULL,
    deadline timestamptz,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    dispatch_time timestamptz,
    end_time timestamptz,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, issuer, request_id),
    -- What one state may be without, no state may have.
    CHECK ((state = 'SUCCEEDED') = (result IS NOT NULL)),
    CHECK ((state = 'DISPATCHED') = (deadline IS NOT NULL)),
    CHECK ((dispatches > 0) = (dispatch_time IS NOT NULL))
);
COMMENT ON TABLE toolgateway.calls IS 'Every tool call: what was decided, sent and known of it.';
COMMENT ON COLUMN toolgateway.calls.tenant IS 'id: tenant';
COMMENT ON COLUMN toolgateway.calls.id IS 'id: name, call_ and a ULID';
COMMENT ON COLUMN toolgateway.calls.issuer IS 'id: whose request_id it is: a service or a principal';
COMMENT ON COLUMN toolgateway.calls.request_id IS 'id: the issuer''s name of the call';
COMMENT ON COLUMN toolgateway.calls.user_name IS 'id: the user on whose behalf';
COMMENT ON COLUMN toolgateway.calls.chain IS 'id: agents between user and call, outermost first';
COMMENT ON COLUMN toolgateway.calls.session_id IS 'id: session, from the token';
COMMENT ON COLUMN toolgateway.calls.task_id IS 'id: task, from the token';
COMMENT ON COLUMN toolgateway.calls.skill IS 'id: skill';
COMMENT ON COLUMN toolgateway.calls.version IS 'id: version of the skill';
COMMENT ON COLUMN toolgateway.calls.definition_digest IS 'id: SHA-256 of the definition that was decided on';
COMMENT ON COLUMN toolgateway.calls.effect_class IS 'id: what the skill does to the world';
COMMENT ON COLUMN toolgateway.calls.action_digest_hmac IS 'id: tenant-keyed HMAC of the action digest';
COMMENT ON COLUMN toolgateway.calls.arguments IS 'content: sealed arguments, canonical JSON; these run, whatever a later request says';
COMMENT ON COLUMN toolgateway.calls.state IS 'id: where it stands';
COMMENT ON COLUMN toolgateway.calls.dispatches IS 'id: how often it was sent';
COMMENT ON COLUMN toolgateway.calls.result IS 'content: sealed result, JSON';
COMMENT ON COLUMN toolgateway.calls.error_code IS 'id: code when it did not succeed';
COMMENT ON COLUMN toolgateway.calls.agent_message IS 'id: safe sentence for the model, from skill files and policy only';
COMMENT ON COLUMN toolgateway.calls.decision_id IS 'id: decision that its state rests on';
COMMENT ON COLUMN toolgateway.calls.review_id IS 'id: review that it waits for or rests on';
COMMENT ON COLUMN toolgateway.calls.approval_used IS 'id: the review was used up by the dispatch';
COMMENT ON COLUMN toolgateway.calls.lease_epoch IS 'id: greatest lease epoch it was asked for with';
COMMENT ON COLUMN toolgateway.calls.traceparent IS 'id: span that first asked for it';
COMMENT ON COLUMN toolgateway.calls.deadline IS 'id: database time after which a dispatched call counts as unknown';
COMMENT ON COLUMN toolgateway.calls.create_time IS 'id: when it was first journaled';
COMMENT ON COLUMN toolgateway.calls.dispatch_time IS 'id: when it was last sent';
COMMENT ON COLUMN toolgateway.calls.end_time IS 'id: when it ended';
CREATE INDEX calls_task_epoch ON toolgateway.calls (tenant, task_id, lease_epoch) WHERE task_id <> '';
ALTER TABLE toolgateway.calls ENABLE ROW LEVEL SECURITY;
ALTER TABLE toolgateway.calls FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON toolgateway.calls USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
GRANT SELECT, INSERT ON toolgateway.calls TO memoryos_toolgateway;
-- Who asked for what is never changed; a call is never deleted by the service.
GRANT UPDATE (state, dispatches, result, error_code, agent_message, decision_id, review_id, approval_used, lease_epoch,
    deadline, dispatch_time, end_time) ON toolgateway.calls TO memoryos_toolgateway;

-- Deadlines of dispatched calls in all tenants, for the sweeper; without content and without row-level security.

CREATE TABLE toolgateway.dispatched (
    tenant text NOT NULL CHECK (tenant <> ''),
    call_id text NOT NULL,
    deadline timestamptz NOT NULL,
    PRIMARY KEY (tenant, call_id)
);
COMMENT ON TABLE toolgateway.dispatched IS 'queue: calls that were sent and have not ended.';
COMMENT ON COLUMN toolgateway.dispatched.tenant IS 'id: tenant';
COMMENT ON COLUMN toolgateway.dispatched.call_id IS 'id: call';
COMMENT ON COLUMN toolgateway.dispatched.deadline IS 'id: when it counts as unknown';
CREATE INDEX dispatched_deadline ON toolgateway.dispatched (deadline);
GRANT SELECT, INSERT, UPDATE, DELETE ON toolgateway.dispatched TO memoryos_toolgateway;
