-- The facts that explain a run. Events are read newest first, and only for a run that has a worker:
-- its newest event is near the end, however long the session is.
SELECT now() AS "now!: Timestamp", r.status, r.created_at AS "created_at: Timestamp",
       r.started_at AS "started_at: Timestamp", r.finished_at AS "finished_at: Timestamp",
       r.cancel_requested_at AS "cancel_requested_at: Timestamp",
       r.lease_until AS "lease_until: Timestamp",
       r.waiting_since AS "waiting_since: Timestamp", r.wake_at AS "wake_at: Timestamp",
       r.options::text AS "options!", (s.settings -> 'limits')::text AS limits, r.outcome::text,
       CASE WHEN r.status = 'queued' THEN (
           SELECT count(*) FROM runs o
           WHERE o.session_id = r.session_id AND o.status = 'queued'
             AND o.accepted_seq <= r.accepted_seq) END AS queue_position,
       r.takeovers, ahead.id AS "behind?",
       CASE WHEN r.status = 'queued' THEN (
           SELECT max(o.finished_at) FROM runs o
           WHERE o.session_id = r.session_id) END AS "idle_since: Timestamp",
       open.calls::text AS calls,
       latest.type AS "latest_kind?", latest.body::text AS latest_body,
       latest.created_at AS "latest_at?: Timestamp"
FROM runs r
JOIN sessions s ON s.id = r.session_id
LEFT JOIN LATERAL (
    SELECT o.id FROM runs o
    WHERE r.status = 'queued' AND o.session_id = r.session_id
      AND (o.status IN ('running', 'requires_action')
           OR o.status = 'queued' AND o.accepted_seq < r.accepted_seq)
    ORDER BY o.status = 'queued', o.accepted_seq
    LIMIT 1
) ahead ON true
LEFT JOIN LATERAL (
    SELECT json_agg(json_build_object(
        'tool_use_id', c.tool_use_id, 'name', c.name, 'state', c.state,
        'since', coalesce(c.started_at, m.created_at),
        -- A decided call no longer awaits an answer.
        'awaits', CASE WHEN c.state = 'planned' AND c.decision IS NULL THEN c.awaits END,
        'answer_by', CASE WHEN c.state = 'planned' AND c.decision IS NULL THEN c.answer_by END)
        ORDER BY c.position) AS calls
    FROM (SELECT seq, created_at FROM messages
          WHERE run_id = r.id AND session_id = r.session_id AND r.status IN ('running', 'requires_action')
          ORDER BY seq DESC LIMIT 1) m
    JOIN tool_calls c ON c.session_id = r.session_id AND c.message_seq = m.seq
    WHERE c.state IN ('planned', 'started')
) open ON true
LEFT JOIN LATERAL (
    SELECT e.type, e.body, e.created_at FROM events e
    WHERE r.status = 'running' AND e.session_id = r.session_id AND e.run_id = r.id
      AND e.type NOT LIKE 'user.%'
    ORDER BY e.seq DESC LIMIT 1
) latest ON true
WHERE r.id = $1 AND r.session_id = $2 AND r.tenant_id = $3
