WITH p AS (
    SELECT $3::integer AS model_requests, $4::bigint AS input_tokens,
           $5::bigint AS cache_creation_input_tokens,
           $6::bigint AS cache_read_input_tokens, $7::bigint AS output_tokens,
           $8::bigint AS cache_creation_1h_input_tokens, $9::bigint AS thinking_tokens,
           $10::bigint AS web_search_requests, $11::bigint AS web_fetch_requests,
           $12::bigint AS cost
), run AS (
    UPDATE runs r SET
        last_request = r.last_request + 1,
        model_requests = r.model_requests + p.model_requests,
        input_tokens = r.input_tokens + p.input_tokens,
        cache_creation_input_tokens =
            r.cache_creation_input_tokens + p.cache_creation_input_tokens,
        cache_read_input_tokens = r.cache_read_input_tokens + p.cache_read_input_tokens,
        output_tokens = r.output_tokens + p.output_tokens,
        cache_creation_1h_input_tokens =
            r.cache_creation_1h_input_tokens + p.cache_creation_1h_input_tokens,
        thinking_tokens = r.thinking_tokens + p.thinking_tokens,
        web_search_requests = r.web_search_requests + p.web_search_requests,
        web_fetch_requests = r.web_fetch_requests + p.web_fetch_requests,
        cost = coalesce(r.cost + p.cost, p.cost, r.cost)
    FROM p
    WHERE r.id = $2 AND r.session_id = $1
      AND NOT EXISTS (SELECT FROM requests q
                      WHERE q.session_id = $1 AND q.run_id = $2
                        AND (q.form ->> 'title') IS NOT NULL)
    RETURNING r.session_id, r.id, r.tenant_id, r.last_request
), session AS (
    UPDATE sessions s SET
        input_tokens = s.input_tokens + p.input_tokens,
        cache_creation_input_tokens =
            s.cache_creation_input_tokens + p.cache_creation_input_tokens,
        cache_read_input_tokens = s.cache_read_input_tokens + p.cache_read_input_tokens,
        output_tokens = s.output_tokens + p.output_tokens,
        cache_creation_1h_input_tokens =
            s.cache_creation_1h_input_tokens + p.cache_creation_1h_input_tokens,
        thinking_tokens = s.thinking_tokens + p.thinking_tokens,
        web_search_requests = s.web_search_requests + p.web_search_requests,
        web_fetch_requests = s.web_fetch_requests + p.web_fetch_requests,
        cost = coalesce(s.cost + p.cost, p.cost, s.cost)
    FROM p, run
    WHERE s.id = run.session_id
)
INSERT INTO requests (session_id, run_id, n, tenant_id, attempt, model, message_seq, form,
                      body_hash, body_length, prefix, attempts, stop_reason, error,
                      input_tokens, cache_creation_input_tokens, cache_read_input_tokens,
                      output_tokens, cache_creation_1h_input_tokens, thinking_tokens,
                      web_search_requests, web_fetch_requests, cost, duration_ms,
                      usage_estimated)
SELECT run.session_id, run.id, run.last_request, run.tenant_id, $13, q.model,
       q.message_seq, q.form, decode(q.body_hash, 'hex'), q.body_length, q.prefix,
       q.attempts, q.stop_reason, q.error,
       p.input_tokens, p.cache_creation_input_tokens, p.cache_read_input_tokens,
       p.output_tokens, p.cache_creation_1h_input_tokens, p.thinking_tokens,
       p.web_search_requests, p.web_fetch_requests, p.cost, q.duration_ms,
       q.usage_estimated
FROM run, p, json_to_record(($14::text)::json)
     AS q (model text, message_seq integer, form json, body_hash text, body_length bigint,
           prefix json, attempts json, stop_reason text, error json, duration_ms bigint,
           usage_estimated boolean)
