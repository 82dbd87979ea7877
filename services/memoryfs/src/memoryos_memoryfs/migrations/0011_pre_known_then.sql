-- A read of what was known at an earlier instant applies the readers of today: while it runs, an earlier revision is
-- visible to whoever may read the item now. All other reads of history go by each revision's own readers.
CREATE POLICY known_then ON memoryfs.item_revisions FOR SELECT USING (
    tenant = (SELECT core.tenant())
    AND (SELECT coalesce(current_setting('memoryos.known_then', true), '') = 'on')
    AND EXISTS (
        SELECT 1 FROM memoryfs.items i WHERE i.tenant = item_revisions.tenant AND i.id = item_revisions.id
    )
);
