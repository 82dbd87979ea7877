-- The dense index (libs/vectors, adapters/pgvector.py): what a search compares, and nothing else.
--
-- No content and no row-level security (its operators are not leakproof): tenant
-- and principals are arguments of every search, and ids are worthless until they
-- are read again from memoryfs.items. One row per item and model: the current
-- revision. fp16 vectors, inline, so that the covering index below answers a
-- search alone (exact, recall 1.0, about 0.5 microseconds a row of the tenant).
-- An index row holds 2,704 bytes, so vectors have at most 1,000 dimensions.

CREATE TABLE memoryfs.item_vectors (
    tenant text COLLATE "C" NOT NULL,
    item_id text COLLATE "C" NOT NULL,
    revision int8 NOT NULL,
    model_id text COLLATE "C" NOT NULL,
    path_id int4 NOT NULL,
    acl int4[] NOT NULL,
    tier int2 NOT NULL,
    vec halfvec NOT NULL,
    PRIMARY KEY (tenant, item_id, revision, model_id),
    CHECK (tier IN (1, 2)),
    CHECK (cardinality(acl) BETWEEN 1 AND 65),
    CHECK (vector_dims(vec) <= 1000)
) WITH (
    -- Index-only scans need the visibility map: vacuum after 5 % of new rows.
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_scale_factor = 0.05
);
ALTER TABLE memoryfs.item_vectors ALTER COLUMN vec SET STORAGE PLAIN;
ALTER TABLE memoryfs.item_vectors ALTER COLUMN acl SET STORAGE PLAIN;
CREATE INDEX item_vectors_scan ON memoryfs.item_vectors (tenant, model_id, tier, path_id)
    INCLUDE (item_id, revision, acl, vec);

COMMENT ON TABLE memoryfs.item_vectors IS 'Dense index of active items; derived, no row-level security.';
COMMENT ON COLUMN memoryfs.item_vectors.tenant IS 'id: tenant';
COMMENT ON COLUMN memoryfs.item_vectors.item_id IS 'id: name of the item';
COMMENT ON COLUMN memoryfs.item_vectors.revision IS 'id: revision whose text the vector is of';
COMMENT ON COLUMN memoryfs.item_vectors.model_id IS 'id: model of the vector; models are never compared';
COMMENT ON COLUMN memoryfs.item_vectors.path_id IS 'id: place, see paths';
COMMENT ON COLUMN memoryfs.item_vectors.acl IS 'id: owner and readers, see principals';
COMMENT ON COLUMN memoryfs.item_vectors.tier IS 'id: 1 hot, 2 cold';
COMMENT ON COLUMN memoryfs.item_vectors.vec IS 'id: unit vector in fp16, derived from the content';

GRANT SELECT, INSERT, UPDATE, DELETE ON memoryfs.item_vectors TO memoryos_memoryfs;
