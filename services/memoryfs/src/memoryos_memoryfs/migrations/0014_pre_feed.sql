-- Readers who lost an item are told so by the feed: replaced revisions by the transaction that replaced them.
CREATE INDEX item_revisions_by_replacement ON memoryfs.item_revisions (tenant, replace_xid, id);
