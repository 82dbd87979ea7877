-- MemoryFS: truth under row-level security, and index tables without content.
--
-- Truth (items, item_revisions, item_changes, paths, principals) forces row-level
-- security: the tenant and the reader come from the transaction's scope. Index
-- tables (item_tokens, item_vectors, parked_vectors, item_embeds, item_access) hold
-- ids, keyed hashes and vectors; they take tenant and principals as arguments, and what
-- they answer is worthless until it is read again under row-level security.
-- Without that split the GIN plans are lost (&& is not leakproof).
--
-- memoryos_owner owns everything; memoryos_memoryfs, the role of the service,
-- owns nothing. Comments begin with the data class of the column.

-- Principals and paths are interned: index rows carry int4.

CREATE TABLE memoryfs.principals (
    tenant text COLLATE "C" NOT NULL,
    id int4 GENERATED ALWAYS AS IDENTITY,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name)
);

CREATE TABLE memoryfs.paths (
    tenant text COLLATE "C" NOT NULL,
    id int4 GENERATED ALWAYS AS IDENTITY,
    key bytea NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, key)
);

-- The ids of the caller's principals, asked once a statement by the policies below.
CREATE FUNCTION memoryfs.reader_ids() RETURNS int4[]
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN ARRAY(
        SELECT p.id FROM memoryfs.principals p
        WHERE p.tenant OPERATOR(pg_catalog.=) core.tenant()
            AND p.name OPERATOR(pg_catalog.=) ANY (core.principals())
    );
END
$$;

CREATE TABLE memoryfs.items (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    path_id int4 NOT NULL,
    sealed bytea NOT NULL,
    event_key_hash bytea,
    tags text[] COLLATE "C" NOT NULL,
    owner int4 NOT NULL,
    user_label text COLLATE "C" NOT NULL,
    acl int4[] NOT NULL,
    sensitivity int2 NOT NULL,
    trust int2 NOT NULL,
    origin int2 NOT NULL,
    confidence float8 NOT NULL,
    importance float8 NOT NULL,
    state int2 NOT NULL,
    forgotten_from int2,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    expire_time timestamptz,
    tier int2 NOT NULL,
    revision int8 NOT NULL,
    etag text COLLATE "C" NOT NULL,
    derived_from text[] COLLATE "C" NOT NULL,
    superseded_by text COLLATE "C" NOT NULL,
    embedding_model text COLLATE "C" NOT NULL,
    embed_state int2 NOT NULL,
    actor text COLLATE "C" NOT NULL,
    cause int2 NOT NULL,
    trace_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- What an owner has, newest first; what is shared with a principal; what still lacks a vector.
CREATE INDEX items_by_owner ON memoryfs.items (tenant, owner, create_time DESC, id DESC);
CREATE INDEX items_by_reader ON memoryfs.items USING gin (tenant, acl);
CREATE INDEX items_pending ON memoryfs.items (tenant) WHERE embed_state = 2 AND state = 2;

COMMENT ON TABLE memoryfs.items IS 'One row per item: its current revision.';
COMMENT ON COLUMN memoryfs.items.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.items.id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.items.path_id IS 'id: place, see paths';
COMMENT ON COLUMN memoryfs.items.sealed IS 'content: path, content, attributes, event key and source, sealed under the key of the data subject';
COMMENT ON COLUMN memoryfs.items.event_key_hash IS 'id: tenant-keyed hash of the event key';
COMMENT ON COLUMN memoryfs.items.tags IS 'id: labels to filter by';
COMMENT ON COLUMN memoryfs.items.owner IS 'id: principal that owns it';
COMMENT ON COLUMN memoryfs.items.user_label IS 'id: whom it concerns, a label without rights; empty: nobody stated';
COMMENT ON COLUMN memoryfs.items.acl IS 'id: principals beside the owner that may read it';
COMMENT ON COLUMN memoryfs.items.sensitivity IS 'id: clearance that a reader needs';
COMMENT ON COLUMN memoryfs.items.trust IS 'id: number of memoryos.memoryfs.v1.Trust';
COMMENT ON COLUMN memoryfs.items.origin IS 'id: number of memoryos.memoryfs.v1.Origin';
COMMENT ON COLUMN memoryfs.items.confidence IS 'id: 0..1 after the caps';
COMMENT ON COLUMN memoryfs.items.importance IS 'id: 0..1';
COMMENT ON COLUMN memoryfs.items.state IS 'id: number of memoryos.memoryfs.v1.State';
COMMENT ON COLUMN memoryfs.items.forgotten_from IS 'id: state to which Restore brings it back';
COMMENT ON COLUMN memoryfs.items.valid_from IS 'id: first instant at which it holds in the world';
COMMENT ON COLUMN memoryfs.items.valid_to IS 'id: first instant at which it no longer holds';
COMMENT ON COLUMN memoryfs.items.create_time IS 'id: when the item was made';
COMMENT ON COLUMN memoryfs.items.update_time IS 'id: when this revision was made';
COMMENT ON COLUMN memoryfs.items.expire_time IS 'id: when it stops being served';
COMMENT ON COLUMN memoryfs.items.tier IS 'id: number of memoryos.memoryfs.v1.Tier';
COMMENT ON COLUMN memoryfs.items.revision IS 'id: number of this revision, from 1';
COMMENT ON COLUMN memoryfs.items.etag IS 'id: changes with every revision';
COMMENT ON COLUMN memoryfs.items.derived_from IS 'id: items it was made from';
COMMENT ON COLUMN memoryfs.items.superseded_by IS 'id: item that replaced it';
COMMENT ON COLUMN memoryfs.items.embedding_model IS 'id: model of its vector; empty while pending';
COMMENT ON COLUMN memoryfs.items.embed_state IS 'id: number of memoryos.memoryfs.v1.EmbedState';
COMMENT ON COLUMN memoryfs.items.actor IS 'id: principal that made this revision';
COMMENT ON COLUMN memoryfs.items.cause IS 'id: 1 write, 2 update, 3 forget, 4 restore';
COMMENT ON COLUMN memoryfs.items.trace_id IS 'id: trace in which this revision was made';

-- History: the old row moves here when an update replaces it.
CREATE TABLE memoryfs.item_revisions (
    LIKE memoryfs.items INCLUDING COMMENTS,
    replace_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, id, revision)
);
COMMENT ON TABLE memoryfs.item_revisions IS 'Earlier revisions of items, never changed.';
COMMENT ON COLUMN memoryfs.item_revisions.replace_time IS 'id: when the next revision was made';

