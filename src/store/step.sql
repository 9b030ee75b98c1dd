-- One step of a run: all of it or nothing, and nothing at all by a worker that lost its claim.
-- The session is locked before the run, as everywhere: a message that is accepted holds its
-- session while a unique key makes it wait for a run that is being changed.
WITH locked AS (
    SELECT id FROM sessions WHERE id = $32 FOR NO KEY UPDATE
), fence AS (
    UPDATE runs SET
        steps = steps + 1,
        takeovers = CASE WHEN $31::bool THEN 0 ELSE takeovers END,
        status = coalesce($4, status),
        outcome = coalesce(($5::text)::json, outcome),
        finished_at = CASE WHEN $4::text IS NULL OR $4 = 'requires_action' THEN NULL ELSE now() END,
        waiting_since = CASE WHEN $4 = 'requires_action' THEN now() END,
        lease_owner = CASE WHEN $4::text IS NULL THEN lease_owner END,
        lease_until = CASE WHEN $4::text IS NULL THEN lease_until END,
        model_requests = model_requests + $6,
        input_tokens = input_tokens + $7,
        cache_creation_input_tokens = cache_creation_input_tokens + $8,
        cache_read_input_tokens = cache_read_input_tokens + $9,
        output_tokens = output_tokens + $10,
        cache_creation_1h_input_tokens = cache_creation_1h_input_tokens + $43,
        thinking_tokens = thinking_tokens + $44,
        web_search_requests = web_search_requests + $45,
        web_fetch_requests = web_fetch_requests + $46,
        cost = coalesce(cost + $48, $48, cost),
        last_request = last_request + CASE WHEN $47::text IS NULL THEN 0 ELSE 1 END
    FROM locked
    WHERE runs.id = $1 AND session_id = locked.id
      AND attempt = $2 AND lease_owner = $3 AND status = 'running'
      -- A step that is sent again, because nobody heard what became of it, is written once.
      AND steps = $33
    RETURNING runs.id, session_id, tenant_id, attempt, last_request
), session AS (
    UPDATE sessions s SET
        last_seq = s.last_seq + cardinality($11::text[]),
        last_message_seq = s.last_message_seq + cardinality($14::text[]),
        queued = s.queued - $21,
        -- A run that settles is not the active one any more; one that waits holds its place.
        active_run_id = CASE WHEN $4 <> 'requires_action' THEN NULL
                             WHEN $21 > 0 THEN fence.id
                             ELSE s.active_run_id END,
        stop_reason = coalesce(($22::text)::json, s.stop_reason),
        input_tokens = s.input_tokens + $7,
        cache_creation_input_tokens = s.cache_creation_input_tokens + $8,
        cache_read_input_tokens = s.cache_read_input_tokens + $9,
        output_tokens = s.output_tokens + $10,
        cache_creation_1h_input_tokens = s.cache_creation_1h_input_tokens + $43,
        thinking_tokens = s.thinking_tokens + $44,
        web_search_requests = s.web_search_requests + $45,
        web_fetch_requests = s.web_fetch_requests + $46,
        cost = coalesce(s.cost + $48, $48, s.cost),
        -- What no event tells of is nothing that clients see of a session.
        updated_at = CASE WHEN cardinality($11::text[]) > 0 THEN now() ELSE s.updated_at END
    FROM fence
    WHERE s.id = fence.session_id
    RETURNING s.last_seq - cardinality($11::text[]) AS last_seq,
              s.last_message_seq - cardinality($14::text[]) AS last_message_seq, s.queued,
              s.permission_mode
), message AS (
    INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id, content,
                          model, stop_reason, usage)
    SELECT f.session_id, s.last_message_seq + m.ord, f.tenant_id, f.id, f.attempt, m.role,
           m.message_id, m.content::json, m.model, m.stop_reason, m.usage::json
    FROM fence f, session s,
         unnest($14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[])
             WITH ORDINALITY AS m (role, message_id, content, model, stop_reason, usage, ord)
), planned AS (
    INSERT INTO tool_calls (session_id, message_seq, tool_use_id, tenant_id, run_id, position, name)
    SELECT f.session_id, s.last_message_seq + 1, c.tool_use_id, f.tenant_id, f.id, c.ord, c.name
    FROM fence f, session s,
         unnest($23::text[], $24::text[]) WITH ORDINALITY AS c (tool_use_id, name, ord)
), recorded AS (
    UPDATE tool_calls c SET
        state = r.state,
        result = r.result,
        executions = c.executions + r.executions,
        started_at = CASE WHEN r.executions > 0 THEN now() ELSE c.started_at END,
        hash_before = coalesce(r.hash_before, c.hash_before),
        hash_after = coalesce(r.hash_after, c.hash_after),
        change_path = coalesce(r.change_path, c.change_path),
        change_result = coalesce(r.change_result, c.change_result),
        error_type = r.error_type,
        awaits = coalesce(r.awaits, c.awaits),
        answer_by = coalesce(now() + make_interval(secs => r.answer_in), c.answer_by),
        input_hash = coalesce(r.input_hash, c.input_hash),
        wait_reason = coalesce(r.wait_reason, c.wait_reason),
        diff = coalesce(r.diff, c.diff),
        sandbox = coalesce(r.sandbox, c.sandbox),
        sources = coalesce(r.sources::json, c.sources),
        child_run_id = coalesce(r.child_run, c.child_run_id),
        finished_at = CASE WHEN r.result IS NULL THEN NULL ELSE now() END
    FROM fence f,
         unnest($25::text[], $26::text[], $27::text[], $28::int[], $29::bytea[], $30::bytea[],
                $34::text[], $35::text[], $36::text[], $37::text[], $38::float8[], $39::bytea[],
                $40::text[], $41::text[], $42::text[], $49::text[], $50::uuid[])
             AS r (tool_use_id, state, result, executions, hash_before, hash_after, change_path,
                   change_result, error_type, awaits, answer_in, input_hash, sandbox,
                   wait_reason, diff, sources, child_run)
    WHERE c.session_id = f.session_id AND c.message_seq = $20 AND c.tool_use_id = r.tool_use_id
), event AS (
    INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body)
    SELECT f.session_id, s.last_seq + e.ord, f.tenant_id, f.id, e.id, e.kind, e.body::json
    FROM fence f, session s,
         unnest($11::text[], $12::text[], $13::text[]) WITH ORDINALITY AS e (id, kind, body, ord)
), request AS (
    INSERT INTO requests (session_id, run_id, n, tenant_id, attempt, model, message_seq, form,
                          body_hash, body_length, prefix, attempts, stop_reason, error,
                          input_tokens, cache_creation_input_tokens, cache_read_input_tokens,
                          output_tokens, cache_creation_1h_input_tokens, thinking_tokens,
                          web_search_requests, web_fetch_requests, cost, duration_ms)
    SELECT f.session_id, f.id, f.last_request, f.tenant_id, f.attempt, r.model, r.message_seq,
           r.form, decode(r.body_hash, 'hex'), r.body_length, r.prefix, r.attempts, r.stop_reason,
           r.error, $7, $8, $9, $10, $43, $44, $45, $46, $48, r.duration_ms
    FROM fence f, json_to_record(($47::text)::json)
             AS r (model text, message_seq integer, form json, body_hash text, body_length bigint,
                   prefix json, attempts json, stop_reason text, error json, duration_ms bigint)
    WHERE $47::text IS NOT NULL
), spent AS (
    -- What was reserved becomes spending; a budget may also be younger than the request.
    INSERT INTO reservations AS r (run_id, tenant_id, tokens, cost, spent_at)
    SELECT f.id, f.tenant_id, $7::bigint + $8 + $9 + $10, coalesce($48, 0), now()
    FROM fence f
    WHERE $6 > 0 AND EXISTS (SELECT FROM budgets b WHERE b.tenant_id = f.tenant_id)
    ON CONFLICT (run_id) DO UPDATE SET
        tokens = excluded.tokens + CASE WHEN r.spent_at IS NULL THEN 0 ELSE r.tokens END,
        cost = excluded.cost + CASE WHEN r.spent_at IS NULL THEN 0 ELSE r.cost END,
        spent_at = excluded.spent_at
), freed AS (
    -- A run that comes to rest has no request under way.
    DELETE FROM reservations r USING fence f
    WHERE $6 = 0 AND $4::text IS NOT NULL AND r.run_id = f.id AND r.spent_at IS NULL
)
SELECT last_seq, queued, permission_mode, now() AS "now!: Timestamp",
       EXISTS (SELECT FROM budgets b, fence f WHERE b.tenant_id = f.tenant_id) AS "is_budgeted!"
FROM session
