-- What holds below a path, who may change items there, and how much may be kept.

CREATE TABLE memoryfs.path_settings (
    tenant text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    sealed_path bytea NOT NULL,
    default_readers text[] COLLATE "C",
    writers text[] COLLATE "C",
    gate float8,
    confidence_caps jsonb,
    ttl interval,
    retention interval,
    hot_window interval,
    items_max int8,
    bytes_max int8,
    keep_max int8,
    etag text COLLATE "C" NOT NULL,
    update_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);
COMMENT ON TABLE memoryfs.path_settings IS 'What paths state themselves; null parts are inherited. Rows stay when nothing is stated any more.';
COMMENT ON COLUMN memoryfs.path_settings.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.path_settings.key IS 'id: as in paths';
COMMENT ON COLUMN memoryfs.path_settings.sealed_path IS 'personal: name of the path, sealed';
COMMENT ON COLUMN memoryfs.path_settings.default_readers IS 'id: readers of new items, and the widest that an item is opened to';
COMMENT ON COLUMN memoryfs.path_settings.writers IS 'id: principals that may write and change items';
COMMENT ON COLUMN memoryfs.path_settings.gate IS 'id: confidence below which a new item stays a candidate';
COMMENT ON COLUMN memoryfs.path_settings.confidence_caps IS 'id: highest confidences by number of Origin and by role';
COMMENT ON COLUMN memoryfs.path_settings.ttl IS 'id: life of new items; zero: no end';
COMMENT ON COLUMN memoryfs.path_settings.retention IS 'id: age beyond which items are forgotten; zero: never';
COMMENT ON COLUMN memoryfs.path_settings.hot_window IS 'id: items unused for so long become cold; zero: never';
COMMENT ON COLUMN memoryfs.path_settings.items_max IS 'id: most items; 0: no limit';
COMMENT ON COLUMN memoryfs.path_settings.bytes_max IS 'id: most bytes of content; 0: no limit';
COMMENT ON COLUMN memoryfs.path_settings.keep_max IS 'id: active items that are kept; 0: no limit';
COMMENT ON COLUMN memoryfs.path_settings.etag IS 'id: changes with every change';
COMMENT ON COLUMN memoryfs.path_settings.update_time IS 'id: when they were set last';

-- One number a tenant: a process that knows settings asks, together with its commit, whether they are still those.
CREATE TABLE memoryfs.settings_versions (
    tenant text COLLATE "C" NOT NULL,
    version int8 NOT NULL,
    PRIMARY KEY (tenant)
);
COMMENT ON TABLE memoryfs.settings_versions IS 'How often settings of a tenant were set; none: never.';
COMMENT ON COLUMN memoryfs.settings_versions.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.settings_versions.version IS 'id: grows with every change';
ALTER TABLE memoryfs.settings_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.settings_versions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.settings_versions
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));
GRANT SELECT, INSERT, UPDATE, DELETE ON memoryfs.settings_versions TO memoryos_memoryfs;

CREATE FUNCTION memoryfs.expect_settings(known int8) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF known <> coalesce((SELECT v.version FROM memoryfs.settings_versions v WHERE v.tenant = core.tenant()), 0) THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'settings_version', MESSAGE = 'settings';
    END IF;
END
$$;
GRANT EXECUTE ON FUNCTION memoryfs.expect_settings(int8) TO memoryos_memoryfs;

-- Counters exist for paths with a quota only: no other path has a row that every writer waits for.
CREATE TABLE memoryfs.path_quotas (
    tenant text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    items_max int8 NOT NULL,
    bytes_max int8 NOT NULL,
    item_count int8 NOT NULL,
    byte_count int8 NOT NULL,
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 50);
COMMENT ON TABLE memoryfs.path_quotas IS 'Paths with a quota, and how much of it is used by items that are not forgotten.';
COMMENT ON COLUMN memoryfs.path_quotas.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.path_quotas.key IS 'id: as in paths';
COMMENT ON COLUMN memoryfs.path_quotas.items_max IS 'id: most items; 0: no limit';
COMMENT ON COLUMN memoryfs.path_quotas.bytes_max IS 'id: most bytes of content; 0: no limit';
COMMENT ON COLUMN memoryfs.path_quotas.item_count IS 'id: items below the path';
COMMENT ON COLUMN memoryfs.path_quotas.byte_count IS 'id: bytes of their content before sealing';

