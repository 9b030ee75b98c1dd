-- Accepts a message. If its session is idle and a worker with a free slot is named, the run starts in
-- the same statement: it is claimed, its user message is in the history, and its first model request
-- is announced.
--
-- The row of the session decides, because it is the row that is locked and read after the lock is
-- granted: whether the session is idle, archived, at an expected version, and has room in its queue.
--
-- `p` gives each parameter its name; the build compares these names with the caller's. It is not
-- materialized, so it costs nothing.
WITH p AS NOT MATERIALIZED (
    SELECT $1::uuid AS session_id, $2::uuid AS tenant_id, $3::uuid AS run_id,
           $4::text AS message_id, $5::text AS input, $6::text AS options,
           $7::text AS idempotency_key, $8::text AS client_message_id, $9::bytea AS fingerprint,
           $10::text AS event_type, $11::text AS event_body,
           $12::integer AS max_queued, $13::boolean AS may_wait, $14::bigint[] AS versions,
           $15::uuid AS worker, $16::float8 AS lease_seconds,
           $17::text AS running_event_id, $18::text AS running_event_type,
           $19::text AS running_event_body, $20::text AS request_event_id
), session AS (
    UPDATE sessions s SET
        last_seq = last_seq + CASE
            WHEN p.worker IS NOT NULL AND queued = 0 AND active_run_id IS NULL THEN 3 ELSE 1 END,
        last_message_seq = last_message_seq + CASE
            WHEN p.worker IS NOT NULL AND queued = 0 AND active_run_id IS NULL THEN 1 ELSE 0 END,
        queued = queued + CASE
            WHEN p.worker IS NOT NULL AND queued = 0 AND active_run_id IS NULL THEN 0 ELSE 1 END,
        active_run_id = CASE
            WHEN p.worker IS NOT NULL AND queued = 0 AND active_run_id IS NULL THEN p.run_id
            ELSE active_run_id END,
        updated_at = now()
    FROM p
    WHERE s.id = p.session_id AND s.tenant_id = p.tenant_id AND queued < p.max_queued
      AND archived_at IS NULL
      AND (p.may_wait OR queued = 0 AND active_run_id IS NULL)
      AND (p.versions IS NULL OR last_seq = ANY (p.versions))
      -- A message that was accepted before. Those of concurrent statements violate the indexes.
      AND (p.idempotency_key IS NULL OR NOT EXISTS (
          SELECT FROM runs r
          WHERE r.session_id = s.id AND r.idempotency_key = p.idempotency_key))
      AND (p.client_message_id IS NULL OR NOT EXISTS (
          SELECT FROM runs r
          WHERE r.session_id = s.id AND r.client_message_id = p.client_message_id))
    RETURNING s.id, s.tenant_id, last_message_seq, queued, model, settings, model_settings, workspace,
              parent_session_id, forked_from, permission_mode, remembered,
              active_run_id IS NOT DISTINCT FROM p.run_id AS is_begun,
              last_seq - CASE WHEN active_run_id IS NOT DISTINCT FROM p.run_id THEN 2 ELSE 0 END
                  AS seq
), run AS (
    INSERT INTO runs (id, session_id, tenant_id, accepted_seq, message_id, input, options,
                      idempotency_key, client_message_id, fingerprint,
                      status, attempt, lease_owner, lease_until, started_at)
    SELECT p.run_id, s.id, s.tenant_id, s.seq, p.message_id, p.input::json, p.options::json,
           p.idempotency_key, p.client_message_id, p.fingerprint,
           CASE WHEN s.is_begun THEN 'running' ELSE 'queued' END,
           CASE WHEN s.is_begun THEN 1 ELSE 0 END,
           CASE WHEN s.is_begun THEN p.worker END,
           CASE WHEN s.is_begun THEN now() + make_interval(secs => p.lease_seconds) END,
           CASE WHEN s.is_begun THEN now() END
    FROM session s, p
), message AS (
    INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id, content,
                          last_event)
    SELECT s.id, s.last_message_seq, s.tenant_id, p.run_id, 1, 'user', p.message_id, p.input::json,
           s.seq + 2
    FROM session s, p WHERE s.is_begun
), event AS (
    INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body)
    SELECT s.id, s.seq + e.ord, s.tenant_id, p.run_id, e.id, e.type, e.body::json
    FROM session s, p, LATERAL (VALUES
        (0, p.message_id, p.event_type, p.event_body),
        (1, p.running_event_id, p.running_event_type, p.running_event_body),
        -- Only the session's row has its model. A message may have another one.
        (2, p.request_event_id, 'span.model_request_start',
         '{"type":"span.model_request_start","model":'
         || to_json(coalesce(p.options::json #>> '{model_settings,model}', s.model)) || '}')
    ) AS e (ord, id, type, body)
    WHERE e.ord = 0 OR s.is_begun
)
SELECT true AS "is_locked!", s.seq AS "seq?", s.queued AS "queued?", s.is_begun AS "is_begun!",
       s.model AS "model?", s.workspace AS "workspace?", s.settings::text AS "settings?",
       s.model_settings::text AS "model_settings?",
       s.parent_session_id AS "parent_session_id?", s.last_message_seq AS "last_message_seq?",
       s.forked_from IS NOT NULL AS "is_fork!", s.permission_mode AS "permission_mode?",
       s.remembered::text AS "remembered?", now() AS "now!: Timestamp",
       EXISTS (SELECT FROM budgets b WHERE b.tenant_id = s.tenant_id) AS "is_budgeted!"
FROM session s
