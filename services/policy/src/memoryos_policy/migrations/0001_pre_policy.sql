-- Schema policy: decisions, reviews of single calls, votes.

CREATE TABLE policy.decisions (
    tenant text NOT NULL CHECK (tenant <> ''),
    decision_id text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    call_id text NOT NULL,
    attempt integer NOT NULL,
    skill text NOT NULL,
    skill_version text NOT NULL,
    action_digest_hmac text NOT NULL,
    effect text NOT NULL CHECK (effect IN ('allow', 'deny', 'manual_review')),
    reasons jsonb NOT NULL,
    agent_message text NOT NULL,
    approval jsonb,
    bundle_revision text NOT NULL,
    bundle_confirm_time timestamptz,
    review_id text,
    user_name text NOT NULL,
    chain text[] NOT NULL,
    session_id text NOT NULL,
    task_id text NOT NULL,
    service text NOT NULL,
    trace_id text NOT NULL,
    input bytea NOT NULL,
    PRIMARY KEY (tenant, decision_id),
    -- Only a deny may come without a bundle, and only a review asks for an approval.
    CHECK (effect = 'deny' OR bundle_revision <> ''),
    CHECK ((effect = 'manual_review') = (approval IS NOT NULL))
);
COMMENT ON TABLE policy.decisions IS 'Every decision on a call, as it was answered; never changed.';
COMMENT ON COLUMN policy.decisions.tenant IS 'id: tenant';
COMMENT ON COLUMN policy.decisions.decision_id IS 'id: name of the decision';
COMMENT ON COLUMN policy.decisions.create_time IS 'id: database clock at insertion';
COMMENT ON COLUMN policy.decisions.call_id IS 'id: call that it was for';
COMMENT ON COLUMN policy.decisions.attempt IS 'id: attempt at the call, from 1';
COMMENT ON COLUMN policy.decisions.skill IS 'id: skill asked for';
COMMENT ON COLUMN policy.decisions.skill_version IS 'id: its version';
COMMENT ON COLUMN policy.decisions.action_digest_hmac IS 'id: tenant-keyed HMAC of the action digest';
COMMENT ON COLUMN policy.decisions.effect IS 'id: allow, deny or manual_review';
COMMENT ON COLUMN policy.decisions.reasons IS 'id: codes, policies and texts of rules, for auditors';
COMMENT ON COLUMN policy.decisions.agent_message IS 'id: safe sentence for the model';
COMMENT ON COLUMN policy.decisions.approval IS 'id: group, quorum and seconds that a manual_review asks for';
COMMENT ON COLUMN policy.decisions.bundle_revision IS 'id: SHA-256 of the rules that decided; empty when none did';
COMMENT ON COLUMN policy.decisions.bundle_confirm_time IS 'id: when the source of the bundle last confirmed it';
COMMENT ON COLUMN policy.decisions.review_id IS 'id: approved review that it rests on';
COMMENT ON COLUMN policy.decisions.user_name IS 'id: user on whose behalf';
COMMENT ON COLUMN policy.decisions.chain IS 'id: agents between user and call, outermost first';
COMMENT ON COLUMN policy.decisions.session_id IS 'id: session, from the token';
COMMENT ON COLUMN policy.decisions.task_id IS 'id: task, from the token';
COMMENT ON COLUMN policy.decisions.service IS 'id: service that asked';
COMMENT ON COLUMN policy.decisions.trace_id IS 'id: trace';
COMMENT ON COLUMN policy.decisions.input IS 'content: the sealed input document that the rules saw';
CREATE INDEX decisions_of_call ON policy.decisions (tenant, call_id, decision_id);
CREATE INDEX decisions_of_user ON policy.decisions (tenant, user_name, decision_id);
ALTER TABLE policy.decisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy.decisions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policy.decisions USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
-- Not create_time: the database says it. No UPDATE and no DELETE.
GRANT SELECT, INSERT (tenant, decision_id, call_id, attempt, skill, skill_version, action_digest_hmac, effect, reasons,
    agent_message, approval, bundle_revision, bundle_confirm_time, review_id, user_name, chain, session_id, task_id,
    service, trace_id, input)
    ON policy.decisions TO memoryos_policy;

