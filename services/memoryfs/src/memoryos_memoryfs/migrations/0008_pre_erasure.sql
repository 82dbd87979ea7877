-- Purge: what is being erased is invisible at once, whoever asks and however (row-level security);
-- its rows go batch by batch.

CREATE TABLE memoryfs.erasures (
    tenant text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    user_name text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, job_id)
);
COMMENT ON TABLE memoryfs.erasures IS 'People who are being erased; a row goes with the end of its job.';
COMMENT ON COLUMN memoryfs.erasures.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.erasures.job_id IS 'id: purge job';
COMMENT ON COLUMN memoryfs.erasures.user_name IS 'id: user who is erased';

CREATE TABLE memoryfs.erased_items (
    tenant text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, job_id, item_id)
);
COMMENT ON TABLE memoryfs.erased_items IS 'Names of what a running purge has removed, to search for it everywhere; they go with the end of the job.';
COMMENT ON COLUMN memoryfs.erased_items.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.erased_items.job_id IS 'id: purge job';
COMMENT ON COLUMN memoryfs.erased_items.item_id IS 'id: name of an item';

ALTER TABLE memoryfs.erasures ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.erasures FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.erasures
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));
ALTER TABLE memoryfs.erased_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.erased_items FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.erased_items
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));

-- Asked once a statement; nearly always there is nobody.
CREATE FUNCTION memoryfs.erasing_users() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN ARRAY(SELECT e.user_name FROM memoryfs.erasures e WHERE e.tenant OPERATOR(pg_catalog.=) core.tenant());
END
$$;
CREATE FUNCTION memoryfs.erasing_owners() RETURNS int4[]
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM memoryfs.erasures e WHERE e.tenant OPERATOR(pg_catalog.=) core.tenant()) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT p.id FROM memoryfs.principals p JOIN memoryfs.erasures e USING (tenant)
        WHERE p.tenant OPERATOR(pg_catalog.=) core.tenant()
            AND (p.name = 'user:' || e.user_name OR starts_with(p.name, 'agent:' || e.user_name || '/'))
    );
END
$$;

CREATE POLICY not_erasing ON memoryfs.items AS RESTRICTIVE FOR SELECT USING (
    (SELECT core.upkeep()) OR (
        user_label <> ALL ((SELECT memoryfs.erasing_users())::text[])
        AND owner <> ALL ((SELECT memoryfs.erasing_owners())::int4[])
    )
);
CREATE POLICY not_erasing ON memoryfs.item_revisions AS RESTRICTIVE FOR SELECT USING (
    (SELECT core.upkeep()) OR (
        user_label <> ALL ((SELECT memoryfs.erasing_users())::text[])
        AND owner <> ALL ((SELECT memoryfs.erasing_owners())::int4[])
    )
);

-- A person who is erased leaves a pseudonym where others' rows name them.
CREATE POLICY upkeep_updates ON memoryfs.principals AS RESTRICTIVE FOR UPDATE USING ((SELECT core.upkeep()));
CREATE POLICY upkeep_updates ON memoryfs.item_changes AS RESTRICTIVE FOR UPDATE USING ((SELECT core.upkeep()));
GRANT UPDATE (name) ON memoryfs.principals TO memoryos_memoryfs;
GRANT UPDATE (actor, derived_from, superseded_by) ON memoryfs.item_revisions TO memoryos_memoryfs;
GRANT UPDATE (actor) ON memoryfs.item_changes TO memoryos_memoryfs;

GRANT SELECT, INSERT, DELETE ON memoryfs.erasures, memoryfs.erased_items TO memoryos_memoryfs;
GRANT EXECUTE ON FUNCTION memoryfs.erasing_users(), memoryfs.erasing_owners() TO memoryos_memoryfs;
