-- Schema harness: sessions, messages, tasks, their steps and events, and the due list.
--
-- Truth is in these rows; the queue of procrastinate (0002) only wakes workers.
-- A row is visible to its own user alone: the policies below compare tenant and
-- user of the transaction. harness.due_tasks has no content and no row security:
-- workers find in it, over all tenants, whose task to look at.

CREATE TABLE harness.sessions (
    tenant           text NOT NULL,
    id               text NOT NULL,
    user_id          text NOT NULL,
    create_time      timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_active_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    turn_count       integer NOT NULL DEFAULT 0,
    message_count    bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);
COMMENT ON COLUMN harness.sessions.tenant IS 'id: tenant';
COMMENT ON COLUMN harness.sessions.id IS 'id: ses_ and a ULID';
COMMENT ON COLUMN harness.sessions.user_id IS 'id: user it belongs to';
COMMENT ON COLUMN harness.sessions.create_time IS 'id: when it was started';
COMMENT ON COLUMN harness.sessions.last_active_time IS 'id: when something last happened in it';
COMMENT ON COLUMN harness.sessions.turn_count IS 'id: messages by the user';
COMMENT ON COLUMN harness.sessions.message_count IS 'id: messages; the place of the last one';

CREATE TABLE harness.messages (
    tenant         text NOT NULL,
    session_id     text NOT NULL,
    sequence       bigint NOT NULL,
    id             text NOT NULL,
    user_id        text NOT NULL,
    role           text NOT NULL CHECK (role IN ('USER', 'ASSISTANT', 'TOOL', 'SYSTEM')),
    sealed_content bytea NOT NULL,
    tool_call_id   text NOT NULL DEFAULT '',
    tool_name      text NOT NULL DEFAULT '',
    token_count    integer NOT NULL DEFAULT 0,
    create_time    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, session_id, sequence),
    UNIQUE (tenant, id),
    FOREIGN KEY (tenant, session_id) REFERENCES harness.sessions (tenant, id)
);
COMMENT ON COLUMN harness.messages.tenant IS 'id: tenant';
COMMENT ON COLUMN harness.messages.session_id IS 'id: session it stands in';
COMMENT ON COLUMN harness.messages.sequence IS 'id: place in the session, from 1';
COMMENT ON COLUMN harness.messages.id IS 'id: msg_ and a ULID';
COMMENT ON COLUMN harness.messages.user_id IS 'id: user of the session';
COMMENT ON COLUMN harness.messages.role IS 'id: who speaks';
COMMENT ON COLUMN harness.messages.sealed_content IS 'content: what is said';
COMMENT ON COLUMN harness.messages.tool_call_id IS 'id: tool call that a tool message answers';
COMMENT ON COLUMN harness.messages.tool_name IS 'id: tool that a tool message is from';
COMMENT ON COLUMN harness.messages.token_count IS 'id: tokens, where the caller counted them';
COMMENT ON COLUMN harness.messages.create_time IS 'id: when it was added';

