-- Erasure deletes what concerns a person who is erased, and only it.

CREATE POLICY erasure_only ON policy.decisions AS RESTRICTIVE FOR DELETE USING (core.upkeep());
CREATE POLICY erasure_only ON policy.reviews AS RESTRICTIVE FOR DELETE USING (core.upkeep());
CREATE POLICY erasure_only ON policy.review_votes AS RESTRICTIVE FOR DELETE USING (core.upkeep());
GRANT DELETE ON policy.decisions, policy.reviews, policy.review_votes TO memoryos_policy;
