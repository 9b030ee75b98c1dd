-- What must hold at rest in every database that the service has written. Each row names an
-- invariant and where it is broken.
SELECT 'messages are numbered from 1 without a gap' AS invariant, session_id::text AS place
FROM messages GROUP BY session_id HAVING count(*) <> max(seq) OR min(seq) <> 1
UNION ALL
SELECT 'a history starts with the user and never has two assistant messages in a row', session_id::text
FROM (SELECT session_id, role, run_id, lag(role) OVER w AS before, lag(run_id) OVER w AS run_before,
        coalesce(lag(stop_reason) OVER w IN ('pause_turn', 'compaction'), false) AS goes_on
      FROM messages WINDOW w AS (PARTITION BY session_id ORDER BY seq)) m
WHERE before IS NULL AND role <> 'user'
   OR before = role AND (role = 'user' OR NOT goes_on) AND (role = 'assistant' OR run_id = run_before)
UNION ALL
SELECT 'every call is answered once in the next message', session_id || ':' || seq
FROM (SELECT m.session_id, m.seq,
        (SELECT coalesce(array_agg(b ->> 'id' ORDER BY b ->> 'id'), '{}')
         FROM json_array_elements(m.content) b
         WHERE m.role = 'assistant' AND b ->> 'type' = 'tool_use') AS asked,
        (SELECT coalesce(array_agg(b ->> 'tool_use_id' ORDER BY b ->> 'tool_use_id'), '{}')
         FROM json_array_elements(n.content) b
         WHERE n.role = 'user' AND b ->> 'type' = 'tool_result') AS answered
      FROM messages m
      LEFT JOIN messages n ON n.session_id = m.session_id AND n.seq = m.seq + 1) c
WHERE asked <> answered
UNION ALL
SELECT 'no text is blank', session_id || ':' || seq
FROM messages WHERE EXISTS (
    SELECT FROM json_array_elements(content) b
    WHERE b ->> 'type' = 'text' AND btrim(b ->> 'text', E' \t\r\n') = '')
UNION ALL
SELECT 'every run has settled', id::text FROM runs WHERE status NOT IN ('completed', 'failed', 'cancelled')
UNION ALL
SELECT 'every call has settled', tool_use_id
FROM tool_calls WHERE state IN ('planned', 'started')
UNION ALL
-- A file that is still as it was found tells that the write may be begun again.
SELECT 'a call with effects is executed once at most', tool_use_id
FROM tool_calls WHERE executions > 1 AND name <> 'write_file'
UNION ALL
SELECT 'every call has its ledger row', m.session_id || ':' || (b ->> 'id')
FROM messages m CROSS JOIN LATERAL json_array_elements(m.content) b
LEFT JOIN tool_calls c ON c.session_id = m.session_id AND c.message_seq = m.seq
                      AND c.tool_use_id = b ->> 'id'
WHERE m.role = 'assistant' AND b ->> 'type' = 'tool_use' AND c.tool_use_id IS NULL
UNION ALL
SELECT 'attempts never go back along a run', session_id || ':' || seq
FROM (SELECT m.session_id, m.seq, m.attempt, r.attempt AS newest,
             max(m.attempt) OVER (PARTITION BY m.run_id ORDER BY m.seq) AS highest
      FROM messages m JOIN runs r ON r.id = m.run_id) m
WHERE attempt < highest OR attempt > newest
UNION ALL
SELECT 'events are numbered from 1 without a gap', s.id::text
FROM sessions s LEFT JOIN events e ON e.session_id = s.id
GROUP BY s.id HAVING count(e.seq) <> s.last_seq OR coalesce(min(e.seq), 1) <> 1
UNION ALL
SELECT 'a settled run has one last event, and it is the last', r.id::text
FROM runs r LEFT JOIN (SELECT run_id, seq, CASE WHEN e.type = 'session.status_idle'
        THEN e.body -> 'stop_reason' ->> 'type' <> 'requires_action' ELSE false END AS is_end
                       FROM events e) e ON e.run_id = r.id
GROUP BY r.id
HAVING count(*) FILTER (WHERE e.is_end) <> 1 OR max(e.seq) <> max(e.seq) FILTER (WHERE e.is_end)
UNION ALL
SELECT 'what ran is what was decided on', c.tool_use_id
FROM tool_calls c
JOIN messages m ON m.session_id = c.session_id AND m.seq = c.message_seq
CROSS JOIN LATERAL json_array_elements(m.content) b
WHERE b ->> 'id' = c.tool_use_id
  AND c.input_hash <> sha256(convert_to(coalesce(c.input::text, (b -> 'input')::text), 'UTF8'))
UNION ALL
SELECT 'nothing ran that somebody denied, and no call of the client ran here', tool_use_id
FROM tool_calls WHERE executions > 0 AND (decision = 'deny' OR awaits = 'client')
UNION ALL
SELECT 'every decision is told once', c.tool_use_id
FROM tool_calls c WHERE (c.decision IS NOT NULL)::int <> (
    SELECT count(*) FROM events e
    WHERE e.run_id = c.run_id AND e.type = 'user.tool_confirmation'
      AND e.body ->> 'tool_use_id' = c.tool_use_id)
UNION ALL
SELECT 'every row has the tenant of its session', s.id::text
FROM sessions s JOIN (
    SELECT session_id, tenant_id FROM runs
    UNION ALL SELECT session_id, tenant_id FROM messages
    UNION ALL SELECT session_id, tenant_id FROM tool_calls
    UNION ALL SELECT session_id, tenant_id FROM events) r ON r.session_id = s.id
WHERE r.tenant_id <> s.tenant_id
UNION ALL
SELECT 'no session has a run that has settled', id::text FROM sessions WHERE active_run_id IS NOT NULL
UNION ALL
SELECT 'counters agree with rows', s.id::text
FROM sessions s
WHERE s.queued <> (SELECT count(*) FROM runs r WHERE r.session_id = s.id AND r.status = 'queued')
   OR s.last_message_seq <> (SELECT count(*) FROM messages m WHERE m.session_id = s.id)
   OR s.input_tokens <> (SELECT coalesce(sum(input_tokens), 0) FROM runs r WHERE r.session_id = s.id)
   OR s.output_tokens <> (SELECT coalesce(sum(output_tokens), 0) FROM runs r WHERE r.session_id = s.id)
