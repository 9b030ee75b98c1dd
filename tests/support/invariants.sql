-- Invariants that hold in every database of the service while no run is active. Each row is a
-- violation: the invariant and its location.
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
FROM (SELECT session_id, role, run_id, lag(role) OVER w AS before, lag(run_id) OVER w AS run_before,
        coalesce(lag(stop_reason) OVER w IN ('pause_turn', 'compaction'), false) AS continues
      FROM history WINDOW w AS (PARTITION BY session_id ORDER BY seq)) m
WHERE before IS NULL AND role <> 'user'
   OR before = role AND (role = 'user' OR NOT continues) AND (role = 'assistant' OR run_id = run_before)
UNION ALL
SELECT 'every call is answered once in the next message', session_id || ':' || seq
FROM (SELECT m.session_id, m.seq,
        (SELECT coalesce(array_agg(b ->> 'id' ORDER BY b ->> 'id'), '{}')
         FROM json_array_elements(m.content) b
         WHERE m.role = 'assistant' AND b ->> 'type' = 'tool_use') AS asked,
        (SELECT coalesce(array_agg(b ->> 'tool_use_id' ORDER BY b ->> 'tool_use_id'), '{}')
         FROM json_array_elements(n.content) b
         WHERE n.role = 'user' AND b ->> 'type' = 'tool_result') AS answered
      FROM history m
      LEFT JOIN history n ON n.session_id = m.session_id AND n.seq = m.seq + 1) c
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
-- A write may be repeated if the file is unchanged.
SELECT 'a call with effects is executed at most once', tool_use_id
FROM tool_calls WHERE executions > 1 AND name <> 'write_file'
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
SELECT 'every result with which a fork begins has one event', m.session_id || ':' || (b ->> 'tool_use_id')
FROM sessions s
JOIN messages m ON m.session_id = s.id AND m.seq = s.forked_at + 1
JOIN runs r ON r.id = m.run_id AND r.session_id <> s.id
CROSS JOIN LATERAL json_array_elements(m.content) b
WHERE (SELECT count(*) FROM events e
       WHERE e.session_id = s.id AND e.run_id IS NULL AND e.type = 'agent.tool_result'
         AND e.body ->> 'tool_use_id' = b ->> 'tool_use_id'
         AND (e.body ->> 'is_error')::boolean = coalesce((b ->> 'is_error')::boolean, false)) <> 1
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
FROM runs r LEFT JOIN (SELECT run_id, seq, CASE WHEN e.type = 'session.status_idle'
        THEN e.body -> 'stop_reason' ->> 'type' <> 'requires_action' ELSE false END AS is_end
                       FROM events e) e ON e.run_id = r.id
GROUP BY r.id
HAVING count(*) FILTER (WHERE e.is_end) <> 1 OR max(e.seq) <> max(e.seq) FILTER (WHERE e.is_end)
UNION ALL
SELECT 'the executed input is the approved input', c.tool_use_id
FROM tool_calls c
JOIN messages m ON m.session_id = c.session_id AND m.seq = c.message_seq
CROSS JOIN LATERAL json_array_elements(m.content) b
WHERE b ->> 'id' = c.tool_use_id
  AND c.input_hash <> sha256(convert_to(coalesce(c.input::text, (b -> 'input')::text), 'UTF8'))
UNION ALL
SELECT 'no denied call and no call of the client was executed', tool_use_id
FROM tool_calls WHERE executions > 0 AND (decision = 'deny' OR awaits = 'client')
UNION ALL
SELECT 'a call and its sub-agent refer to each other', s.id::text
FROM sessions s
WHERE s.parent_session_id IS NOT NULL AND NOT EXISTS (
    SELECT FROM tool_calls c JOIN runs r ON r.id = c.child_run_id
    WHERE c.run_id = s.parent_run_id AND c.tool_use_id = s.parent_tool_use_id
      AND c.session_id = s.parent_session_id AND r.session_id = s.id)
UNION ALL
SELECT 'every Task call that is done has a sub-agent', tool_use_id
FROM tool_calls WHERE name = 'Task' AND state = 'done' AND child_run_id IS NULL
UNION ALL
SELECT 'the last output of a sub-agent is the result of its call', c.tool_use_id
FROM tool_calls c JOIN runs r ON r.id = c.child_run_id
WHERE c.state = 'done' AND c.result NOT LIKE '%' || (r.outcome ->> 'output_text') || '%'
  -- In the result, hidden characters are shown by their codes.
  AND (r.outcome ->> 'output_text')
      !~ '[\u200B-\u200F\u202A-\u202E\u2060-\u206F\uFE00-\uFE0F\uFEFF\U000E0000-\U000E0FFF]'