CREATE TABLE harness.tasks (
    tenant            text NOT NULL,
    id                text NOT NULL,
    user_id           text NOT NULL,
    agent_chain       text[] NOT NULL,
    session_id        text NOT NULL,
    question_sequence bigint NOT NULL,
    agent             text NOT NULL,
    agent_version     text NOT NULL,
    sealed_agent      bytea NOT NULL,
    sealed_grant      bytea NOT NULL,
    sealed_input      bytea NOT NULL,
    sealed_output     bytea,
    state             text NOT NULL DEFAULT 'IDLE' CHECK (state IN ('IDLE', 'THINKING', 'TOOL_CALLING', 'RESPONDING',
        'WAITING_REVIEW', 'CANCELLING', 'FAILED', 'SUCCEEDED', 'DEAD', 'CANCELLED')),
    error_code        text NOT NULL DEFAULT '',
    error_message     text NOT NULL DEFAULT '',
    attempt           integer NOT NULL DEFAULT 0,
    stalled_attempts  integer NOT NULL DEFAULT 0,
    lease_epoch       bigint NOT NULL DEFAULT 0,
    lease_holder      text,
    lease_expire_time timestamptz,
    deadline_time     timestamptz NOT NULL,
    park_time         timestamptz,
    step_count        integer NOT NULL DEFAULT 0,
    event_count       bigint NOT NULL DEFAULT 0,
    token_count       bigint NOT NULL DEFAULT 0,
    call_count        integer NOT NULL DEFAULT 0,
    traceparent       text NOT NULL,
    create_time       timestamptz NOT NULL DEFAULT clock_timestamp(),
    update_time       timestamptz NOT NULL DEFAULT clock_timestamp(),
    end_time          timestamptz,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, session_id) REFERENCES harness.sessions (tenant, id),
    CHECK ((lease_holder IS NULL) = (lease_expire_time IS NULL)),
    CHECK ((end_time IS NOT NULL) = (state IN ('SUCCEEDED', 'DEAD', 'CANCELLED'))),
    CHECK (end_time IS NULL OR lease_holder IS NULL)
);
COMMENT ON COLUMN harness.tasks.tenant IS 'id: tenant';
COMMENT ON COLUMN harness.tasks.id IS 'id: task_ and a ULID';
COMMENT ON COLUMN harness.tasks.user_id IS 'id: user for whom it runs';
COMMENT ON COLUMN harness.tasks.agent_chain IS 'id: agents of the grant, outermost first';
COMMENT ON COLUMN harness.tasks.session_id IS 'id: session it speaks in';
COMMENT ON COLUMN harness.tasks.question_sequence IS 'id: place of the question in the session';
COMMENT ON COLUMN harness.tasks.agent IS 'id: name of the agent';
COMMENT ON COLUMN harness.tasks.agent_version IS 'id: SHA-256 of the definition that it is pinned to';
COMMENT ON COLUMN harness.tasks.sealed_agent IS 'content: the definition that it is pinned to';
COMMENT ON COLUMN harness.tasks.sealed_grant IS 'content: claims that its tokens are minted from, never a token';
COMMENT ON COLUMN harness.tasks.sealed_input IS 'content: what was asked';
COMMENT ON COLUMN harness.tasks.sealed_output IS 'content: the answer';
COMMENT ON COLUMN harness.tasks.state IS 'id: where it stands';
COMMENT ON COLUMN harness.tasks.error_code IS 'id: code when it did not succeed';
COMMENT ON COLUMN harness.tasks.error_message IS 'id: safe sentence when it did not succeed';
COMMENT ON COLUMN harness.tasks.attempt IS 'id: attempts so far';
COMMENT ON COLUMN harness.tasks.stalled_attempts IS 'id: attempts in a row that finished no step';
COMMENT ON COLUMN harness.tasks.lease_epoch IS 'id: grows with each worker that takes it; fences every write';
COMMENT ON COLUMN harness.tasks.lease_holder IS 'id: worker that holds it, for people';
COMMENT ON COLUMN harness.tasks.lease_expire_time IS 'id: when the lease runs out, by this clock';
COMMENT ON COLUMN harness.tasks.deadline_time IS 'id: when its time is used up, waits for reviews aside';
COMMENT ON COLUMN harness.tasks.park_time IS 'id: since when it waits for a review';
COMMENT ON COLUMN harness.tasks.step_count IS 'id: steps journaled';
COMMENT ON COLUMN harness.tasks.event_count IS 'id: events; the place of the last one';
COMMENT ON COLUMN harness.tasks.token_count IS 'id: tokens used';
COMMENT ON COLUMN harness.tasks.call_count IS 'id: tool calls made';
COMMENT ON COLUMN harness.tasks.traceparent IS 'id: W3C trace context of the submission';
COMMENT ON COLUMN harness.tasks.create_time IS 'id: when it was submitted';
COMMENT ON COLUMN harness.tasks.update_time IS 'id: when it last changed';
COMMENT ON COLUMN harness.tasks.end_time IS 'id: when it ended';

