-- Two backends of the dense index: item_vectors always holds the vectors; Qdrant may hold a copy.
--
-- index_backends is one row for the installation: who answers searches, and whether
-- changes are copied (feeding). While they are, triggers on item_vectors name every
-- changed item in index_outbox, in the transaction of the change, whoever made it.
-- The applier locks what is named, copies the item's current truth, and removes the
-- rows that it had seen. Neither table holds content.

CREATE TABLE memoryfs.index_backends (
    only_row bool PRIMARY KEY DEFAULT true CHECK (only_row),
    configured text COLLATE "C" NOT NULL,
    serving text COLLATE "C" NOT NULL,
    feeding bool NOT NULL,
    phase int2 NOT NULL,
    target text COLLATE "C" NOT NULL,
    change_time timestamptz NOT NULL,
    CHECK (configured IN ('pgvector', 'qdrant')),
    CHECK (serving IN ('pgvector', 'qdrant')),
    CHECK (target IN ('', 'pgvector', 'qdrant')),
    CHECK (feeding OR serving = 'pgvector')
);
INSERT INTO memoryfs.index_backends (configured, serving, feeding, phase, target, change_time)
VALUES ('pgvector', 'pgvector', false, 0, '', clock_timestamp());

COMMENT ON TABLE memoryfs.index_backends IS 'system: which index answers searches, and which is copied to; one row.';
COMMENT ON COLUMN memoryfs.index_backends.only_row IS 'id: always true';
COMMENT ON COLUMN memoryfs.index_backends.configured IS 'id: backend that the configuration named when a process last started';
COMMENT ON COLUMN memoryfs.index_backends.serving IS 'id: backend that answers searches';
COMMENT ON COLUMN memoryfs.index_backends.feeding IS 'id: whether changes are copied to Qdrant';
COMMENT ON COLUMN memoryfs.index_backends.phase IS 'id: number of memoryos.memoryfs.v1.MigrationPhase; 0: no move is on';
COMMENT ON COLUMN memoryfs.index_backends.target IS 'id: backend that a move leads to';
COMMENT ON COLUMN memoryfs.index_backends.change_time IS 'id: when this row last changed';

-- Rows are only added and removed, so that a Write never waits for the applier.
CREATE TABLE memoryfs.index_outbox (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    seq int8 GENERATED ALWAYS AS IDENTITY,
    attempts int4 NOT NULL DEFAULT 0,
    make_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    failed_time timestamptz,
    last_reason text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, item_id, seq)
) WITH (
    -- A queue: what is dead is most of it.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000
);
CREATE INDEX index_outbox_due ON memoryfs.index_outbox (tenant, seq) WHERE failed_time IS NULL;

COMMENT ON TABLE memoryfs.index_outbox IS 'Items whose vectors changed and are not copied yet; failed_time marks those given up.';
COMMENT ON COLUMN memoryfs.index_outbox.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.index_outbox.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.index_outbox.seq IS 'id: number of the change';
COMMENT ON COLUMN memoryfs.index_outbox.attempts IS 'id: tries so far';
COMMENT ON COLUMN memoryfs.index_outbox.make_time IS 'id: when the change was made';
COMMENT ON COLUMN memoryfs.index_outbox.due_time IS 'id: not to be tried before';
COMMENT ON COLUMN memoryfs.index_outbox.failed_time IS 'id: when it was given up';
COMMENT ON COLUMN memoryfs.index_outbox.last_reason IS 'id: error reason of the last try';

CREATE FUNCTION memoryfs.name_changed_vectors() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF (SELECT b.feeding FROM memoryfs.index_backends b) THEN
        INSERT INTO memoryfs.index_outbox (tenant, item_id)
        SELECT DISTINCT c.tenant, c.item_id FROM changed c;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER name_added AFTER INSERT ON memoryfs.item_vectors
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memoryfs.name_changed_vectors();
CREATE TRIGGER name_updated AFTER UPDATE ON memoryfs.item_vectors
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memoryfs.name_changed_vectors();
CREATE TRIGGER name_removed AFTER DELETE ON memoryfs.item_vectors
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memoryfs.name_changed_vectors();

GRANT SELECT, UPDATE ON memoryfs.index_backends TO memoryos_memoryfs;
GRANT SELECT, INSERT, UPDATE, DELETE ON memoryfs.index_outbox TO memoryos_memoryfs;
GRANT EXECUTE ON FUNCTION memoryfs.name_changed_vectors() TO memoryos_memoryfs;
