-- What filters, quotas, history, snapshots and feeds need beside the spine.
--
-- xid is the transaction that made a row: a snapshot is pg_current_snapshot(), and
-- what it saw are the rows whose xid is visible in it; a feed hands out rows below
-- the oldest running transaction, so that none commits behind its position.

ALTER TABLE memoryfs.items
    ADD COLUMN attributes jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN content_bytes int4 NOT NULL DEFAULT 0,
    ADD COLUMN pinned boolean NOT NULL DEFAULT false,
    ADD COLUMN flags int4 NOT NULL DEFAULT 0,
    ADD COLUMN corroboration_count int4 NOT NULL DEFAULT 0,
    ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE memoryfs.item_revisions
    ADD COLUMN attributes jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN content_bytes int4 NOT NULL DEFAULT 0,
    ADD COLUMN pinned boolean NOT NULL DEFAULT false,
    ADD COLUMN flags int4 NOT NULL DEFAULT 0,
    ADD COLUMN corroboration_count int4 NOT NULL DEFAULT 0,
    ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    ADD COLUMN replace_xid xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE memoryfs.item_changes
    ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();

COMMENT ON COLUMN memoryfs.items.attributes IS 'id: attributes to filter by: scalars of at most 256 bytes and lists of them, in plain';
COMMENT ON COLUMN memoryfs.items.content_bytes IS 'id: bytes of the content before sealing';
COMMENT ON COLUMN memoryfs.items.pinned IS 'id: kept by budget eviction before anything else';
COMMENT ON COLUMN memoryfs.items.flags IS 'id: bit n-1 is number n of memoryos.memoryfs.v1.ItemFlag';
COMMENT ON COLUMN memoryfs.items.corroboration_count IS 'id: independent sources beside the first';
COMMENT ON COLUMN memoryfs.items.xid IS 'id: transaction that made this revision';
COMMENT ON COLUMN memoryfs.items.cause IS 'id: number of memoryos.memoryfs.v1.ChangeCause';
COMMENT ON COLUMN memoryfs.item_revisions.attributes IS 'id: as in items';
COMMENT ON COLUMN memoryfs.item_revisions.content_bytes IS 'id: as in items';
COMMENT ON COLUMN memoryfs.item_revisions.pinned IS 'id: as in items';
COMMENT ON COLUMN memoryfs.item_revisions.flags IS 'id: as in items';
COMMENT ON COLUMN memoryfs.item_revisions.corroboration_count IS 'id: as in items';
COMMENT ON COLUMN memoryfs.item_revisions.xid IS 'id: transaction that made this revision';
COMMENT ON COLUMN memoryfs.item_revisions.replace_xid IS 'id: transaction that made the next revision';
COMMENT ON COLUMN memoryfs.item_changes.xid IS 'id: transaction that made this change';
COMMENT ON COLUMN memoryfs.item_changes.cause IS 'id: number of memoryos.memoryfs.v1.ChangeCause';

-- Subtrees by path, changes by transaction, what concerns a user, what was derived from an item.
CREATE INDEX items_by_path ON memoryfs.items (tenant, path_id);
CREATE INDEX items_by_xid ON memoryfs.items (tenant, xid, id);
CREATE INDEX items_by_user ON memoryfs.items (tenant, user_label) WHERE user_label <> '';
CREATE INDEX items_by_source ON memoryfs.items USING gin (tenant, derived_from) WHERE derived_from <> '{}';
CREATE INDEX items_by_event ON memoryfs.items (tenant, event_key_hash) WHERE event_key_hash IS NOT NULL;
CREATE INDEX item_revisions_by_path ON memoryfs.item_revisions (tenant, path_id);
CREATE INDEX item_revisions_by_xid ON memoryfs.item_revisions (tenant, xid, id);
CREATE INDEX item_changes_by_xid ON memoryfs.item_changes (tenant, xid, item_id);

-- Vectors of replaced revisions: Revert and Rollback bring them back without a model.
CREATE TABLE memoryfs.revision_vectors (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    revision int8 NOT NULL,
    model_id text COLLATE "C" NOT NULL,
    vec halfvec NOT NULL,
    PRIMARY KEY (tenant, item_id, revision, model_id)
);
COMMENT ON TABLE memoryfs.revision_vectors IS 'Vectors of replaced revisions; no search reads them.';
COMMENT ON COLUMN memoryfs.revision_vectors.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.revision_vectors.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.revision_vectors.revision IS 'id: revision whose text the vector is of';
COMMENT ON COLUMN memoryfs.revision_vectors.model_id IS 'id: model of the vector';
COMMENT ON COLUMN memoryfs.revision_vectors.vec IS 'id: unit vector in fp16, derived from the content';

-- Work that no reader asked for sees the rows of one tenant; only it deletes.
CREATE POLICY upkeep ON memoryfs.items
    USING (tenant = (SELECT core.tenant()) AND (SELECT core.upkeep()))
    WITH CHECK (tenant = (SELECT core.tenant()) AND (SELECT core.upkeep()));
CREATE POLICY upkeep ON memoryfs.item_revisions
    USING (tenant = (SELECT core.tenant()) AND (SELECT core.upkeep()))
    WITH CHECK (tenant = (SELECT core.tenant()) AND (SELECT core.upkeep()));
-- The tenant's policy of item_changes covers every command; it is narrowed for this one.
CREATE POLICY upkeep_deletes ON memoryfs.item_changes AS RESTRICTIVE FOR DELETE USING ((SELECT core.upkeep()));

GRANT DELETE ON memoryfs.items, memoryfs.item_revisions, memoryfs.item_changes TO memoryos_memoryfs;
GRANT SELECT, INSERT, UPDATE, DELETE ON memoryfs.revision_vectors TO memoryos_memoryfs;