CREATE TABLE harness.steps (
    tenant        text NOT NULL,
    task_id       text NOT NULL,
    sequence      integer NOT NULL,
    id            text NOT NULL,
    user_id       text NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('MODEL_CALL', 'MEMORY_READ', 'TOOL_CALL')),
    state         text NOT NULL CHECK (state IN ('STARTED', 'DONE', 'FAILED')),
    target        text NOT NULL,
    sealed_input  bytea NOT NULL,
    sealed_output bytea,
    call_id       text NOT NULL DEFAULT '',
    decision_id   text NOT NULL DEFAULT '',
    review_id     text NOT NULL DEFAULT '',
    item_ids      text[] NOT NULL DEFAULT '{}',
    lease_epoch   bigint NOT NULL,
    create_time   timestamptz NOT NULL DEFAULT clock_timestamp(),
    end_time      timestamptz,
    PRIMARY KEY (tenant, task_id, sequence),
    UNIQUE (tenant, id),
    FOREIGN KEY (tenant, task_id) REFERENCES harness.tasks (tenant, id),
    CHECK ((state = 'STARTED') = (end_time IS NULL))
);
COMMENT ON COLUMN harness.steps.tenant IS 'id: tenant';
COMMENT ON COLUMN harness.steps.task_id IS 'id: task it belongs to';
COMMENT ON COLUMN harness.steps.sequence IS 'id: place in the task, from 1';
COMMENT ON COLUMN harness.steps.id IS 'id: step_ and a ULID; the request id of a tool call';
COMMENT ON COLUMN harness.steps.user_id IS 'id: user of the task';
COMMENT ON COLUMN harness.steps.kind IS 'id: what it does';
COMMENT ON COLUMN harness.steps.state IS 'id: where it stands';
COMMENT ON COLUMN harness.steps.target IS 'id: skill or model';
COMMENT ON COLUMN harness.steps.sealed_input IS 'content: what went in, JSON';
COMMENT ON COLUMN harness.steps.sealed_output IS 'content: what came out, JSON';
COMMENT ON COLUMN harness.steps.call_id IS 'id: call in the tool-gateway';
COMMENT ON COLUMN harness.steps.decision_id IS 'id: decision of that call';
COMMENT ON COLUMN harness.steps.review_id IS 'id: review of that call';
COMMENT ON COLUMN harness.steps.item_ids IS 'id: items recalled';
COMMENT ON COLUMN harness.steps.lease_epoch IS 'id: lease epoch that wrote it last';
COMMENT ON COLUMN harness.steps.create_time IS 'id: when it was started';
COMMENT ON COLUMN harness.steps.end_time IS 'id: when it ended';

CREATE TABLE harness.task_events (
    tenant      text NOT NULL,
    task_id     text NOT NULL,
    sequence    bigint NOT NULL,
    user_id     text NOT NULL,
    state       text NOT NULL,
    step_id     text NOT NULL DEFAULT '',
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, task_id, sequence),
    FOREIGN KEY (tenant, task_id) REFERENCES harness.tasks (tenant, id)
);
COMMENT ON COLUMN harness.task_events.tenant IS 'id: tenant';
COMMENT ON COLUMN harness.task_events.task_id IS 'id: task it happened to';
COMMENT ON COLUMN harness.task_events.sequence IS 'id: place in the task, from 1';
COMMENT ON COLUMN harness.task_events.user_id IS 'id: user of the task';
COMMENT ON COLUMN harness.task_events.state IS 'id: state of the task after it';
COMMENT ON COLUMN harness.task_events.step_id IS 'id: step that it belongs to, if any';
COMMENT ON COLUMN harness.task_events.create_time IS 'id: when it happened';

CREATE TABLE harness.due_tasks (
    tenant      text NOT NULL,
    task_id     text NOT NULL,
    user_id     text NOT NULL,
    due_time    timestamptz NOT NULL,
    quiet_until timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (tenant, task_id)
);
COMMENT ON COLUMN harness.due_tasks.tenant IS 'id: tenant';
COMMENT ON COLUMN harness.due_tasks.task_id IS 'id: task that has not ended';
COMMENT ON COLUMN harness.due_tasks.user_id IS 'id: user of the task';
COMMENT ON COLUMN harness.due_tasks.due_time IS 'id: when a worker must look at it next';
COMMENT ON COLUMN harness.due_tasks.quiet_until IS 'id: until when no further wake-up is sent';
CREATE INDEX due_tasks_by_time ON harness.due_tasks (due_time);
COMMENT ON TABLE harness.due_tasks IS 'No content, no row security: the cross-tenant list of what to look at next.';

ALTER TABLE harness.sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE harness.sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON harness.sessions USING (tenant = core.tenant() AND user_id = core.user_name());
ALTER TABLE harness.messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE harness.messages FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON harness.messages USING (tenant = core.tenant() AND user_id = core.user_name());
ALTER TABLE harness.tasks ENABLE ROW LEVEL SECURITY;
ALTER TABLE harness.tasks FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON harness.tasks USING (tenant = core.tenant() AND user_id = core.user_name());
ALTER TABLE harness.steps ENABLE ROW LEVEL SECURITY;
ALTER TABLE harness.steps FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON harness.steps USING (tenant = core.tenant() AND user_id = core.user_name());
ALTER TABLE harness.task_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE harness.task_events FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON harness.task_events USING (tenant = core.tenant() AND user_id = core.user_name());

GRANT SELECT, INSERT, UPDATE ON harness.sessions, harness.tasks, harness.steps TO memoryos_harness;
GRANT SELECT, INSERT ON harness.messages, harness.task_events TO memoryos_harness;
GRANT SELECT, INSERT, UPDATE, DELETE ON harness.due_tasks TO memoryos_harness;
