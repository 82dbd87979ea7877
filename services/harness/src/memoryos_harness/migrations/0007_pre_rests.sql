-- Tasks that a person lets rest, and whom operators may count.

ALTER TABLE harness.tasks ADD COLUMN pause_requested boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN harness.tasks.pause_requested IS 'id: asked to rest after the step under way';

-- Operators and auditors see of every task of their tenant that it is there and how it stands; what it says is sealed,
-- and they are not shown it.
CREATE POLICY overseen ON harness.tasks FOR SELECT USING (tenant = core.tenant() AND harness.oversees());
