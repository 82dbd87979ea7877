-- Whom no token is made for any more. The keyed hash decides, so that a revocation outlives the erasure of its subject.

CREATE TABLE core.revocations (
    tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''),
    subject_hmac text COLLATE "C" NOT NULL CHECK (subject_hmac <> ''),
    subject text COLLATE "C" NOT NULL CHECK (subject <> ''),
    actor text COLLATE "C" NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, subject_hmac)
);
COMMENT ON TABLE core.revocations IS 'Users, agents of users and tasks that no token is made for any more.';
COMMENT ON COLUMN core.revocations.tenant IS 'id: tenant';
COMMENT ON COLUMN core.revocations.subject_hmac IS 'id: tenant-keyed HMAC of the subject, which decides';
COMMENT ON COLUMN core.revocations.subject IS 'id: user:…, agent:…/… or task_…, for people; a pseudonym after erasure';
COMMENT ON COLUMN core.revocations.actor IS 'id: who revoked it';
COMMENT ON COLUMN core.revocations.create_time IS 'id: when';
CREATE INDEX revocations_by_time ON core.revocations (tenant, create_time DESC);
ALTER TABLE core.revocations ENABLE ROW LEVEL SECURITY;
ALTER TABLE core.revocations FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON core.revocations USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
GRANT SELECT, INSERT, DELETE ON core.revocations TO memoryos_harness;
-- Erasure gives the names of a person a pseudonym here, and takes nothing away.
GRANT SELECT, UPDATE (subject, actor) ON core.revocations TO memoryos_memoryfs;
