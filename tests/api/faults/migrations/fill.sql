-- Sessions with runs, messages, events, calls and requests, as far as all schemas from migration 12 on
-- have their columns. `test.sessions` is the number of sessions, each with four messages of 4 kB.
CREATE TEMP TABLE texts AS
    SELECT n, string_agg(md5(n || '/' || part), ' ') AS words
    FROM generate_series(1, 500) AS n, generate_series(1, 120) AS part
    GROUP BY n;
INSERT INTO sessions (id, tenant_id, title, metadata, model, settings, last_seq, last_message_seq)
SELECT gen_random_uuid(), tenants.id, 'Session ' || n, json_build_object('team', n % 100), 'm', '{}', 4, 4
FROM tenants, generate_series(1, current_setting('test.sessions')::int) AS n;
INSERT INTO runs (id, session_id, tenant_id, status, accepted_seq, message_id, input, fingerprint,
                  started_at, finished_at)
SELECT gen_random_uuid(), id, tenant_id, 'completed', 1, 'msg', '[]', '', now(), now() FROM sessions;
INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id, content, stop_reason)
SELECT session_id, seq, tenant_id, id, 1, CASE seq % 2 WHEN 1 THEN 'user' ELSE 'assistant' END,
       'msg_' || seq, format('[{"type":"text","text":"%s"}]', words)::json,
       CASE seq % 2 WHEN 0 THEN 'end_turn' END
FROM runs, generate_series(1, 4) AS seq
JOIN texts ON true
WHERE n = 1 + abs(hashtext(id::text || seq)) % 500;
INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body)
SELECT session_id, seq, tenant_id, run_id, message_id,
       CASE role WHEN 'user' THEN 'user.message' ELSE 'agent.message' END,
       format('{"type":"%s.message","content":%s}', replace(role, 'assistant', 'agent'), content)::json
FROM messages;
INSERT INTO tool_calls (session_id, message_seq, tool_use_id, tenant_id, run_id, position, name, state,
                        result)
SELECT session_id, seq, 'toolu_' || n, tenant_id, run_id, n, 'read_file', 'done', repeat('result ', 100)
FROM messages, generate_series(1, 3) AS n
WHERE role = 'assistant';
INSERT INTO requests (session_id, run_id, n, tenant_id, attempt, model, message_seq, form, body_hash,
                      body_length, input_tokens, cache_creation_input_tokens, cache_read_input_tokens,
                      output_tokens, cache_creation_1h_input_tokens, thinking_tokens,
                      web_search_requests, web_fetch_requests, duration_ms)
SELECT session_id, run_id, seq, tenant_id, 1, 'm', seq, '{}', '', 1, 1, 0, 0, 1, 0, 0, 0, 0, 1
FROM messages WHERE role = 'assistant';
DROP TABLE texts;
