-- What a session has seen and what its user has said in it: written by whoever hands it out, read by policy,
-- never part of a request.

CREATE TABLE core.session_facts (
    tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''),
    holder text COLLATE "C" NOT NULL CHECK (holder <> ''),
    fact text COLLATE "C" NOT NULL CHECK (fact IN ('untrusted_content', 'personal_data', 'said')),
    source text COLLATE "C" NOT NULL,
    user_name text COLLATE "C" NOT NULL,
    words int8[] NOT NULL DEFAULT '{}',
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, holder, fact, source),
    CHECK ((fact = 'said') OR words = '{}')
);
COMMENT ON TABLE core.session_facts IS 'What a session has seen, and hashes of the words that its user has said in it.';
COMMENT ON COLUMN core.session_facts.tenant IS 'id: tenant';
COMMENT ON COLUMN core.session_facts.holder IS 'id: session, or user:… for calls outside of any';
COMMENT ON COLUMN core.session_facts.fact IS 'id: untrusted_content, personal_data or said';
COMMENT ON COLUMN core.session_facts.source IS 'id: skill, service or message that it came by';
COMMENT ON COLUMN core.session_facts.user_name IS 'id: user whose session it is';
COMMENT ON COLUMN core.session_facts.words IS 'id: tenant-keyed hashes of the words of a message of the user';
COMMENT ON COLUMN core.session_facts.create_time IS 'id: when it was first so';
CREATE INDEX session_facts_by_user ON core.session_facts (tenant, user_name);
ALTER TABLE core.session_facts ENABLE ROW LEVEL SECURITY;
ALTER TABLE core.session_facts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON core.session_facts USING (tenant = core.tenant()) WITH CHECK (tenant = core.tenant());
-- A fact is never taken back: there is no UPDATE, and only erasure deletes.
CREATE POLICY erasure_only ON core.session_facts AS RESTRICTIVE FOR DELETE USING ((SELECT core.upkeep()));
GRANT SELECT ON core.session_facts TO memoryos_policy;
GRANT SELECT, INSERT (tenant, holder, fact, source, user_name)
    ON core.session_facts TO memoryos_memoryfs, memoryos_toolgateway;
GRANT SELECT, INSERT (tenant, holder, fact, source, user_name, words) ON core.session_facts TO memoryos_harness;
GRANT DELETE ON core.session_facts TO memoryos_memoryfs;
