-- Erasure reaches every row of one tenant (Database.upkeep), and only it deletes.

CREATE POLICY upkeep ON harness.sessions USING (tenant = core.tenant() AND core.upkeep());
CREATE POLICY upkeep ON harness.messages USING (tenant = core.tenant() AND core.upkeep());
CREATE POLICY upkeep ON harness.tasks USING (tenant = core.tenant() AND core.upkeep());
CREATE POLICY upkeep ON harness.steps USING (tenant = core.tenant() AND core.upkeep());
CREATE POLICY upkeep ON harness.task_events USING (tenant = core.tenant() AND core.upkeep());
CREATE POLICY erasure_only ON harness.sessions AS RESTRICTIVE FOR DELETE USING (core.upkeep());
CREATE POLICY erasure_only ON harness.messages AS RESTRICTIVE FOR DELETE USING (core.upkeep());
CREATE POLICY erasure_only ON harness.tasks AS RESTRICTIVE FOR DELETE USING (core.upkeep());
CREATE POLICY erasure_only ON harness.steps AS RESTRICTIVE FOR DELETE USING (core.upkeep());
CREATE POLICY erasure_only ON harness.task_events AS RESTRICTIVE FOR DELETE USING (core.upkeep());
GRANT DELETE ON harness.sessions, harness.messages, harness.tasks, harness.steps, harness.task_events
    TO memoryos_harness;
CREATE INDEX steps_by_item ON harness.steps USING gin (item_ids) WHERE item_ids <> '{}';
