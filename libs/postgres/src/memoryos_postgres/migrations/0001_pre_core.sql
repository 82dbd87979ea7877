-- Schema core: scope functions, data keys, idempotency, audit and its seals.
--
-- Conventions that every migration keeps (checked by memoryos_testing.schema):
--   * tenant is the first column of every primary, foreign and unique key; a table
--     without tenant says so by a comment that starts with "system:";
--   * tables of truth have FORCE ROW LEVEL SECURITY;
--   * every column has a comment "<class>: <what>", class = id | personal | content | secret,
--     and a personal, content or secret column is bytea (sealed).

GRANT USAGE ON SCHEMA core TO
    memoryos_memoryfs, memoryos_harness, memoryos_toolgateway, memoryos_policy, memoryos_sealer;

-- The scope of a transaction: memoryos_postgres.Database sets it. After a scoped
-- transaction a setting is empty, not unset; both raise.
-- In policies write `tenant = core.tenant()` (an index condition, evaluated once) and
-- `acl && (SELECT core.principals())` (the sub-select keeps it from running per row).

CREATE FUNCTION core.tenant() RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    value text := pg_catalog.current_setting('memoryos.tenant', true);
BEGIN
    IF value IS NULL OR value = '' THEN
        RAISE EXCEPTION 'the transaction has no tenant' USING ERRCODE = 'MO001';
    END IF;
    RETURN value;
END
$$;

CREATE FUNCTION core.principals() RETURNS text[] LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    value text := pg_catalog.current_setting('memoryos.principals', true);
BEGIN
    IF value IS NULL OR value = '' OR value = '{}' THEN
        RAISE EXCEPTION 'the transaction has no principals' USING ERRCODE = 'MO001';
    END IF;
    RETURN value::text[];
END
$$;

CREATE FUNCTION core.user_name() RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    value text := pg_catalog.current_setting('memoryos.user', true);
BEGIN
    IF value IS NULL OR value = '' THEN
        RAISE EXCEPTION 'the transaction has no user' USING ERRCODE = 'MO001';
    END IF;
    RETURN value;
END
$$;

CREATE FUNCTION core.clearance() RETURNS integer LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    value text := pg_catalog.current_setting('memoryos.clearance', true);
BEGIN
    IF value IS NULL OR value = '' THEN
        RAISE EXCEPTION 'the transaction has no clearance' USING ERRCODE = 'MO001';
    END IF;
    RETURN value::integer;
END
$$;

-- Data keys, one per tenant and data subject, wrapped by the epoch key. A destroyed key is a deleted row.

CREATE TABLE core.data_keys (
    tenant text NOT NULL CHECK (tenant <> ''),
    key_id bytea NOT NULL CHECK (octet_length(key_id) = 16),
    subject_hmac text NOT NULL,
    wrapped bytea NOT NULL,
    epoch_id text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, key_id),
    UNIQUE (tenant, subject_hmac)
);
COMMENT ON TABLE core.data_keys IS 'Keys that seal what concerns one data subject; deleting one erases the subject.';
COMMENT ON COLUMN core.data_keys.tenant IS 'id: tenant';
COMMENT ON COLUMN core.data_keys.key_id IS 'id: random name of the key, the head of every value it sealed';
COMMENT ON COLUMN core.data_keys.subject_hmac IS 'id: tenant-keyed HMAC of the data subject, or "root" for the key the others derive from';
COMMENT ON COLUMN core.data_keys.wrapped IS 'secret: the key, sealed by the epoch key';
COMMENT ON COLUMN core.data_keys.epoch_id IS 'id: which epoch key wraps it';
COMMENT ON COLUMN core.data_keys.create_time IS 'id: when it was made';
ALTER TABLE core.data_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE core.data_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON core.data_keys USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
GRANT SELECT, INSERT ON core.data_keys TO
    memoryos_memoryfs, memoryos_harness, memoryos_toolgateway, memoryos_policy;

-- Answers of mutating calls, written in the transaction of the write they answer, kept 7 days.

CREATE TABLE core.idempotency (
    tenant text NOT NULL CHECK (tenant <> ''),
    principal text NOT NULL,
    rpc text NOT NULL,
    request_id text NOT NULL,
    body_hmac text NOT NULL,
    response bytea,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, principal, rpc, request_id)
);
COMMENT ON TABLE core.idempotency IS 'The first answer to each request_id.';
COMMENT ON COLUMN core.idempotency.tenant IS 'id: tenant';
COMMENT ON COLUMN core.idempotency.principal IS 'id: who called; another caller''s request_id is another key';
COMMENT ON COLUMN core.idempotency.rpc IS 'id: full method name';
COMMENT ON COLUMN core.idempotency.request_id IS 'id: the caller''s name of this request';
COMMENT ON COLUMN core.idempotency.body_hmac IS 'id: tenant-keyed HMAC of the request';
COMMENT ON COLUMN core.idempotency.response IS 'content: the sealed answer; null only while its transaction runs';
COMMENT ON COLUMN core.idempotency.create_time IS 'id: when it was called';
CREATE INDEX idempotency_age ON core.idempotency (tenant, create_time);
ALTER TABLE core.idempotency ENABLE ROW LEVEL SECURITY;
ALTER TABLE core.idempotency FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON core.idempotency USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
GRANT SELECT, INSERT, UPDATE (response), DELETE ON core.idempotency TO
    memoryos_memoryfs, memoryos_harness, memoryos_toolgateway, memoryos_policy;

-- Audit: append-only. Order for the seal is (xid, seq): every row of a transaction below
-- the oldest running one is committed and visible, so nothing can appear there later.

