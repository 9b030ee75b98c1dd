-- Accepts messages of different sessions, each as `accept.sql` accepts one, or not at all. A session
-- that another transaction has locked is left out, so that the other messages do not wait for it.
--
-- `p` gives each parameter its name; the build compares these names with the caller's. It is not
-- materialized, so it costs nothing. A parameter that is an array has one element for each message.
-- `n` is the position of a message, from 1.
WITH p AS NOT MATERIALIZED (
    SELECT $1::uuid[] AS session_ids, $2::uuid[] AS tenant_ids, $3::uuid[] AS run_ids,
           $4::text[] AS message_ids, $5::text[] AS inputs, $6::text[] AS options,
           $7::text[] AS idempotency_keys, $8::text[] AS client_message_ids,
           $9::bytea[] AS fingerprints, $10::text[] AS event_types, $11::text[] AS event_bodies,
           $12::boolean[] AS may_wait, $13::text[] AS versions, $14::uuid[] AS workers,
           $15::text[] AS running_event_ids, $16::text[] AS request_event_ids,
           $17::text AS running_event_type, $18::text AS running_event_body,
           $19::float8 AS lease_seconds, $20::integer AS max_queued
), post AS (
    SELECT t.*
    FROM p, unnest(p.session_ids, p.tenant_ids, p.run_ids, p.message_ids, p.inputs, p.options,
                   p.idempotency_keys, p.client_message_ids, p.fingerprints, p.event_types,
                   p.event_bodies, p.may_wait, p.versions, p.workers, p.running_event_ids,
                   p.request_event_ids)
             WITH ORDINALITY AS t (session_id, tenant_id, run_id, message_id, input, options,
                                   idempotency_key, client_message_id, fingerprint, event_type,
                                   event_body, may_wait, versions, worker, running_event_id,
                                   request_event_id, n)
    -- Always true. The planner now expects few messages, and finds their sessions by the primary key.
    WHERE abs(t.n) = t.n
), locked AS (
    SELECT post.* FROM post
    JOIN sessions s ON s.id = post.session_id AND s.tenant_id = post.tenant_id
    FOR NO KEY UPDATE OF s SKIP LOCKED
), session AS (
    UPDATE sessions s SET
        last_seq = last_seq + CASE
            WHEN post.worker IS NOT NULL AND queued = 0 AND active_run_id IS NULL
            THEN 3 ELSE 1 END,
        last_message_seq = last_message_seq + CASE
            WHEN post.worker IS NOT NULL AND queued = 0 AND active_run_id IS NULL
            THEN 1 ELSE 0 END,
        queued = queued + CASE
            WHEN post.worker IS NOT NULL AND queued = 0 AND active_run_id IS NULL
            THEN 0 ELSE 1 END,
        active_run_id = CASE
            WHEN post.worker IS NOT NULL AND queued = 0 AND active_run_id IS NULL
            THEN post.run_id ELSE active_run_id END,
        updated_at = now()
    FROM p, locked post
    WHERE s.id = post.session_id AND s.tenant_id = post.tenant_id AND queued < p.max_queued
      AND archived_at IS NULL
      AND (post.may_wait OR queued = 0 AND active_run_id IS NULL)
      AND (post.versions IS NULL OR last_seq = ANY (post.versions::bigint[]))
      AND (post.idempotency_key IS NULL OR NOT EXISTS (
          SELECT FROM runs r
          WHERE r.session_id = s.id AND r.idempotency_key = post.idempotency_key))
      AND (post.client_message_id IS NULL OR NOT EXISTS (
          SELECT FROM runs r
          WHERE r.session_id = s.id AND r.client_message_id = post.client_message_id))
    RETURNING post.*, last_message_seq, queued, model, settings, model_settings, workspace,
              parent_session_id,
              forked_from, permission_mode, remembered,
              active_run_id IS NOT DISTINCT FROM post.run_id AS is_begun,
              last_seq - CASE WHEN active_run_id IS NOT DISTINCT FROM post.run_id
                              THEN 2 ELSE 0 END AS seq
), run AS (
    INSERT INTO runs (id, session_id, tenant_id, accepted_seq, message_id, input, options,
                      idempotency_key, client_message_id, fingerprint,
                      status, attempt, lease_owner, lease_until, started_at)
    SELECT s.run_id, s.session_id, s.tenant_id, s.seq, s.message_id, s.input::json,
           s.options::json, s.idempotency_key, s.client_message_id, s.fingerprint,
           CASE WHEN s.is_begun THEN 'running' ELSE 'queued' END,
           CASE WHEN s.is_begun THEN 1 ELSE 0 END,
           CASE WHEN s.is_begun THEN s.worker END,
           CASE WHEN s.is_begun THEN now() + make_interval(secs => p.lease_seconds) END,
           CASE WHEN s.is_begun THEN now() END
    FROM session s, p
), message AS (
    INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id, content,
                          last_event)
    SELECT s.session_id, s.last_message_seq, s.tenant_id, s.run_id, 1, 'user', s.message_id,
           s.input::json, s.seq + 2
    FROM session s WHERE s.is_begun
), event AS (
    INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body)
    SELECT s.session_id, s.seq + e.ord, s.tenant_id, s.run_id, e.id, e.type, e.body::json
    FROM session s, p, LATERAL (VALUES
        (0, s.message_id, s.event_type, s.event_body),
        (1, s.running_event_id, p.running_event_type, p.running_event_body),
        -- Only the session's row has its model. A message may have another one.
        (2, s.request_event_id, 'span.model_request_start',
         '{"type":"span.model_request_start","model":'
         || to_json(coalesce(s.options::json #>> '{model_settings,model}', s.model)) || '}')
    ) AS e (ord, id, type, body)
    WHERE e.ord = 0 OR s.is_begun
)
SELECT locked.n IS NOT NULL AS "is_locked!", s.seq AS "seq?", s.queued AS "queued?",
       coalesce(s.is_begun, false) AS "is_begun!", s.model AS "model?", s.workspace AS "workspace?",
       s.settings::text AS "settings?", s.model_settings::text AS "model_settings?", s.parent_session_id AS "parent_session_id?",
       s.last_message_seq AS "last_message_seq?", s.forked_from IS NOT NULL AS "is_fork!",
       s.permission_mode AS "permission_mode?", s.remembered::text AS "remembered?",
       now() AS "now!: Timestamp",
       EXISTS (SELECT FROM budgets b WHERE b.tenant_id = s.tenant_id) AS "is_budgeted!"
FROM post LEFT JOIN locked ON locked.n = post.n LEFT JOIN session s ON s.n = post.n
ORDER BY post.n
