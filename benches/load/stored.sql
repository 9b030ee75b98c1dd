-- Fills a migrated database with settled sessions, to measure the service on a large one:
--
--     make load ARGS="--stored 1000000"
--     psql -v sessions=1000000 -v events=50 -f benches/load/stored.sql "$DATABASE_URL"
--
-- The load test does not use psql: it leaves out the lines that begin with a backslash, and expects each
-- statement to end with a semicolon at the end of a line.
--
-- Each session has one run with four messages, one tool call, two requests, and `events` events. The
-- sessions belong to the tenant of a service without keys. They are older than those that the service
-- creates, so their ids come before. A million sessions with 50 events take about 13 GB and 10 minutes.
--
-- The user must be a superuser: triggers are off, which would queue webhooks. The rows have the shape of
-- real ones, but the events are not those of the messages, so `twostep verify` reports them.
\set ON_ERROR_STOP on
\if :{?sessions} \else \set sessions 100000 \endif
\if :{?events} \else \set events 50 \endif

BEGIN;
SET LOCAL session_replication_role = replica;
SET LOCAL synchronous_commit = off;
CREATE TEMP TABLE stored ON COMMIT DROP AS
SELECT n, ('01800000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS session_id,
       ('01800000-0000-7000-9000-' || lpad(to_hex(n), 12, '0'))::uuid AS run_id,
       '00000000-0000-7000-8000-000000000001'::uuid AS tenant_id,
       now() - interval '30 days' AS at
FROM generate_series(1, :sessions) AS n;

INSERT INTO sessions (id, tenant_id, model, settings, last_seq, last_message_seq, input_tokens,
                      output_tokens, stop_reason, created_at, updated_at)
SELECT session_id, tenant_id, 'claude-load', '{"model":"claude-load","max_tokens":1024,"system":""}',
       :events, 4, 200, 40, '{"type":"end_turn"}', at, at
FROM stored ORDER BY n;

INSERT INTO runs (id, session_id, tenant_id, status, accepted_seq, message_id, input, attempt, outcome,
                  model_requests, input_tokens, output_tokens, fingerprint, steps, last_request,
                  created_at, started_at, finished_at)
SELECT run_id, session_id, tenant_id, 'completed', 1, 'msg_' || n,
       '[{"type":"text","text":"What do the notes list?"}]', 1,
       '{"stop_reason":{"type":"end_turn"},"output_text":"Two fixes."}', 2, 200, 40,
       decode(md5(n::text), 'hex'), 3, 2, at, at, at
FROM stored ORDER BY n;

INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id, content, stop_reason,
                      created_at)
SELECT session_id, seq, tenant_id, run_id, 1, CASE seq % 2 WHEN 1 THEN 'user' ELSE 'assistant' END,
       'msg_' || n || '_' || seq,
       CASE seq
           WHEN 1 THEN '[{"type":"text","text":"What do the notes list?"}]'
           WHEN 2 THEN '[{"type":"tool_use","id":"toolu_1","name":"read_file","input":{}}]'
           WHEN 3 THEN '[{"type":"tool_result","tool_use_id":"toolu_1","content":"notes"}]'
           ELSE '[{"type":"text","text":"Two fixes."}]'
       END::json,
       CASE seq WHEN 2 THEN 'tool_use' WHEN 4 THEN 'end_turn' END, at
FROM stored, generate_series(1, 4) AS seq ORDER BY n, seq;

INSERT INTO tool_calls (session_id, message_seq, tool_use_id, tenant_id, run_id, position, name, state,
                        executions, result, started_at, finished_at)
SELECT session_id, 2, 'toolu_1', tenant_id, run_id, 0, 'read_file', 'done', 1, 'notes', at, at
FROM stored ORDER BY n;

INSERT INTO requests (session_id, run_id, n, tenant_id, attempt, model, message_seq, form, body_hash,
                      body_length, stop_reason, input_tokens, cache_creation_input_tokens,
                      cache_read_input_tokens, output_tokens, cache_creation_1h_input_tokens,
                      thinking_tokens, web_search_requests, web_fetch_requests, duration_ms, created_at)
SELECT session_id, run_id, r, tenant_id, 1, 'claude-load', 2 * r - 1, '{}', decode(md5(n || '/' || r), 'hex'),
       1000, CASE r WHEN 1 THEN 'tool_use' ELSE 'end_turn' END, 100, 0, 0, 20, 0, 0, 0, 0, 5, at
FROM stored, generate_series(1, 2) AS r ORDER BY n, r;

INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body, created_at)
SELECT session_id, seq, tenant_id, run_id, 'evt_' || n || '_' || seq, type,
       CASE type WHEN 'user.message'
           THEN '{"type":"user.message","content":[{"type":"text","text":"What do the notes list?"}]}'
           ELSE '{"type":"' || type || '"}'
       END::json, at
FROM stored, generate_series(1, :events) AS seq,
     LATERAL (SELECT CASE WHEN seq = 1 THEN 'user.message' WHEN seq = :events THEN 'session.status_idle'
                          ELSE 'span.model_request_end' END) AS kind (type)
ORDER BY n, seq;
COMMIT;
VACUUM (ANALYZE) sessions, runs, messages, tool_calls, requests, events;
SELECT pg_size_pretty(pg_database_size(current_database())) AS size;
