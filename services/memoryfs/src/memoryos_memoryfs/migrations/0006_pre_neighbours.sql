-- Recall counts some of the words of the turns beside an item: which items are turns of one session.

ALTER TABLE memoryfs.item_tokens ADD COLUMN session_hash int8 NOT NULL DEFAULT 0;
COMMENT ON COLUMN memoryfs.item_tokens.session_hash IS 'id: tenant-keyed hash of owner and session; 0: of no session';

-- The turn before and the turn after one that its reader may see, at the same place, by the index alone.
CREATE INDEX item_tokens_by_session
    ON memoryfs.item_tokens (tenant, session_hash, path_id, create_time, item_id) INCLUDE (acl)
    WHERE session_hash <> 0;