-- Forget and Restore make no revision: the item comes back exactly as it was.
CREATE TABLE memoryfs.item_changes (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    change_time timestamptz NOT NULL,
    from_state int2 NOT NULL,
    to_state int2 NOT NULL,
    actor text COLLATE "C" NOT NULL,
    cause int2 NOT NULL,
    trace_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, item_id, change_time)
);
COMMENT ON TABLE memoryfs.item_changes IS 'Changes of state that make no revision: forgotten, restored.';
COMMENT ON COLUMN memoryfs.item_changes.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.item_changes.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.item_changes.change_time IS 'id: when, by the database clock';
COMMENT ON COLUMN memoryfs.item_changes.from_state IS 'id: state before';
COMMENT ON COLUMN memoryfs.item_changes.to_state IS 'id: state after';
COMMENT ON COLUMN memoryfs.item_changes.actor IS 'id: principal that made the change';
COMMENT ON COLUMN memoryfs.item_changes.cause IS 'id: 3 forget, 4 restore';
COMMENT ON COLUMN memoryfs.item_changes.trace_id IS 'id: trace in which it was made';

COMMENT ON TABLE memoryfs.principals IS 'Principals by number, for ACLs.';
COMMENT ON COLUMN memoryfs.principals.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.principals.id IS 'id: number in ACLs';
COMMENT ON COLUMN memoryfs.principals.name IS 'id: typed principal, e.g. user:u42';

COMMENT ON TABLE memoryfs.paths IS 'Places by number; their names stand only in sealed payloads.';
COMMENT ON COLUMN memoryfs.paths.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.paths.id IS 'id: number in items';
COMMENT ON COLUMN memoryfs.paths.key IS 'id: tenant-keyed hashes of the place and all its ancestors, 8 bytes each';

-- The lexical index. A row holds what BM25 needs: keyed hashes of the distinct
-- words, how often each occurs, and the length of the text.
CREATE TABLE memoryfs.item_tokens (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    path_id int4 NOT NULL,
    acl int4[] NOT NULL,
    create_time timestamptz NOT NULL,
    expire_time timestamptz,
    hashes int8[] NOT NULL,
    counts int2[] NOT NULL,
    length int4 NOT NULL,
    PRIMARY KEY (tenant, item_id)
) WITH (
    -- Index-only scans need the visibility map: vacuum after 5 % of new rows.
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_scale_factor = 0.05
);
CREATE INDEX item_tokens_by_hash ON memoryfs.item_tokens USING gin (tenant, hashes);
CREATE INDEX item_tokens_by_expiry ON memoryfs.item_tokens (expire_time) WHERE expire_time IS NOT NULL;
-- Newest first, and how many items of which length a reader has: answered by the index alone.
CREATE INDEX item_tokens_by_time ON memoryfs.item_tokens (tenant, create_time DESC, item_id DESC)
    INCLUDE (acl, path_id, length);

COMMENT ON TABLE memoryfs.item_tokens IS 'Words and order of active items; derived, no row-level security.';
COMMENT ON COLUMN memoryfs.item_tokens.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.item_tokens.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.item_tokens.path_id IS 'id: place';
COMMENT ON COLUMN memoryfs.item_tokens.acl IS 'id: owner and readers';
COMMENT ON COLUMN memoryfs.item_tokens.create_time IS 'id: when the item was made';
COMMENT ON COLUMN memoryfs.item_tokens.expire_time IS 'id: when the item stops being served; the sweep removes the row then';
COMMENT ON COLUMN memoryfs.item_tokens.hashes IS 'id: tenant-keyed BLAKE2b-64 of the distinct words';
COMMENT ON COLUMN memoryfs.item_tokens.counts IS 'id: how often each of them occurs';
COMMENT ON COLUMN memoryfs.item_tokens.length IS 'id: words in the text';

