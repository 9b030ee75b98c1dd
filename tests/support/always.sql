-- Invariants that hold at every moment, also while runs are executed and processes are killed. Each
-- row is a violation: the invariant and its location.
WITH history AS (
    SELECT session_id, seq, run_id, role, content, stop_reason FROM messages
    UNION ALL
    -- The messages that a fork shares with its source.
    SELECT i.session_id, m.seq, m.run_id, m.role, m.content, m.stop_reason
    FROM inherited i
    JOIN messages m ON m.session_id = i.source_id AND m.seq BETWEEN i.after_seq + 1 AND i.up_to
)
SELECT 'messages are numbered from 1 without a gap' AS invariant, session_id::text AS location
FROM history GROUP BY session_id HAVING count(*) <> max(seq) OR min(seq) <> 1
UNION ALL
SELECT 'a history starts with the user and never has two assistant messages in a row', session_id::text
FROM (SELECT session_id, role, run_id, lag(role) OVER w AS before, lag(run_id) OVER w AS run_before
      FROM history WINDOW w AS (PARTITION BY session_id ORDER BY seq)) m
WHERE before IS NULL AND role <> 'user' OR before = role AND (role = 'assistant' OR run_id = run_before)
UNION ALL
-- The calls of the last message may be unanswered.
SELECT 'every call is answered once in the next message', session_id || ':' || seq
FROM (SELECT m.session_id, m.seq,
        (SELECT coalesce(array_agg(b ->> 'id' ORDER BY b ->> 'id'), '{}')
         FROM json_array_elements(m.content) b
         WHERE m.role = 'assistant' AND b ->> 'type' = 'tool_use') AS asked,
        (SELECT coalesce(array_agg(b ->> 'tool_use_id' ORDER BY b ->> 'tool_use_id'), '{}')
         FROM json_array_elements(n.content) b
         WHERE n.role = 'user' AND b ->> 'type' = 'tool_result') AS answered
      FROM history m JOIN history n ON n.session_id = m.session_id AND n.seq = m.seq + 1) c
WHERE asked <> answered
UNION ALL
SELECT 'no text is blank', session_id || ':' || seq
FROM messages WHERE EXISTS (
    SELECT FROM json_array_elements(content) b
    WHERE b ->> 'type' = 'text' AND btrim(b ->> 'text', E' \t\r\n') = '')
UNION ALL
SELECT 'a session has at most one active run', session_id::text
FROM runs WHERE status IN ('running', 'requires_action') GROUP BY session_id HAVING count(*) > 1
UNION ALL
SELECT 'an idempotency key has at most one run', session_id || ':' || idempotency_key
FROM runs WHERE idempotency_key IS NOT NULL GROUP BY session_id, idempotency_key HAVING count(*) > 1
UNION ALL
SELECT 'every call has its ledger row', m.session_id || ':' || (b ->> 'id')
FROM messages m CROSS JOIN LATERAL json_array_elements(m.content) b
LEFT JOIN tool_calls c ON c.session_id = m.session_id AND c.message_seq = m.seq
                      AND c.tool_use_id = b ->> 'id'
WHERE m.role = 'assistant' AND b ->> 'type' = 'tool_use' AND c.tool_use_id IS NULL
UNION ALL
-- Except the first message of a fork, which may answer calls of the source.
SELECT 'a message belongs to a run of its session', m.session_id || ':' || m.seq
FROM messages m
JOIN runs r ON r.id = m.run_id AND r.session_id <> m.session_id
JOIN sessions s ON s.id = m.session_id
WHERE m.seq IS DISTINCT FROM s.forked_at + 1 OR m.role <> 'user'
   OR m.run_id IS DISTINCT FROM (SELECT h.run_id FROM history h
                                 WHERE h.session_id = s.id AND h.seq = s.forked_at)
UNION ALL
SELECT 'the attempts of a run never decrease', session_id || ':' || seq
FROM (SELECT m.session_id, m.seq, m.attempt, r.attempt AS newest,
             max(m.attempt) OVER (PARTITION BY m.session_id, m.run_id ORDER BY m.seq) AS highest
      FROM messages m JOIN runs r ON r.id = m.run_id) m
WHERE attempt < highest OR attempt > newest
UNION ALL
SELECT 'events are numbered from 1 without a gap', s.id::text
FROM sessions s LEFT JOIN events e ON e.session_id = s.id
GROUP BY s.id HAVING count(e.seq) <> s.last_seq OR coalesce(min(e.seq), 1) <> 1
UNION ALL
SELECT 'a settled run has one last event, and it is the last', r.id::text
FROM runs r JOIN (SELECT run_id, seq, CASE WHEN e.type = 'session.status_idle'
        THEN e.body -> 'stop_reason' ->> 'type' <> 'requires_action' ELSE false END AS is_end
                  FROM events e) e ON e.run_id = r.id
GROUP BY r.id
HAVING count(*) FILTER (WHERE e.is_end) > 1 OR max(e.seq) > max(e.seq) FILTER (WHERE e.is_end)
UNION ALL
SELECT 'a waiting run has no lease, and a time at which it is resumed', id::text
FROM runs WHERE (status = 'requires_action') <> (wake_at IS NOT NULL)
   OR status = 'requires_action' AND (lease_owner IS NOT NULL OR lease_until IS NOT NULL)
UNION ALL
-- now() is older than the snapshot: a run that was answered in between would be due in the future.
SELECT 'a waiting run has a waiting call, or is due', r.id::text
FROM runs r WHERE r.status = 'requires_action' AND r.wake_at > clock_timestamp() AND NOT EXISTS (
    SELECT FROM tool_calls c WHERE c.run_id = r.id AND c.state = 'planned'
      AND c.awaits IS NOT NULL AND c.decision IS NULL)
UNION ALL
SELECT 'every open reservation belongs to a running run', v.run_id::text
FROM reservations v JOIN runs r ON r.id = v.run_id
WHERE v.spent_at IS NULL AND r.status <> 'running'
UNION ALL
SELECT 'every row has a session', r.name || ' ' || r.session_id
FROM (
    SELECT 'runs' AS name, session_id FROM runs
    UNION ALL SELECT 'messages', session_id FROM messages
    UNION ALL SELECT 'tool_calls', session_id FROM tool_calls
    UNION ALL SELECT 'events', session_id FROM events
    UNION ALL SELECT 'requests', session_id FROM requests
    UNION ALL SELECT 'seen_files', session_id FROM seen_files) r
WHERE NOT EXISTS (SELECT FROM sessions s WHERE s.id = r.session_id)
UNION ALL
SELECT 'every row has the tenant of its session', s.id::text
FROM sessions s JOIN (
    SELECT session_id, tenant_id FROM runs
    UNION ALL SELECT session_id, tenant_id FROM messages
    UNION ALL SELECT session_id, tenant_id FROM tool_calls
    UNION ALL SELECT session_id, tenant_id FROM requests
    UNION ALL SELECT session_id, tenant_id FROM events
    UNION ALL SELECT session_id, tenant_id FROM inherited
    UNION ALL SELECT i.source_id, i.tenant_id FROM inherited i
    UNION ALL SELECT forked_from, tenant_id FROM sessions) r ON r.session_id = s.id
WHERE r.tenant_id <> s.tenant_id
UNION ALL
SELECT 'no connection is idle in a transaction', application_name || ' ' || pid
FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'twostep%'
  AND state LIKE 'idle in transaction%' AND now() - state_change > interval '5 seconds'
