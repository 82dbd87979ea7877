-- Erasure deletes calls of a person who is erased, and only it: what a call was about goes with it.

CREATE POLICY erasure_only ON toolgateway.calls AS RESTRICTIVE FOR DELETE USING (core.upkeep());
GRANT DELETE ON toolgateway.calls TO memoryos_toolgateway;
-- And it empties calls that quote an erased item.
GRANT UPDATE (arguments) ON toolgateway.calls TO memoryos_toolgateway;
CREATE INDEX calls_by_user ON toolgateway.calls (tenant, user_name);
