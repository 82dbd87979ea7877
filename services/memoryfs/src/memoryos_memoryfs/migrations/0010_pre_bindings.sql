-- Bindings: paths attached to a session, a task or an agent of a user; a ceiling, never a grant.

CREATE TABLE memoryfs.bindings (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    kind int2 NOT NULL,
    target_hash bytea NOT NULL,
    sealed bytea NOT NULL,
    owns_working_memory bool NOT NULL,
    ended bool NOT NULL,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, owner, target_hash),
    CHECK (kind IN (1, 2, 3))
);
COMMENT ON TABLE memoryfs.bindings IS 'Ceilings of the calls of a session, a task or an agent.';
COMMENT ON COLUMN memoryfs.bindings.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.bindings.id IS 'id: name of the binding';
COMMENT ON COLUMN memoryfs.bindings.owner IS 'id: user whose calls it bounds';
COMMENT ON COLUMN memoryfs.bindings.kind IS 'id: 1 session, 2 task, 3 agent';
COMMENT ON COLUMN memoryfs.bindings.target_hash IS 'id: tenant-keyed hash of kind and name of the target';
COMMENT ON COLUMN memoryfs.bindings.sealed IS 'personal: name of the target and paths, sealed under the key of the user';
COMMENT ON COLUMN memoryfs.bindings.owns_working_memory IS 'id: working items of the target are forgotten when it ends';
COMMENT ON COLUMN memoryfs.bindings.ended IS 'id: its time is over and its working memory is forgotten';
COMMENT ON COLUMN memoryfs.bindings.create_time IS 'id: when it was made';
COMMENT ON COLUMN memoryfs.bindings.expire_time IS 'id: when it ends unless it is renewed';

ALTER TABLE memoryfs.bindings ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.bindings FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON memoryfs.bindings
    USING (tenant = (SELECT core.tenant()) AND owner = ANY ((SELECT core.principals())::text[]))
    WITH CHECK (tenant = (SELECT core.tenant()) AND owner = ANY ((SELECT core.principals())::text[]));
-- Work that no reader asked for sees the rows of one tenant.
CREATE POLICY upkeep ON memoryfs.bindings
    USING (tenant = (SELECT core.tenant()) AND (SELECT core.upkeep()))
    WITH CHECK (tenant = (SELECT core.tenant()) AND (SELECT core.upkeep()));

-- When somebody must look at a binding next: names and times only, read across tenants.
CREATE TABLE memoryfs.due_bindings (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    due_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX due_bindings_by_time ON memoryfs.due_bindings (due_time);
COMMENT ON TABLE memoryfs.due_bindings IS 'Bindings by the time at which they end; no row-level security.';
COMMENT ON COLUMN memoryfs.due_bindings.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.due_bindings.id IS 'id: name of the binding';
COMMENT ON COLUMN memoryfs.due_bindings.owner IS 'id: user as whom it is ended';
COMMENT ON COLUMN memoryfs.due_bindings.due_time IS 'id: not to be looked at before';

-- Which working items came from which task or session; what it names is read again under row-level security.
CREATE TABLE memoryfs.working_items (
    tenant text COLLATE "C" NOT NULL,
    target_hash bytea NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, target_hash, item_id)
);
COMMENT ON TABLE memoryfs.working_items IS 'Working items by the task and session they came from; derived, no row-level security.';
COMMENT ON COLUMN memoryfs.working_items.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.working_items.target_hash IS 'id: tenant-keyed hash of a task or a session';
COMMENT ON COLUMN memoryfs.working_items.item_id IS 'id: name of the item';

GRANT SELECT, INSERT, UPDATE, DELETE ON
    memoryfs.bindings, memoryfs.due_bindings, memoryfs.working_items TO memoryos_memoryfs;
