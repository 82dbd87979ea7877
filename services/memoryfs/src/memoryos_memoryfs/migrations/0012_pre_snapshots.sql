-- Named points in the history of a subtree, and which revision a change of state was made to.
--
-- A snapshot keeps the text of a pg_snapshot: it had seen the revisions and changes whose
-- xid is visible in it. So it costs one row, however large the subtree is.

CREATE TABLE memoryfs.snapshots (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    path_key bytea NOT NULL,
    sealed bytea NOT NULL,
    channel text COLLATE "C" NOT NULL,
    point text COLLATE "C" NOT NULL,
    create_time timestamptz NOT NULL,
    actor text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    whole bool NOT NULL,
    item_counts jsonb NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX snapshots_by_path ON memoryfs.snapshots (tenant, path_key, channel, create_time DESC, id DESC);

COMMENT ON TABLE memoryfs.snapshots IS 'Named points in the history of subtrees.';
COMMENT ON COLUMN memoryfs.snapshots.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.snapshots.id IS 'id: name of the snapshot';
COMMENT ON COLUMN memoryfs.snapshots.path_key IS 'id: tenant-keyed hashes of the subtree and its ancestors, as in paths';
COMMENT ON COLUMN memoryfs.snapshots.sealed IS 'personal: path and title, sealed under the key of its maker';
COMMENT ON COLUMN memoryfs.snapshots.channel IS 'id: release channel';
COMMENT ON COLUMN memoryfs.snapshots.point IS 'id: a pg_snapshot: transactions that it had seen';
COMMENT ON COLUMN memoryfs.snapshots.create_time IS 'id: the instant that it stands for, by the database clock';
COMMENT ON COLUMN memoryfs.snapshots.actor IS 'id: principal that made it';
COMMENT ON COLUMN memoryfs.snapshots.owner IS 'id: user on whose behalf it was made, as a principal';
COMMENT ON COLUMN memoryfs.snapshots.whole IS 'id: made by a tenant-admin: item_counts are of every owner, else of its maker';
COMMENT ON COLUMN memoryfs.snapshots.item_counts IS 'id: items by place, see paths; forgotten ones too';

ALTER TABLE memoryfs.snapshots ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.snapshots FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON memoryfs.snapshots
    USING (
        tenant = (SELECT core.tenant())
        AND (
            owner = ANY ((SELECT core.principals())::text[])
            OR 'role:tenant-admin' = ANY ((SELECT core.principals())::text[])
            OR (SELECT core.upkeep())
        )
    )
    WITH CHECK (
        tenant = (SELECT core.tenant())
        AND (owner = ANY ((SELECT core.principals())::text[]) OR (SELECT core.upkeep()))
    );
GRANT SELECT, INSERT, DELETE ON memoryfs.snapshots TO memoryos_memoryfs;

-- Order of what became of an item: by revision, then the changes of state that were made to it.
ALTER TABLE memoryfs.item_changes ADD COLUMN revision int8 NOT NULL DEFAULT 1;
COMMENT ON COLUMN memoryfs.item_changes.revision IS 'id: revision whose state was changed';
ALTER TABLE memoryfs.item_changes NO FORCE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.item_revisions NO FORCE ROW LEVEL SECURITY;
UPDATE memoryfs.item_changes AS c SET revision = 1 + (
    SELECT count(*) FROM memoryfs.item_revisions AS r
    WHERE r.tenant = c.tenant AND r.id = c.item_id AND r.replace_time <= c.change_time
);
ALTER TABLE memoryfs.item_changes FORCE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.item_revisions FORCE ROW LEVEL SECURITY;

-- What an item replaced.
CREATE INDEX items_by_successor ON memoryfs.items (tenant, superseded_by) WHERE superseded_by <> '';
