-- Statements about many sessions at once: lists and search. Row security adds tenant
-- and user of the transaction to every one of them; they are written out all the same (I1).

-- name: database_time
SELECT clock_timestamp()

-- name: resting_sessions
-- Those that have not moved since the list was begun, last active first.
SELECT id, user_id, create_time, last_active_time, turn_count
FROM harness.sessions
WHERE tenant = core.tenant()/*whose*/
    AND last_active_time <= %(as_of)s AND (last_active_time, id) < (%(before_time)s, %(before_id)s)
ORDER BY last_active_time DESC, id DESC
LIMIT %(limit)s

-- name: moved_sessions
-- Those that were there when the list was begun and have been active since.
SELECT id, user_id, create_time, last_active_time, turn_count
FROM harness.sessions
WHERE tenant = core.tenant()/*whose*/
    AND last_active_time > %(as_of)s AND create_time <= %(as_of)s AND id > %(after_id)s
ORDER BY id
LIMIT %(limit)s

-- name: insert_words
INSERT INTO harness.message_words (tenant, user_id, message_id, session_id, sequence, role, hashes)
VALUES (core.tenant(), core.user_name(), %(message_id)s, %(session_id)s, %(sequence)s, %(role)s, %(hashes)s::int8[])
ON CONFLICT DO NOTHING

-- name: session_without_words
SELECT id, worded_count, message_count
FROM harness.sessions
WHERE tenant = core.tenant() AND user_id = core.user_name() AND worded_count < message_count
ORDER BY last_active_time DESC
LIMIT 1
FOR UPDATE

-- name: words_up_to
UPDATE harness.sessions
SET worded_count = %(sequence)s
WHERE tenant = core.tenant() AND user_id = core.user_name() AND id = %(id)s

-- name: search_words
-- Of the user's newest messages those with the greatest share of the asked words: each word weighs
-- ln(1 + (N - n + 0.5) / (n + 0.5)), where n of the N messages hold it.
WITH newest AS MATERIALIZED (
    SELECT message_id, session_id, sequence, hashes
    FROM harness.message_words
    WHERE tenant = core.tenant() AND user_id = core.user_name() AND role = ANY (%(roles)s::text[])
        AND NOT (session_id = %(shown_session)s AND sequence >= %(shown_from)s)
    ORDER BY message_id DESC
    LIMIT %(messages)s
), held AS MATERIALIZED (
    SELECT message_id, session_id, sequence, word.hash
    FROM newest CROSS JOIN LATERAL unnest(hashes) AS word (hash)
    WHERE hashes && %(asked)s::int8[] AND word.hash = ANY (%(asked)s::int8[])
), weights AS MATERIALIZED (
    SELECT asked.hash, ln(1 + (newest_count.n - count(held.hash) + 0.5) / (count(held.hash) + 0.5))::float8 AS weight
    FROM unnest(%(asked)s::int8[]) AS asked (hash)
    LEFT JOIN held ON held.hash = asked.hash
    CROSS JOIN (SELECT count(*)::float8 AS n FROM newest) AS newest_count
    GROUP BY asked.hash, newest_count.n
), scored AS (
    SELECT message_id, session_id, sequence,
        LEAST(1.0, sum(weight) / (SELECT sum(weight) FROM weights))::float8 AS score
    FROM held JOIN weights ON weights.hash = held.hash
    GROUP BY message_id, session_id, sequence
)
SELECT session_id, sequence, score
FROM scored
WHERE score >= %(min_score)s
ORDER BY score DESC, message_id DESC
LIMIT %(limit)s

-- name: found_messages
-- The truth of what was found, and of what the agent said right after it.
SELECT message.id, message.session_id, message.sequence, message.role, message.sealed_content, message.tool_call_id,
    message.tool_name, message.token_count, message.create_time, reply.id AS reply_id,
    reply.sealed_content AS reply_content
FROM unnest(%(sessions)s::text[], %(sequences)s::int8[]) WITH ORDINALITY AS found (session_id, sequence, place)
JOIN harness.messages AS message ON message.tenant = core.tenant() AND message.user_id = core.user_name()
    AND message.session_id = found.session_id AND message.sequence = found.sequence
LEFT JOIN harness.messages AS reply ON %(replies)s::boolean AND reply.tenant = core.tenant()
    AND reply.user_id = core.user_name() AND reply.session_id = found.session_id
    AND reply.sequence = found.sequence + 1 AND reply.role = 'ASSISTANT' AND message.role = 'USER'
ORDER BY found.place
