-- Search in a user's own conversations: the words of each message as tenant-keyed hashes.
--
-- Words are written with their message. Messages of before, and those that a replica of the previous release
-- still writes, have none: a session says up to which message it has words (worded_count), and a search of its
-- user makes up for the rest first. No words stand here, and no row is reached but by its own user.

CREATE TABLE harness.message_words (
    tenant     text NOT NULL,
    user_id    text NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    session_id text NOT NULL,
    sequence   bigint NOT NULL,
    role       text NOT NULL,
    hashes     int8[] NOT NULL,
    PRIMARY KEY (tenant, user_id, message_id),
    FOREIGN KEY (tenant, session_id, sequence) REFERENCES harness.messages (tenant, session_id, sequence)
);
COMMENT ON TABLE harness.message_words IS 'Words of messages; derived.';
COMMENT ON COLUMN harness.message_words.tenant IS 'id: tenant';
COMMENT ON COLUMN harness.message_words.user_id IS 'id: user of the session';
COMMENT ON COLUMN harness.message_words.message_id IS 'id: message that holds the words; newer ones sort behind';
COMMENT ON COLUMN harness.message_words.session_id IS 'id: session that it stands in';
COMMENT ON COLUMN harness.message_words.sequence IS 'id: its place there';
COMMENT ON COLUMN harness.message_words.role IS 'id: who speaks';
COMMENT ON COLUMN harness.message_words.hashes IS 'id: tenant-keyed BLAKE2b-64 of the distinct words';
-- Erasure of messages looks for their words.
CREATE INDEX message_words_by_place ON harness.message_words (tenant, session_id, sequence);

ALTER TABLE harness.message_words ENABLE ROW LEVEL SECURITY;
ALTER TABLE harness.message_words FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON harness.message_words USING (tenant = core.tenant() AND user_id = core.user_name());
CREATE POLICY upkeep ON harness.message_words USING (tenant = core.tenant() AND core.upkeep());
CREATE POLICY erasure_only ON harness.message_words AS RESTRICTIVE FOR DELETE USING (core.upkeep());
GRANT SELECT, INSERT, DELETE ON harness.message_words TO memoryos_harness;

ALTER TABLE harness.sessions ADD COLUMN worded_count bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN harness.sessions.worded_count IS 'id: messages from the first that have their words';
CREATE INDEX sessions_without_words ON harness.sessions (tenant, user_id) WHERE worded_count < message_count;

-- Operators and auditors see of every session of their tenant whose it is and when it was active; a session holds no
-- content. The roles are those of the verified token, as the transaction's principals.
CREATE FUNCTION harness.oversees() RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN COALESCE(NULLIF(current_setting('memoryos.principals', true), '')::text[]
        && ARRAY['role:operator', 'role:auditor'], false);
COMMENT ON FUNCTION harness.oversees IS 'Whether the transaction is of an operator or an auditor.';
CREATE POLICY overseen ON harness.sessions FOR SELECT USING (tenant = core.tenant() AND harness.oversees());
