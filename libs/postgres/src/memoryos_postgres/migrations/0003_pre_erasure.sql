-- Erasure: the key of a data subject is destroyed by the purge job of MemoryFS, and the
-- keeper of the epoch key (memoryos_owner, `mos keys rotate`) wraps every data key anew.

GRANT DELETE ON core.data_keys TO memoryos_memoryfs;
-- Only erasure deletes, and never the key that a tenant's hashes are derived from.
CREATE POLICY erasure_only ON core.data_keys AS RESTRICTIVE FOR DELETE
    USING ((SELECT core.upkeep()) AND subject_hmac <> 'root');
CREATE POLICY keeper ON core.data_keys TO memoryos_owner USING (true) WITH CHECK (true);
CREATE INDEX data_keys_by_epoch ON core.data_keys (epoch_id);
