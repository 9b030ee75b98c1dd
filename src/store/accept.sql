-- A message is accepted. If its session is idle and a worker ($13) stands ready, its run begins
-- with the same statement: claimed, its user message in the history, its first request announced.
-- The session's row decides, because it is the one that is locked and seen afresh; so it also
-- decides whether a message that may not wait ($18) finds its session idle, whether one for certain
-- versions ($19) finds it at one of them, and that one that is put away takes none.
WITH session AS (
    UPDATE sessions SET
        last_seq = last_seq + CASE
            WHEN $13::uuid IS NOT NULL AND queued = 0 AND active_run_id IS NULL THEN 3 ELSE 1 END,
        last_message_seq = last_message_seq + CASE
            WHEN $13::uuid IS NOT NULL AND queued = 0 AND active_run_id IS NULL THEN 1 ELSE 0 END,
        queued = queued + CASE
            WHEN $13::uuid IS NOT NULL AND queued = 0 AND active_run_id IS NULL THEN 0 ELSE 1 END,
        active_run_id = CASE
            WHEN $13::uuid IS NOT NULL AND queued = 0 AND active_run_id IS NULL THEN $4
            ELSE active_run_id END,
        updated_at = now()
    WHERE id = $1 AND tenant_id = $2 AND queued < $3 AND archived_at IS NULL
      AND ($18::bool OR queued = 0 AND active_run_id IS NULL)
      AND ($19::bigint[] IS NULL OR last_seq = ANY ($19))
    RETURNING id, tenant_id, last_message_seq, queued, model, settings, workspace,
              parent_session_id, permission_mode, remembered,
              active_run_id IS NOT DISTINCT FROM $4 AS is_begun,
              last_seq - CASE WHEN active_run_id IS NOT DISTINCT FROM $4 THEN 2 ELSE 0 END AS seq
), run AS (
    INSERT INTO runs (id, session_id, tenant_id, accepted_seq, message_id, input, options,
                      idempotency_key, client_message_id, fingerprint,
                      status, attempt, lease_owner, lease_until, started_at)
    SELECT $4, s.id, s.tenant_id, s.seq, $5, ($6::text)::json, ($7::text)::json, $8, $9, $10,
           CASE WHEN s.is_begun THEN 'running' ELSE 'queued' END,
           CASE WHEN s.is_begun THEN 1 ELSE 0 END,
           CASE WHEN s.is_begun THEN $13::uuid END,
           CASE WHEN s.is_begun THEN now() + interval '12 seconds' END,
           CASE WHEN s.is_begun THEN now() END
    FROM session s
), message AS (
    INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id, content)
    SELECT s.id, s.last_message_seq, s.tenant_id, $4, 1, 'user', $5, ($6::text)::json
    FROM session s WHERE s.is_begun
), event AS (
    INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body)
    SELECT s.id, s.seq + e.ord, s.tenant_id, $4, e.id, e.kind, e.body::json
    FROM session s, LATERAL (VALUES
        (0, $5, $11, $12),
        (1, $14, $15, $16),
        -- Only the session knows its model.
        (2, $17, 'span.model_request_start',
         '{"type":"span.model_request_start","model":' || to_json(s.model) || '}')
    ) AS e (ord, id, kind, body)
    WHERE e.ord = 0 OR s.is_begun
    RETURNING seq, event_id, type, body, created_at
)
SELECT e.seq, e.event_id, e.type AS kind, e.body::text AS "body!",
       e.created_at AS "created_at: Timestamp", s.queued, s.is_begun AS "is_begun!",
       s.settings::text AS "settings!", s.workspace, s.parent_session_id, s.last_message_seq,
       s.permission_mode,
       s.remembered::text AS "remembered!",
       EXISTS (SELECT FROM budgets b WHERE b.tenant_id = s.tenant_id) AS "is_budgeted!"
FROM event e, session s
ORDER BY e.seq