UNION ALL
SELECT 'every event of a sub-agent is relayed once and in order', session_id || ':' || seq
FROM (SELECT session_id, seq, (body #>> '{event,seq}')::bigint AS relayed,
             lag((body #>> '{event,seq}')::bigint) OVER (
                 PARTITION BY session_id, body ->> 'session_thread_id' ORDER BY seq) AS before
      FROM events WHERE type = 'session.thread_event') e
WHERE relayed <= before
UNION ALL
SELECT 'every decision has one event', c.tool_use_id
FROM tool_calls c WHERE (c.decision IS NOT NULL)::int <> (
    SELECT count(*) FROM events e
    WHERE e.run_id = c.run_id AND e.type = 'user.tool_confirmation'
      AND e.body ->> 'tool_use_id' = c.tool_use_id)
UNION ALL
SELECT 'an interrupted reply has no calls', m.session_id || ':' || m.seq
FROM messages m WHERE m.stop_reason = 'interrupted' AND EXISTS (
    SELECT FROM json_array_elements(m.content) b WHERE b ->> 'type' IN ('tool_use', 'tool_result'))
UNION ALL
SELECT 'an interrupted reply ends a cancelled run', m.session_id || ':' || m.seq
FROM messages m JOIN runs r ON r.id = m.run_id
WHERE m.stop_reason = 'interrupted' AND (r.status <> 'cancelled' OR EXISTS (
    SELECT FROM messages n
    WHERE n.session_id = m.session_id AND n.run_id = m.run_id AND n.seq > m.seq))
UNION ALL
SELECT 'the text of an interrupted reply has an event before the end of its run', m.session_id || ':' || m.seq
FROM messages m
WHERE m.stop_reason = 'interrupted' AND NOT EXISTS (
    SELECT FROM events e JOIN events idle ON idle.run_id = e.run_id
    WHERE e.run_id = m.run_id AND e.type = 'agent.message' AND e.body ->> 'interrupted' = 'true'
      AND idle.type = 'session.status_idle' AND idle.seq > e.seq)
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
SELECT 'a settled run has no open reservation', r.run_id::text
FROM reservations r WHERE r.spent_at IS NULL
UNION ALL
SELECT 'requests are numbered from 1 and add up to their run', r.id::text
FROM runs r LEFT JOIN requests q ON q.run_id = r.id
GROUP BY r.id
HAVING count(q.n) <> r.last_request OR coalesce(max(q.n), 0) <> r.last_request
    OR count(q.stop_reason) <> r.model_requests
    OR coalesce(sum(q.input_tokens), 0) <> r.input_tokens
    OR coalesce(sum(q.output_tokens), 0) <> r.output_tokens
    OR sum(q.cost) IS DISTINCT FROM r.cost
UNION ALL
SELECT 'a session costs what its runs cost', s.id::text
FROM sessions s
WHERE s.cost IS DISTINCT FROM (SELECT sum(cost) FROM runs r WHERE r.session_id = s.id)
UNION ALL
SELECT 'no budget is exceeded', b.period
FROM budgets b LEFT JOIN (
    SELECT q.tenant_id, p.period, sum(q.cost) AS cost,
           sum(q.input_tokens + q.cache_creation_input_tokens + q.cache_read_input_tokens
               + q.output_tokens) AS tokens
    FROM requests q, (VALUES ('day'), ('total')) AS p (period)
    WHERE p.period = 'total' OR q.created_at >= date_trunc('day', now(), 'UTC')
    GROUP BY q.tenant_id, p.period) q USING (tenant_id, period)
WHERE q.tokens > b.max_tokens OR q.cost > b.max_cost
UNION ALL
SELECT 'the active run of a session has not settled', id::text FROM sessions WHERE active_run_id IS NOT NULL
UNION ALL
SELECT 'counters match the rows', s.id::text
FROM sessions s
WHERE s.queued <> (SELECT count(*) FROM runs r WHERE r.session_id = s.id AND r.status = 'queued')
   OR s.last_message_seq <> (SELECT count(*) FROM messages m WHERE m.session_id = s.id)
        + (SELECT coalesce(sum(i.up_to - i.after_seq), 0) FROM inherited i WHERE i.session_id = s.id)
   OR s.input_tokens <> (SELECT coalesce(sum(input_tokens), 0) FROM runs r WHERE r.session_id = s.id)
   OR s.output_tokens <> (SELECT coalesce(sum(output_tokens), 0) FROM runs r WHERE r.session_id = s.id)