ALTER TABLE memoryfs.path_settings ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.path_settings FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.path_settings
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));
ALTER TABLE memoryfs.path_quotas ENABLE ROW LEVEL SECURITY;
ALTER TABLE memoryfs.path_quotas FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON memoryfs.path_quotas
    USING (tenant = (SELECT core.tenant())) WITH CHECK (tenant = (SELECT core.tenant()));
GRANT SELECT, INSERT, UPDATE, DELETE ON memoryfs.path_settings, memoryfs.path_quotas TO memoryos_memoryfs;

-- The keys of a path and of all above it: 8 bytes each.
CREATE FUNCTION memoryfs.path_prefixes(key bytea) RETURNS bytea[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT array_agg(substring(key FROM 1 FOR 8 * n)) FROM generate_series(1, octet_length(key) / 8) AS n
$$;

-- Whether the caller may change items of others at a place: the nearest path that states writers names one of its
-- principals. Where none does, owners alone change items.
CREATE FUNCTION memoryfs.may_write(place int4) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 10000
AS $$
DECLARE
    named text[];
BEGIN
    SELECT s.writers INTO named
    FROM memoryfs.paths p
    JOIN memoryfs.path_settings s ON s.tenant = p.tenant AND s.key = ANY (memoryfs.path_prefixes(p.key))
    WHERE p.tenant = core.tenant() AND p.id = place AND s.writers IS NOT NULL
    ORDER BY octet_length(s.key) DESC
    LIMIT 1;
    RETURN FOUND AND (named && core.principals() OR 'role:tenant-admin' = ANY (core.principals()));
END
$$;

-- An item is changed by its owner or a writer of its place; whoever cannot read it cannot change it either.
DROP POLICY own_update ON memoryfs.items;
CREATE POLICY own_update ON memoryfs.items FOR UPDATE
    USING (
        tenant = (SELECT core.tenant())
        AND (owner = ANY ((SELECT memoryfs.reader_ids())::int4[]) OR memoryfs.may_write(path_id))
    )
    WITH CHECK (
        tenant = (SELECT core.tenant())
        AND (owner = ANY ((SELECT memoryfs.reader_ids())::int4[]) OR memoryfs.may_write(path_id))
    );
DROP POLICY own_insert ON memoryfs.item_revisions;
CREATE POLICY own_insert ON memoryfs.item_revisions FOR INSERT WITH CHECK (
    tenant = (SELECT core.tenant())
    AND (owner = ANY ((SELECT memoryfs.reader_ids())::int4[]) OR memoryfs.may_write(path_id))
);

-- Counts and bytes of a subtree are answered by the index alone.
DROP INDEX memoryfs.items_by_path;
CREATE INDEX items_by_path ON memoryfs.items (tenant, path_id)
    INCLUDE (id, owner, user_label, acl, state, sensitivity, content_bytes, tier, embed_state, create_time, expire_time);

-- What is below a path whoever may read it: the start of a counter.
CREATE FUNCTION memoryfs.used_below(first_key bytea, end_key bytea, OUT item_count int8, OUT byte_count int8)
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    before text := coalesce(current_setting('memoryos.upkeep', true), '');
BEGIN
    PERFORM set_config('memoryos.upkeep', 'on', true);
    SELECT count(*), coalesce(sum(i.content_bytes), 0)::int8 INTO item_count, byte_count
    FROM memoryfs.items i
    WHERE i.tenant = core.tenant() AND i.state <> 4 AND i.path_id IN (
        SELECT p.id FROM memoryfs.paths p WHERE p.tenant = core.tenant() AND p.key >= first_key AND p.key < end_key
    );
    PERFORM set_config('memoryos.upkeep', before, true);
END
$$;

-- Writers of a tenant share this lock; who sets a quota waits for those under way, and counts what they wrote.
CREATE FUNCTION memoryfs.quota_lock() RETURNS int8
LANGUAGE sql STABLE
AS $$ SELECT hashtextextended('memoryfs.quotas/' || core.tenant(), 0) $$;

-- Every change of items, whoever makes it and why, counts for all quotas above it, and none goes beyond one.
CREATE FUNCTION memoryfs.count_for_quotas() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    changed memoryfs.path_quotas;
    places int4[];
    items int8[];
    bytes int8[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(memoryfs.quota_lock());
    IF NOT EXISTS (SELECT FROM memoryfs.path_quotas q WHERE q.tenant = core.tenant()) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        SELECT array_agg(d.path_id), array_agg(d.items), array_agg(d.bytes) INTO places, items, bytes
        FROM (
            SELECT path_id, count(*) AS items, sum(content_bytes) AS bytes FROM added WHERE state <> 4 GROUP BY path_id
        ) d;
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(d.path_id), array_agg(d.items), array_agg(d.bytes) INTO places, items, bytes
        FROM (
            SELECT path_id, -count(*) AS items, -sum(content_bytes) AS bytes FROM removed WHERE state <> 4
            GROUP BY path_id
        ) d;
    ELSE
        SELECT array_agg(d.path_id), array_agg(d.items), array_agg(d.bytes) INTO places, items, bytes
        FROM (
            SELECT path_id, sum(one) AS items, sum(size) AS bytes
            FROM (
                SELECT path_id, 1 AS one, content_bytes AS size FROM added WHERE state <> 4
                UNION ALL
                SELECT path_id, -1, -content_bytes FROM removed WHERE state <> 4
            ) AS both_sides
            GROUP BY path_id
        ) d
        WHERE d.items <> 0 OR d.bytes <> 0;
    END IF;
    IF places IS NULL THEN
        RETURN NULL;
    END IF;
    -- One after the other in one order everywhere: two changes at once cannot both take the last place, nor wait
    -- for each other in a ring.
    FOR changed IN
        SELECT q.tenant, q.key, q.items_max, q.bytes_max, d.items, d.bytes
        FROM (
            SELECT above.key, sum(u.items)::int8 AS items, sum(u.bytes)::int8 AS bytes
            FROM unnest(places, items, bytes) AS u (path_id, items, bytes)
            JOIN memoryfs.paths p ON p.tenant = core.tenant() AND p.id = u.path_id
            CROSS JOIN LATERAL unnest(memoryfs.path_prefixes(p.key)) AS above (key)
            GROUP BY above.key
        ) d
        JOIN memoryfs.path_quotas q ON q.tenant = core.tenant() AND q.key = d.key
        WHERE d.items <> 0 OR d.bytes <> 0
        ORDER BY q.key
        FOR UPDATE OF q
    LOOP
        UPDATE memoryfs.path_quotas q
        SET item_count = q.item_count + changed.item_count, byte_count = q.byte_count + changed.byte_count
        WHERE q.tenant = changed.tenant AND q.key = changed.key
        RETURNING q.tenant, q.key, q.items_max, q.bytes_max,
            CASE WHEN changed.item_count > 0 THEN q.item_count ELSE 0 END,
            CASE WHEN changed.byte_count > 0 THEN q.byte_count ELSE 0 END
        INTO changed;
        IF changed.items_max > 0 AND changed.item_count > changed.items_max THEN
            RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'quota_items_max', MESSAGE = 'quota';
        END IF;
        IF changed.bytes_max > 0 AND changed.byte_count > changed.bytes_max THEN
            RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = 'quota_bytes_max', MESSAGE = 'quota';
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
CREATE TRIGGER count_added AFTER INSERT ON memoryfs.items
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION memoryfs.count_for_quotas();
CREATE TRIGGER count_changed AFTER UPDATE ON memoryfs.items
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION memoryfs.count_for_quotas();
CREATE TRIGGER count_removed AFTER DELETE ON memoryfs.items
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION memoryfs.count_for_quotas();

GRANT EXECUTE ON FUNCTION memoryfs.path_prefixes(bytea), memoryfs.may_write(int4), memoryfs.used_below(bytea, bytea),
    memoryfs.quota_lock(), memoryfs.count_for_quotas() TO memoryos_memoryfs;