CREATE TABLE policy.reviews (
    tenant text NOT NULL CHECK (tenant <> ''),
    review_id text NOT NULL,
    call_id text NOT NULL,
    decision_id text NOT NULL,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'denied')),
    group_name text NOT NULL,
    quorum integer NOT NULL CHECK (quorum > 0),
    skill text NOT NULL,
    action_digest_hmac text NOT NULL,
    user_name text NOT NULL,
    chain text[] NOT NULL,
    reasons text[] NOT NULL,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    resolve_time timestamptz,
    version bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant, review_id),
    UNIQUE (tenant, call_id),
    FOREIGN KEY (tenant, decision_id) REFERENCES policy.decisions (tenant, decision_id),
    CHECK ((state = 'pending') = (resolve_time IS NULL))
);
COMMENT ON TABLE policy.reviews IS 'Human approval, one review for one call.';
COMMENT ON COLUMN policy.reviews.tenant IS 'id: tenant';
COMMENT ON COLUMN policy.reviews.review_id IS 'id: name of the review';
COMMENT ON COLUMN policy.reviews.call_id IS 'id: call under review';
COMMENT ON COLUMN policy.reviews.decision_id IS 'id: decision that asked for it; its input holds the arguments';
COMMENT ON COLUMN policy.reviews.state IS 'id: pending, approved or denied; pending past expire_time counts as denied';
COMMENT ON COLUMN policy.reviews.group_name IS 'id: group that may resolve it';
COMMENT ON COLUMN policy.reviews.quorum IS 'id: approvals needed';
COMMENT ON COLUMN policy.reviews.skill IS 'id: skill to be called';
COMMENT ON COLUMN policy.reviews.action_digest_hmac IS 'id: tenant-keyed HMAC of the action digest';
COMMENT ON COLUMN policy.reviews.user_name IS 'id: user who asked for the call';
COMMENT ON COLUMN policy.reviews.chain IS 'id: agents between user and call';
COMMENT ON COLUMN policy.reviews.reasons IS 'id: texts of the rules that asked, for the reviewer';
COMMENT ON COLUMN policy.reviews.create_time IS 'id: when it was opened';
COMMENT ON COLUMN policy.reviews.expire_time IS 'id: when it counts as denied, and an approval no longer counts';
COMMENT ON COLUMN policy.reviews.resolve_time IS 'id: when it was approved or denied';
COMMENT ON COLUMN policy.reviews.version IS 'id: changes with every vote';
CREATE INDEX reviews_of_group ON policy.reviews (tenant, group_name, review_id);
CREATE INDEX reviews_of_user ON policy.reviews (tenant, user_name, review_id);
ALTER TABLE policy.reviews ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy.reviews FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policy.reviews USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
GRANT SELECT, INSERT, UPDATE (state, resolve_time, version) ON policy.reviews TO memoryos_policy;

CREATE TABLE policy.review_votes (
    tenant text NOT NULL CHECK (tenant <> ''),
    review_id text NOT NULL,
    reviewer text NOT NULL,
    verdict text NOT NULL CHECK (verdict IN ('approve', 'deny')),
    comment bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, review_id, reviewer),
    FOREIGN KEY (tenant, review_id) REFERENCES policy.reviews (tenant, review_id)
);
COMMENT ON TABLE policy.review_votes IS 'What each reviewer said, one word each.';
COMMENT ON COLUMN policy.review_votes.tenant IS 'id: tenant';
COMMENT ON COLUMN policy.review_votes.review_id IS 'id: review';
COMMENT ON COLUMN policy.review_votes.reviewer IS 'id: user who voted';
COMMENT ON COLUMN policy.review_votes.verdict IS 'id: approve or deny';
COMMENT ON COLUMN policy.review_votes.comment IS 'content: the reviewer''s words, sealed by the reviewer''s key';
COMMENT ON COLUMN policy.review_votes.create_time IS 'id: when the vote was last cast';
ALTER TABLE policy.review_votes ENABLE ROW LEVEL SECURITY;
ALTER TABLE policy.review_votes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON policy.review_votes USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
GRANT SELECT, INSERT (tenant, review_id, reviewer, verdict, comment), UPDATE (verdict, comment, create_time)
    ON policy.review_votes TO memoryos_policy;
