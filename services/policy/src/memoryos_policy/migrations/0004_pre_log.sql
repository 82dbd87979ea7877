-- Decisions can be searched and followed, reviews say what a person needs to know, decided rules are kept.

ALTER TABLE policy.decisions ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
COMMENT ON COLUMN policy.decisions.xid IS 'id: transaction that kept it, the order of the feed';
CREATE INDEX decisions_of_feed ON policy.decisions (tenant, xid, decision_id);
CREATE INDEX decisions_of_skill ON policy.decisions (tenant, skill, decision_id);
CREATE INDEX decisions_of_trace ON policy.decisions (tenant, trace_id, decision_id);
CREATE INDEX decisions_of_review ON policy.decisions (tenant, review_id, decision_id) WHERE review_id IS NOT NULL;
CREATE INDEX decisions_other_than_allow ON policy.decisions (tenant, effect, decision_id) WHERE effect <> 'allow';

ALTER TABLE policy.reviews
    ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    ADD COLUMN skill_version text NOT NULL DEFAULT '',
    ADD COLUMN effect_class text NOT NULL DEFAULT ''
        CHECK (effect_class IN ('', 'read', 'idempotent', 'keyed', 'non_idempotent')),
    ADD COLUMN risk text NOT NULL DEFAULT '' CHECK (risk IN ('', 'low', 'medium', 'high', 'critical')),
    ADD COLUMN resource_type text NOT NULL DEFAULT '';
COMMENT ON COLUMN policy.reviews.xid IS 'id: transaction that last changed it, the order of the feed';
COMMENT ON COLUMN policy.reviews.skill_version IS 'id: version of the skill';
COMMENT ON COLUMN policy.reviews.effect_class IS 'id: what the call would do to the world; empty in reviews from before';
COMMENT ON COLUMN policy.reviews.risk IS 'id: risk as the rules see it; empty in reviews from before';
COMMENT ON COLUMN policy.reviews.resource_type IS 'id: kind of what it would be done to';
CREATE INDEX reviews_of_feed ON policy.reviews (tenant, xid, review_id);
CREATE INDEX reviews_pending ON policy.reviews (tenant, expire_time, review_id) WHERE state = 'pending';
GRANT UPDATE (xid) ON policy.reviews TO memoryos_policy;

CREATE TABLE policy.bundles (
    revision text PRIMARY KEY,
    archive bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE policy.bundles IS 'system: rules of every revision that was confirmed, for all tenants; never changed.';
COMMENT ON COLUMN policy.bundles.revision IS 'id: SHA-256 of the rules';
COMMENT ON COLUMN policy.bundles.archive IS 'id: the archive that OPA serves; rules and data documents, nothing of calls';
COMMENT ON COLUMN policy.bundles.create_time IS 'id: when it was first confirmed';
GRANT SELECT, INSERT (revision, archive) ON policy.bundles TO memoryos_policy;
