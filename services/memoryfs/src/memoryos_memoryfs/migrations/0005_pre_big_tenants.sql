-- Stores of many tenants, and tenants of many items.

-- The dense index belongs to a role of its own: an index of a big tenant is built
-- CONCURRENTLY, which only a table's owner can. That role logs in for the upkeep
-- (python -m memoryos_memoryfs.upkeep) and owns nothing else; memoryos_owner is a
-- member of it, so that migrations go on to run as one role.
GRANT USAGE, CREATE ON SCHEMA memoryfs TO memoryos_indexer;
ALTER TABLE memoryfs.item_vectors OWNER TO memoryos_indexer;

CREATE TABLE memoryfs.vector_indexes (
    tenant text COLLATE "C" NOT NULL,
    model_id text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    row_count int8 NOT NULL,
    ready_time timestamptz,
    PRIMARY KEY (tenant, model_id)
);
COMMENT ON TABLE memoryfs.vector_indexes IS 'Tenants whose vectors have an approximate index of their own.';
COMMENT ON COLUMN memoryfs.vector_indexes.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.vector_indexes.model_id IS 'id: model of the vectors';
COMMENT ON COLUMN memoryfs.vector_indexes.digest IS 'id: end of the names of its indexes on item_vectors';
COMMENT ON COLUMN memoryfs.vector_indexes.row_count IS 'id: vectors when it was built';
COMMENT ON COLUMN memoryfs.vector_indexes.ready_time IS 'id: when it could be asked; null while it is built';
GRANT SELECT ON memoryfs.vector_indexes TO memoryos_memoryfs;
GRANT SELECT, INSERT, UPDATE, DELETE ON memoryfs.vector_indexes TO memoryos_indexer;

-- The newest items of a reader among many of others: those it owns (acl[1]) in order of time, by the
-- index alone, and those shared with it by who may read them.
CREATE INDEX item_tokens_by_owner ON memoryfs.item_tokens (tenant, (acl[1]), create_time DESC, item_id DESC)
    INCLUDE (path_id);
CREATE INDEX item_tokens_shared ON memoryfs.item_tokens USING gin (tenant, acl) WHERE cardinality(acl) > 1;
