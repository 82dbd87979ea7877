-- Items that a purge has named are out of every path with its answer: no Restore, no Rollback and no Revert
-- brings one back in the time until the job has removed it. A row goes with its item.
CREATE TABLE memoryfs.frozen_items (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, item_id)
);
COMMENT ON TABLE memoryfs.frozen_items IS 'Items that are being erased by name; a row goes with its item.';
COMMENT ON COLUMN memoryfs.frozen_items.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.frozen_items.item_id IS 'id: name of an item';
ALTER TABLE memoryfs.frozen_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.frozen_items FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.frozen_items
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));

-- Asked once a statement; nearly always there is none.
CREATE FUNCTION memoryfs.frozen_ids() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN ARRAY(SELECT f.item_id FROM memoryfs.frozen_items f WHERE f.tenant OPERATOR(pg_catalog.=) core.tenant());
END
$$;
CREATE POLICY not_frozen ON memoryfs.items AS RESTRICTIVE FOR SELECT USING (
    (SELECT core.upkeep()) OR id <> ALL ((SELECT memoryfs.frozen_ids())::text[])
);
CREATE POLICY not_frozen ON memoryfs.item_revisions AS RESTRICTIVE FOR SELECT USING (
    (SELECT core.upkeep()) OR id <> ALL ((SELECT memoryfs.frozen_ids())::text[])
);
GRANT SELECT, INSERT, DELETE ON memoryfs.frozen_items TO memoryos_memoryfs;
GRANT EXECUTE ON FUNCTION memoryfs.frozen_ids() TO memoryos_memoryfs;
