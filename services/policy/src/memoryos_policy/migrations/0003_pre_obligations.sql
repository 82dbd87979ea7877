-- Every kind of obligation instead of the approval alone, and the risk as the rules see it.

ALTER TABLE policy.decisions DROP CONSTRAINT decisions_check1;
ALTER TABLE policy.decisions ALTER COLUMN approval TYPE jsonb USING
    CASE WHEN approval IS NULL THEN '[]' ELSE jsonb_build_array(approval || '{"kind": "approval"}') END;
ALTER TABLE policy.decisions RENAME COLUMN approval TO obligations;
ALTER TABLE policy.decisions
    ALTER COLUMN obligations SET NOT NULL,
    ALTER COLUMN obligations SET DEFAULT '[]',
    ADD COLUMN rewrites bytea,
    ADD COLUMN risk text NOT NULL DEFAULT '' CHECK (risk IN ('', 'low', 'medium', 'high', 'critical')),
    -- Only a review asks for an approval, and a deny obliges to nothing.
    ADD CHECK ((effect = 'manual_review') = (obligations @> '[{"kind": "approval"}]')),
    ADD CHECK (effect <> 'deny' OR obligations = '[]'),
    ADD CHECK ((rewrites IS NOT NULL) = (obligations @> '[{"kind": "rewrite_args"}]'));
COMMENT ON COLUMN policy.decisions.obligations IS 'id: what must be done, as the rules state it, without the values of rewrites';
COMMENT ON COLUMN policy.decisions.rewrites IS 'content: sealed values that a rewrite puts into the arguments';
COMMENT ON COLUMN policy.decisions.risk IS 'id: risk as the rules see it; empty when none has spoken';
GRANT INSERT (rewrites, risk) ON policy.decisions TO memoryos_policy;
