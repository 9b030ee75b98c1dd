//! The text of the statement that writes steps.
//!
//! A session's row is locked before the run's, as everywhere: an accept that waits for a run on a
//! unique key holds the lock on its session. A session that another transaction has locked is left
//! out, so that the other steps do not wait for it.
//!
//! Starting and ending the parts of a statement costs more than the rows of most steps, so there are
//! two variants: `plain` without the parts that few steps need, and `full`.

/// [`sqlx::query_as!`] with the text of a variant, and the values of the columns `$of`.
///
/// `p` gives each parameter its name, and costs nothing, because it is not materialized. A parameter
/// has one element for each step, or for each row of a step. `n` is the position of a step, from 1.
macro_rules! step_query {
    (plain $row:ident, $of:expr) => {
        step_query!(
            @compose $row, $of,
            parameters [],
            locked [
                // The full statement writes the steps of these sessions.
                "WHERE (SELECT count(*) FROM budgets b WHERE b.tenant_id = s.tenant_id) = 0"
            ],
            parts [],
            is_budgeted ["false"],
            values {}
        )
    };
    (full $row:ident, $of:expr) => {
        step_query!(
            @compose $row, $of,
            parameters [r#", $54::bigint[] AS call_steps, $55::text[] AS call_ids, $56::text[] AS call_states,
           $57::text[] AS call_results, $58::integer[] AS call_executions,
           $59::bytea[] AS call_hashes_before, $60::bytea[] AS call_hashes_after,
           $61::text[] AS call_change_paths, $62::text[] AS call_change_results,
           $63::text[] AS call_error_types, $64::text[] AS call_awaits,
           $65::float8[] AS call_answer_ins, $66::bytea[] AS call_input_hashes,
           $67::text[] AS call_sandboxes, $68::text[] AS call_wait_reasons,
           $69::text[] AS call_diffs, $70::text[] AS call_sources,
           $71::uuid[] AS call_sub_agent_runs, $72::bigint[] AS call_durations,
           $73::text[] AS call_contents"#],
            locked [],
            parts [r#"
), recorded AS (
    UPDATE tool_calls c SET
        state = r.state,
        result = r.result,
        content = coalesce(r.content::json, c.content),
        executions = c.executions + r.executions,
        started_at = CASE WHEN r.executions > 0
                          THEN now() - r.duration_ms * interval '1 millisecond'
                          ELSE c.started_at END,
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
        child_run_id = coalesce(r.sub_agent_run, c.child_run_id),
        finished_at = CASE WHEN r.result IS NULL THEN NULL ELSE now() END
    FROM fence f, p,
         unnest(p.call_steps, p.call_ids, p.call_states, p.call_results, p.call_executions,
                p.call_hashes_before, p.call_hashes_after, p.call_change_paths,
                p.call_change_results, p.call_error_types, p.call_awaits, p.call_answer_ins,
                p.call_input_hashes, p.call_sandboxes, p.call_wait_reasons, p.call_diffs,
                p.call_sources, p.call_sub_agent_runs, p.call_durations, p.call_contents)
             AS r (n, tool_use_id, state, result, executions, hash_before,
                   hash_after, change_path, change_result,
                   error_type, awaits, answer_in, input_hash,
                   sandbox, wait_reason, diff, sources,
                   sub_agent_run, duration_ms, content)
    WHERE r.n = f.n AND c.session_id = f.session_id AND c.message_seq = f.recorded_message_seq
      AND c.tool_use_id = r.tool_use_id
), spent AS (
    -- The reservation becomes spending. The budget may be younger than the request, which then has
    -- no reservation.
    INSERT INTO reservations AS r (run_id, tenant_id, tokens, cost, spent_at)
    SELECT p.run_id, p.tenant_id,
           p.input_tokens + p.cache_creation_input_tokens + p.cache_read_input_tokens
               + p.output_tokens,
           coalesce(p.cost, 0), now()
    FROM fence p
    WHERE (p.model_requests > 0 OR p.input_tokens + p.cache_creation_input_tokens
                                   + p.cache_read_input_tokens + p.output_tokens > 0)
      AND EXISTS (SELECT FROM budgets b WHERE b.tenant_id = p.tenant_id)
    ON CONFLICT (run_id) DO UPDATE SET
        tokens = excluded.tokens + CASE WHEN r.spent_at IS NULL THEN 0 ELSE r.tokens END,
        cost = excluded.cost + CASE WHEN r.spent_at IS NULL THEN 0 ELSE r.cost END,
        spent_at = excluded.spent_at
), freed AS (
    -- A run that settles or waits has no request under way.
    DELETE FROM reservations r USING fence p
    WHERE p.model_requests = 0 AND p.input_tokens + p.cache_creation_input_tokens
                                   + p.cache_read_input_tokens + p.output_tokens = 0
      AND p.status IS NOT NULL AND r.run_id = p.run_id AND r.spent_at IS NULL"#],
            is_budgeted ["EXISTS (SELECT FROM budgets b WHERE b.tenant_id = s.tenant_id)"],
            values {
                call_steps: &$of.calls.steps, call_ids: &$of.calls.ids as _,
                call_states: &$of.calls.states as _, call_results: &$of.calls.results as _,
                call_executions: &$of.calls.executions,
                call_hashes_before: &$of.calls.hashes_before as _,
                call_hashes_after: &$of.calls.hashes_after as _,
                call_change_paths: &$of.calls.change_paths as _,
                call_change_results: &$of.calls.change_results as _,
                call_error_types: &$of.calls.error_types as _,
                call_awaits: &$of.calls.awaits as _, call_answer_ins: &$of.calls.answer_ins as _,
                call_input_hashes: &$of.calls.input_hashes as _,
                call_sandboxes: &$of.calls.sandboxes as _,
                call_wait_reasons: &$of.calls.wait_reasons as _,
                call_diffs: &$of.calls.diffs as _, call_sources: &$of.calls.sources as _,
                call_sub_agent_runs: &$of.calls.sub_agent_runs as _,
                call_durations: &$of.calls.durations, call_contents: &$of.calls.contents as _
            }
        )
    };
    (
        @compose $row:ident, $of:expr,
        parameters [$($parameters:literal)?],
        locked [$($locked:literal)?],
        parts [$($parts:literal)?],
        is_budgeted [$is_budgeted:literal],
        values { $($name:ident: $value:expr),* }
    ) => {
        query_named!($row, [
            r#"WITH p AS NOT MATERIALIZED (
    SELECT $1::uuid[] AS session_ids, $2::uuid[] AS run_ids, $3::integer[] AS attempts,
           $4::uuid[] AS workers, $5::integer[] AS steps, $6::boolean[] AS is_progress,
           $7::integer[] AS dequeued, $8::text[] AS statuses, $9::text[] AS outcomes,
           $10::text[] AS stop_reasons, $11::integer[] AS model_requests,
           $12::bigint[] AS input_tokens, $13::bigint[] AS cache_creation_input_tokens,
           $14::bigint[] AS cache_read_input_tokens, $15::bigint[] AS output_tokens,
           $16::bigint[] AS cache_creation_1h_input_tokens, $17::bigint[] AS thinking_tokens,
           $18::bigint[] AS web_search_requests, $19::bigint[] AS web_fetch_requests,
           $20::bigint[] AS cost, $21::text[] AS requests,
           $22::integer[] AS recorded_message_seqs, $23::integer[] AS event_counts,
           $24::integer[] AS message_counts, $25::bigint[] AS message_steps,
           $26::integer[] AS message_positions, $27::text[] AS message_roles,
           $28::text[] AS message_ids, $29::text[] AS message_contents,
           $30::text[] AS message_models, $31::text[] AS message_stop_reasons,
           $32::text[] AS message_usages, $33::text[] AS message_stop_sequences,
           $34::integer[] AS message_event_counts, $35::bigint[] AS planned_steps,
           $36::integer[] AS planned_positions, $37::text[] AS planned_ids,
           $38::text[] AS planned_names, $39::text[] AS planned_states,
           $40::text[] AS planned_results, $41::integer[] AS planned_executions,
           $42::bigint[] AS planned_durations, $43::text[] AS planned_error_types,
           $44::text[] AS planned_sandboxes, $45::text[] AS planned_sources,
           $46::bigint[] AS event_steps, $47::integer[] AS event_positions,
           $48::text[] AS event_ids, $49::text[] AS event_types, $50::text[] AS event_bodies,
           $51::bigint[] AS read_steps, $52::text[] AS read_paths, $53::bytea[] AS read_hashes"#,
            $($parameters,)?
            r#"
), step AS (
    SELECT t.* FROM p,
         unnest(p.session_ids, p.run_ids, p.attempts, p.workers, p.steps, p.is_progress, p.dequeued,
                p.statuses, p.outcomes, p.stop_reasons, p.model_requests, p.input_tokens,
                p.cache_creation_input_tokens, p.cache_read_input_tokens, p.output_tokens,
                p.cache_creation_1h_input_tokens, p.thinking_tokens, p.web_search_requests,
                p.web_fetch_requests, p.cost, p.requests, p.recorded_message_seqs, p.event_counts,
                p.message_counts)
             WITH ORDINALITY AS t (session_id, run_id, attempt, worker, steps, is_progress,
                                  dequeued, status, outcome, stop_reason, model_requests,
                                  input_tokens, cache_creation_input_tokens, cache_read_input_tokens,
                                  output_tokens, cache_creation_1h_input_tokens, thinking_tokens,
                                  web_search_requests, web_fetch_requests, cost, request,
                                  recorded_message_seq, event_counts, message_counts, n)
    -- Always true. The planner now expects few steps, and finds their rows by primary keys even in
    -- a plan that is made while the tables are empty.
    WHERE abs(t.n) = t.n
), locked AS (
    SELECT step.*, s.tenant_id FROM step JOIN sessions s ON s.id = step.session_id "#,
            $($locked,)?
            r#"
    FOR NO KEY UPDATE OF s SKIP LOCKED
), fence AS (
    UPDATE runs r SET
        steps = r.steps + 1,
        takeovers = CASE WHEN p.is_progress THEN 0 ELSE r.takeovers END,
        status = coalesce(p.status, r.status),
        outcome = coalesce(p.outcome::json, r.outcome),
        finished_at = CASE WHEN p.status IS NULL OR p.status = 'requires_action' THEN NULL
                           ELSE now() END,
        waiting_since = CASE WHEN p.status = 'requires_action' THEN now() END,
        lease_owner = CASE WHEN p.status IS NULL THEN r.lease_owner END,
        lease_until = CASE WHEN p.status IS NULL THEN r.lease_until END,
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
        cost = coalesce(r.cost + p.cost, p.cost, r.cost),
        last_request = r.last_request + CASE WHEN p.request IS NULL THEN 0 ELSE 1 END
    FROM locked p
    WHERE r.id = p.run_id
      -- One expression: a plan that is made while the tables are empty would use any other index on
      -- a part of it. A step that is repeated after a lost reply is written once.
      AND CASE WHEN r.status = 'running'
               THEN r.session_id = p.session_id AND r.attempt = p.attempt
                    AND r.lease_owner = p.worker AND r.steps = p.steps END
    RETURNING p.n, p.session_id, p.run_id, p.tenant_id, p.attempt, p.dequeued, p.status,
              p.stop_reason, p.model_requests, p.input_tokens, p.cache_creation_input_tokens,
              p.cache_read_input_tokens, p.output_tokens, p.cache_creation_1h_input_tokens,
              p.thinking_tokens, p.web_search_requests, p.web_fetch_requests, p.cost, p.request,
              p.recorded_message_seq, p.event_counts, p.message_counts, r.last_request
), session AS (
    UPDATE sessions s SET
        last_seq = s.last_seq + p.event_counts,
        last_message_seq = s.last_message_seq + p.message_counts,
        queued = s.queued - p.dequeued,
        -- A settled run is no longer the active one; a waiting run still is.
        active_run_id = CASE WHEN p.status <> 'requires_action' THEN NULL
                             WHEN p.dequeued > 0 THEN p.run_id
                             ELSE s.active_run_id END,
        stop_reason = coalesce(p.stop_reason::json, s.stop_reason),
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
        cost = coalesce(s.cost + p.cost, p.cost, s.cost),
        -- Clients see a session change only through its events.
        updated_at = CASE WHEN p.event_counts > 0 THEN now() ELSE s.updated_at END
    FROM fence p
    WHERE s.id = p.session_id
    RETURNING p.n, p.session_id, p.run_id, p.tenant_id, p.attempt,
              s.last_seq - p.event_counts AS last_seq,
              s.last_message_seq - p.message_counts AS last_message_seq, s.queued,
              s.permission_mode
), message AS (
    INSERT INTO messages (session_id, seq, tenant_id, run_id, attempt, role, message_id, content,
                          model, stop_reason, usage, stop_sequence, last_event)
    SELECT s.session_id, s.last_message_seq + m.position, s.tenant_id, s.run_id, s.attempt, m.role,
           m.message_id, m.content::json, m.model, m.stop_reason, m.usage::json, m.stop_sequence,
           s.last_seq + m.event_count
    FROM session s, p,
         unnest(p.message_steps, p.message_positions, p.message_roles, p.message_ids,
                p.message_contents, p.message_models, p.message_stop_reasons, p.message_usages,
                p.message_stop_sequences, p.message_event_counts)
             AS m (n, position, role, message_id, content, model, stop_reason, usage, stop_sequence,
                   event_count)
    WHERE m.n = s.n
), planned AS (
    -- A call whose result comes with its message has already ended.
    INSERT INTO tool_calls (session_id, message_seq, tool_use_id, tenant_id, run_id, position, name,
                            state, result, executions, started_at, finished_at, error_type, sandbox,
                            sources)
    SELECT s.session_id, s.last_message_seq + 1, c.tool_use_id, s.tenant_id, s.run_id,
           c.position, c.name, c.state, c.result, c.executions,
           CASE WHEN c.executions > 0 THEN now() - c.duration_ms * interval '1 millisecond' END,
           CASE WHEN c.result IS NOT NULL THEN now() END, c.error_type, c.sandbox, c.sources::json
    FROM session s, p,
         unnest(p.planned_steps, p.planned_positions, p.planned_ids, p.planned_names,
                p.planned_states, p.planned_results, p.planned_executions, p.planned_durations,
                p.planned_error_types, p.planned_sandboxes, p.planned_sources)
             AS c (n, position, tool_use_id, name, state, result, executions, duration_ms,
                   error_type, sandbox, sources)
    WHERE c.n = s.n
), event AS (
    INSERT INTO events (session_id, seq, tenant_id, run_id, event_id, type, body)
    SELECT s.session_id, s.last_seq + e.position, s.tenant_id, s.run_id, e.id, e.type, e.body::json
    FROM session s, p,
         unnest(p.event_steps, p.event_positions, p.event_ids, p.event_types, p.event_bodies)
             AS e (n, position, id, type, body)
    WHERE e.n = s.n
), request AS (
    INSERT INTO requests (session_id, run_id, n, tenant_id, attempt, model, message_seq, form,
                          body_hash, body_length, prefix, attempts, stop_reason, error,
                          input_tokens, cache_creation_input_tokens, cache_read_input_tokens,
                          output_tokens, cache_creation_1h_input_tokens, thinking_tokens,
                          web_search_requests, web_fetch_requests, cost, duration_ms,
                          usage_estimated)
    SELECT p.session_id, p.run_id, p.last_request, p.tenant_id, p.attempt, r.model, r.message_seq,
           r.form, decode(r.body_hash, 'hex'), r.body_length, r.prefix, r.attempts, r.stop_reason,
           r.error, p.input_tokens, p.cache_creation_input_tokens, p.cache_read_input_tokens,
           p.output_tokens, p.cache_creation_1h_input_tokens, p.thinking_tokens,
           p.web_search_requests, p.web_fetch_requests, p.cost, r.duration_ms, r.usage_estimated
    FROM fence p, json_to_record(p.request::json)
             AS r (model text, message_seq integer, form json, body_hash text, body_length bigint,
                   prefix json, attempts json, stop_reason text, error json, duration_ms bigint,
                   usage_estimated boolean)
    WHERE p.request IS NOT NULL
), read AS (
    INSERT INTO seen_files (session_id, tenant_id, path, hash)
    SELECT f.session_id, f.tenant_id, r.path, r.hash
    FROM fence f, p, unnest(p.read_steps, p.read_paths, p.read_hashes) AS r (n, path, hash)
    WHERE r.n = f.n
    ON CONFLICT (session_id, path) DO UPDATE SET hash = excluded.hash, seen_at = now()"#,
            $($parts,)?
            r#"
)
SELECT locked.n AS "n!", s.n IS NOT NULL AS "is_written!", s.last_seq AS "last_seq?",
       s.queued AS "queued?", s.permission_mode AS "permission_mode?", now() AS "now!: Timestamp", "#,
            $is_budgeted,
            r#" AS "is_budgeted!"
FROM locked LEFT JOIN session s ON s.n = locked.n"#
        ], {
            session_ids: &$of.steps.session_ids, run_ids: &$of.steps.run_ids,
            attempts: &$of.steps.attempts, workers: &$of.steps.workers, steps: &$of.steps.steps,
            is_progress: &$of.steps.is_progress, dequeued: &$of.steps.dequeued,
            statuses: &$of.steps.statuses as _, outcomes: &$of.steps.outcomes as _,
            stop_reasons: &$of.steps.stop_reasons as _,
            model_requests: &$of.usage.model_requests, input_tokens: &$of.usage.input_tokens,
            cache_creation_input_tokens: &$of.usage.cache_creation_input_tokens,
            cache_read_input_tokens: &$of.usage.cache_read_input_tokens,
            output_tokens: &$of.usage.output_tokens,
            cache_creation_1h_input_tokens: &$of.usage.cache_creation_1h_input_tokens,
            thinking_tokens: &$of.usage.thinking_tokens,
            web_search_requests: &$of.usage.web_search_requests,
            web_fetch_requests: &$of.usage.web_fetch_requests, cost: &$of.usage.cost as _,
            requests: &$of.steps.requests as _,
            recorded_message_seqs: &$of.steps.recorded_message_seqs,
            event_counts: &$of.steps.event_counts, message_counts: &$of.steps.message_counts,
            message_steps: &$of.messages.steps, message_positions: &$of.messages.positions,
            message_roles: &$of.messages.roles as _, message_ids: &$of.messages.ids as _,
            message_contents: &$of.messages.contents as _,
            message_models: &$of.messages.models as _,
            message_stop_reasons: &$of.messages.stop_reasons as _,
            message_usages: &$of.messages.usages as _,
            message_stop_sequences: &$of.messages.stop_sequences as _,
            message_event_counts: &$of.messages.event_counts, planned_steps: &$of.planned.steps,
            planned_positions: &$of.planned.positions, planned_ids: &$of.planned.ids as _,
            planned_names: &$of.planned.names as _, planned_states: &$of.planned.states as _,
            planned_results: &$of.planned.results as _, planned_executions: &$of.planned.executions,
            planned_durations: &$of.planned.durations,
            planned_error_types: &$of.planned.error_types as _,
            planned_sandboxes: &$of.planned.sandboxes as _,
            planned_sources: &$of.planned.sources as _,
            event_steps: &$of.events.steps, event_positions: &$of.events.positions,
            event_ids: &$of.events.ids as _, event_types: &$of.events.kinds as _,
            event_bodies: &$of.events.bodies as _, read_steps: &$of.reads.steps,
            read_paths: &$of.reads.paths as _, read_hashes: &$of.reads.hashes as _,
            $($name: $value,)*
        })
    };
}
