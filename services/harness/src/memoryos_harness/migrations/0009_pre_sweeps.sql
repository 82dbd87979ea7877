-- When a worker last looked for tasks that are due: the sweepers are watched by it. One row; it belongs to no tenant.

CREATE TABLE harness.sweeps (last_time timestamptz NOT NULL);
COMMENT ON TABLE harness.sweeps IS 'The time of the last sweep, by this clock.';
COMMENT ON COLUMN harness.sweeps.last_time IS 'id: when the last sweep ended';
INSERT INTO harness.sweeps (last_time) VALUES (clock_timestamp());
GRANT SELECT, UPDATE ON harness.sweeps TO memoryos_harness;