CREATE TABLE core.audit (
    tenant text NOT NULL CHECK (tenant <> ''),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind text NOT NULL,
    service text NOT NULL,
    method text,
    user_name text,
    actor text,
    chain text[],
    session_id text,
    task_id text,
    call_id text,
    decision_id text,
    trace_id text,
    target_type text,
    target_ids text[],
    target_hmac text,
    outcome text NOT NULL,
    reason text,
    count integer NOT NULL DEFAULT 1,
    duration_us bigint,
    attributes jsonb,
    PRIMARY KEY (tenant, seq)
);
COMMENT ON TABLE core.audit IS 'Who did what to which things with which result: ids and keyed HMACs only.';
COMMENT ON COLUMN core.audit.tenant IS 'id: tenant; "/unknown" when the caller could not be verified';
COMMENT ON COLUMN core.audit.seq IS 'id: name of the row, order of insertion';
COMMENT ON COLUMN core.audit.xid IS 'id: the transaction of the row and of what it records';
COMMENT ON COLUMN core.audit.create_time IS 'id: database clock at insertion';
COMMENT ON COLUMN core.audit.kind IS 'id: MEMORY_WRITE, CALL_TOOL, … (memoryos_audit.Kind)';
COMMENT ON COLUMN core.audit.service IS 'id: service that wrote the row';
COMMENT ON COLUMN core.audit.method IS 'id: RPC';
COMMENT ON COLUMN core.audit.user_name IS 'id: the user on whose behalf';
COMMENT ON COLUMN core.audit.actor IS 'id: principal that acted, the innermost agent or the user';
COMMENT ON COLUMN core.audit.chain IS 'id: agents between user and act, outermost first';
COMMENT ON COLUMN core.audit.session_id IS 'id: session, from the token';
COMMENT ON COLUMN core.audit.task_id IS 'id: task, from the token';
COMMENT ON COLUMN core.audit.call_id IS 'id: tool call';
COMMENT ON COLUMN core.audit.decision_id IS 'id: policy decision';
COMMENT ON COLUMN core.audit.trace_id IS 'id: trace';
COMMENT ON COLUMN core.audit.target_type IS 'id: kind of thing acted on';
COMMENT ON COLUMN core.audit.target_ids IS 'id: things acted on, all of one call';
COMMENT ON COLUMN core.audit.target_hmac IS 'id: tenant-keyed HMAC of a target that has no id';
COMMENT ON COLUMN core.audit.outcome IS 'id: OK, DENIED, ERROR or UNKNOWN';
COMMENT ON COLUMN core.audit.reason IS 'id: reason code when the outcome is not OK';
COMMENT ON COLUMN core.audit.count IS 'id: how many equal events the row stands for';
COMMENT ON COLUMN core.audit.duration_us IS 'id: how long it took, microseconds';
COMMENT ON COLUMN core.audit.attributes IS 'id: further ids and codes by name';
CREATE INDEX audit_order ON core.audit (xid, seq);
CREATE INDEX audit_task ON core.audit (tenant, task_id) WHERE task_id IS NOT NULL;
CREATE INDEX audit_call ON core.audit (tenant, call_id) WHERE call_id IS NOT NULL;
ALTER TABLE core.audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE core.audit FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON core.audit USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
CREATE POLICY sealer ON core.audit FOR SELECT TO memoryos_sealer USING (true);
-- Not seq, xid and create_time: the database says them. No UPDATE and no DELETE for anybody.
GRANT SELECT, INSERT (tenant, kind, service, method, user_name, actor, chain, session_id, task_id, call_id, decision_id,
    trace_id, target_type, target_ids, target_hmac, outcome, reason, count, duration_us, attributes)
    ON core.audit TO memoryos_memoryfs, memoryos_harness, memoryos_toolgateway, memoryos_policy;
GRANT SELECT ON core.audit TO memoryos_sealer;

CREATE TABLE core.audit_seals (
    block bigint PRIMARY KEY CHECK (block > 0),
    xid_from xid8 NOT NULL,
    xid_to xid8 NOT NULL,
    row_count bigint NOT NULL,
    rows_hash bytea NOT NULL,
    previous_hash bytea NOT NULL,
    hash bytea NOT NULL,
    key_id text NOT NULL,
    signature bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE core.audit_seals IS 'system: the chain over all audit rows, in blocks; one sealer appends.';
COMMENT ON COLUMN core.audit_seals.block IS 'id: place in the chain, from 1 without gaps';
COMMENT ON COLUMN core.audit_seals.xid_from IS 'id: first transaction covered, the xid_to of the block before';
COMMENT ON COLUMN core.audit_seals.xid_to IS 'id: first transaction not covered';
COMMENT ON COLUMN core.audit_seals.row_count IS 'id: audit rows covered';
COMMENT ON COLUMN core.audit_seals.rows_hash IS 'id: SHA-256 over the digests of the rows in order (xid, seq)';
COMMENT ON COLUMN core.audit_seals.previous_hash IS 'id: hash of the block before';
COMMENT ON COLUMN core.audit_seals.hash IS 'id: SHA-256 over all of the above';
COMMENT ON COLUMN core.audit_seals.key_id IS 'id: which key signed';
COMMENT ON COLUMN core.audit_seals.signature IS 'id: Ed25519 over the hash';
COMMENT ON COLUMN core.audit_seals.create_time IS 'id: when it was sealed';
GRANT SELECT, INSERT ON core.audit_seals TO memoryos_sealer;