-- Vectors of items that are in no index: candidates, forgotten ones. Read by Restore only.
CREATE TABLE memoryfs.parked_vectors (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    model_id text COLLATE "C" NOT NULL,
    vec halfvec NOT NULL,
    PRIMARY KEY (tenant, item_id, model_id)
);
COMMENT ON TABLE memoryfs.parked_vectors IS 'Vectors of items that no search may find.';
COMMENT ON COLUMN memoryfs.parked_vectors.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.parked_vectors.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.parked_vectors.model_id IS 'id: model of the vector';
COMMENT ON COLUMN memoryfs.parked_vectors.vec IS 'id: unit vector in fp16, derived from the content';

-- Due queue of items without a vector: names only, read across tenants by the worker.
CREATE TABLE memoryfs.item_embeds (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    attempts int4 NOT NULL DEFAULT 0,
    due_time timestamptz NOT NULL,
    failed_time timestamptz,
    last_reason text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, item_id)
);
CREATE INDEX item_embeds_due ON memoryfs.item_embeds (due_time) WHERE failed_time IS NULL;

COMMENT ON TABLE memoryfs.item_embeds IS 'Items that wait for a vector; failed_time marks those given up.';
COMMENT ON COLUMN memoryfs.item_embeds.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.item_embeds.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.item_embeds.owner IS 'id: principal as which the worker reads it';
COMMENT ON COLUMN memoryfs.item_embeds.attempts IS 'id: tries so far';
COMMENT ON COLUMN memoryfs.item_embeds.due_time IS 'id: not to be tried before';
COMMENT ON COLUMN memoryfs.item_embeds.failed_time IS 'id: when it was given up';
COMMENT ON COLUMN memoryfs.item_embeds.last_reason IS 'id: error reason of the last try';

-- Use of items, beside no index: every hit would rewrite it.
CREATE TABLE memoryfs.item_access (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    hits int8 NOT NULL,
    last_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, item_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE memoryfs.item_access IS 'How often Read gave an item back.';
COMMENT ON COLUMN memoryfs.item_access.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.item_access.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.item_access.hits IS 'id: number of answers that held it';
COMMENT ON COLUMN memoryfs.item_access.last_time IS 'id: last of them';

-- Row-level security. The sub-selects make each function run once a statement.

ALTER TABLE memoryfs.principals ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.principals FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.principals
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));

ALTER TABLE memoryfs.paths ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.paths FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.paths
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));

ALTER TABLE memoryfs.items ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.items FORCE ROW LEVEL SECURITY;
CREATE POLICY readable ON memoryfs.items FOR SELECT USING (
    tenant = (SELECT core.tenant())
    AND (owner = ANY ((SELECT memoryfs.reader_ids())::int4[]) OR acl && (SELECT memoryfs.reader_ids()))
);
CREATE POLICY own_insert ON memoryfs.items FOR INSERT WITH CHECK (
    tenant = (SELECT core.tenant()) AND owner = ANY ((SELECT memoryfs.reader_ids())::int4[])
);
CREATE POLICY own_update ON memoryfs.items FOR UPDATE
    USING (tenant = (SELECT core.tenant()) AND owner = ANY ((SELECT memoryfs.reader_ids())::int4[]))
    WITH CHECK (tenant = (SELECT core.tenant()) AND owner = ANY ((SELECT memoryfs.reader_ids())::int4[]));

ALTER TABLE memoryfs.item_revisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.item_revisions FORCE ROW LEVEL SECURITY;
CREATE POLICY readable ON memoryfs.item_revisions FOR SELECT USING (
    tenant = (SELECT core.tenant())
    AND (owner = ANY ((SELECT memoryfs.reader_ids())::int4[]) OR acl && (SELECT memoryfs.reader_ids()))
);
CREATE POLICY own_insert ON memoryfs.item_revisions FOR INSERT WITH CHECK (
    tenant = (SELECT core.tenant()) AND owner = ANY ((SELECT memoryfs.reader_ids())::int4[])
);

ALTER TABLE memoryfs.item_changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.item_changes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.item_changes
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));

GRANT SELECT, INSERT ON memoryfs.principals, memoryfs.paths TO memoryos_memoryfs;
GRANT SELECT, INSERT, UPDATE ON memoryfs.items TO memoryos_memoryfs;
GRANT SELECT, INSERT ON memoryfs.item_revisions, memoryfs.item_changes TO memoryos_memoryfs;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    memoryfs.item_tokens, memoryfs.parked_vectors, memoryfs.item_embeds, memoryfs.item_access TO memoryos_memoryfs;
GRANT EXECUTE ON FUNCTION memoryfs.reader_ids() TO memoryos_memoryfs;
