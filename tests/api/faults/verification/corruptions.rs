//! Statements that violate invariants of a session, and statements that do not.

/// Statements that corrupt a session (`$1`), and the invariants that they violate, in the order of
/// the findings. The session has two runs of four messages: the user message, a reply with two
/// calls, their results, the answer.
pub(super) const VIOLATIONS: &[(&str, &[&str])] = &[
    // Values that cannot be read.
    (
        r#"UPDATE messages SET content = '[{"text": "x"}]' WHERE session_id = $1 AND seq = 8"#,
        &["readable", "events_tell_all"],
    ),
    ("UPDATE sessions SET settings = '{}' WHERE id = $1", &["readable"]),
    ("UPDATE runs SET outcome = '{}' WHERE session_id = $1", &["readable"]),
    (
        r#"UPDATE events SET body = '{"type": "other"}'
           WHERE session_id = $1 AND type = 'session.usage'"#,
        &["readable"],
    ),
    // Rows of another tenant.
    (
        "UPDATE messages SET tenant_id = gen_random_uuid() WHERE session_id = $1 AND seq = 2",
        &["tenants_agree"],
    ),
    ("UPDATE runs SET tenant_id = gen_random_uuid() WHERE session_id = $1", &["tenants_agree"]),
    (
        "UPDATE tool_calls SET tenant_id = gen_random_uuid() WHERE session_id = $1",
        &["tenants_agree"],
    ),
    (
        "UPDATE events SET tenant_id = gen_random_uuid() WHERE session_id = $1 AND seq = 1",
        &["tenants_agree"],
    ),
    // A history that is incomplete, or that the model does not accept.
    ("UPDATE messages SET seq = 9 WHERE session_id = $1 AND seq = 8", &["messages_numbered"]),
    (
        "DELETE FROM messages WHERE session_id = $1 AND seq = 8",
        &["counters_agree", "events_tell_all"],
    ),
    (
        "INSERT INTO messages SELECT session_id, 9, tenant_id, run_id, attempt, role, message_id,
                                     content, model, stop_reason, usage, created_at
         FROM messages WHERE session_id = $1 AND seq = 8",
        &["roles_alternate", "counters_agree", "events_tell_all"],
    ),
    (
        "INSERT INTO messages SELECT session_id, 9, tenant_id, run_id, attempt, 'user', message_id,
                                     content FROM messages WHERE session_id = $1 AND seq = 8
         UNION ALL SELECT session_id, 10, tenant_id, run_id, attempt, 'user', message_id,
                                     content FROM messages WHERE session_id = $1 AND seq = 8",
        &["roles_alternate", "counters_agree"],
    ),
    (
        "UPDATE messages SET role = 'assistant' WHERE session_id = $1 AND seq = 1",
        &["roles_alternate", "events_tell_all"],
    ),
    (
        "UPDATE messages SET content = '[]' WHERE session_id = $1 AND seq = 8",
        &["content_not_blank", "events_tell_all"],
    ),
    (
        r#"WITH blank AS (SELECT '[{"type": "text", "text": " \n"}]'::json AS content),
                run AS (UPDATE runs r SET input = blank.content FROM blank, messages m
                        WHERE m.session_id = $1 AND m.seq = 5 AND r.id = m.run_id)
           UPDATE messages SET content = blank.content FROM blank
           WHERE session_id = $1 AND seq = 5"#,
        &["content_not_blank", "runs_announced"],
    ),
    (
        "UPDATE messages SET content = json_build_array(content -> 0)
         WHERE session_id = $1 AND seq = 3",
        &["calls_answered"],
    ),
    (
        "UPDATE messages SET content = json_build_array(content -> 1, content -> 0)
         WHERE session_id = $1 AND seq = 3",
        &["calls_answered"],
    ),
    (
        "UPDATE messages SET content = json_build_array(content -> 0, content -> 1, content -> 0)
         WHERE session_id = $1 AND seq = 3",
        &["calls_answered"],
    ),
    (
        r#"UPDATE messages SET content = json_build_array(
               '{"type": "text", "text": "First:"}'::json, content -> 0, content -> 1)
           WHERE session_id = $1 AND seq = 3"#,
        &["calls_answered"],
    ),
    (
        "UPDATE messages m SET content = json_build_array(m.content -> 0, before.content -> 1)
         FROM messages before
         WHERE m.session_id = $1 AND m.seq = 4 AND before.session_id = $1 AND before.seq = 2",
        &["call_ids_unique", "calls_answered", "ledger_complete", "events_tell_all"],
    ),
    (
        "WITH ids AS (
             SELECT (SELECT content -> 1 ->> 'id' FROM messages
                     WHERE session_id = $1 AND seq = 2) AS used,
                    (SELECT content -> 1 ->> 'id' FROM messages
                     WHERE session_id = $1 AND seq = 6) AS fresh
         ), call AS (
             UPDATE tool_calls SET tool_use_id = ids.used FROM ids
             WHERE session_id = $1 AND tool_use_id = ids.fresh
         ), event AS (
             UPDATE events SET event_id = replace(event_id, ids.fresh, ids.used),
                               body = replace(body::text, ids.fresh, ids.used)::json
             FROM ids WHERE session_id = $1
         )
         UPDATE messages SET content = replace(content::text, ids.fresh, ids.used)::json FROM ids
         WHERE session_id = $1",
        &["call_ids_unique"],
    ),
    (
        r#"UPDATE messages SET content = (left(content::text, -1) || ',{"type": "server_tool_use",
               "id": "srvtoolu_1", "name": "web_search", "input": {}}]')::json
           WHERE session_id = $1 AND seq = 4"#,
        &["server_calls_closed"],
    ),
    (
        r#"UPDATE messages SET content = (left(content::text, -1) || ',{"type": "server_tool_use",
               "id": "srvtoolu_1", "name": "web_search", "input": {}}]')::json
           WHERE session_id = $1 AND seq = 8"#,
        &["server_calls_closed"],
    ),
    // An interrupted reply with calls and with a message after it.
    (
        "UPDATE messages SET stop_reason = 'interrupted' WHERE session_id = $1 AND seq = 6",
        &["interrupted_replies"],
    ),
    // Runs that are split, out of order, or under the wrong attempt.
    (
        "UPDATE messages SET message_id = 'other' WHERE session_id = $1 AND seq = 5",
        &["runs_in_order"],
    ),
    (
        "UPDATE messages SET run_id = (SELECT run_id FROM messages
                                       WHERE session_id = $1 AND seq = 1)
         WHERE session_id = $1 AND seq = 7",
        &["runs_in_order"],
    ),
    (
        "UPDATE messages SET run_id = gen_random_uuid() WHERE session_id = $1 AND seq = 7",
        &["runs_in_order"],
    ),
    ("UPDATE messages SET attempt = 2 WHERE session_id = $1 AND seq = 6", &["attempts_in_order"]),
    (
        "WITH run AS (UPDATE runs SET attempt = 2 WHERE session_id = $1)
         UPDATE messages SET attempt = 2 WHERE session_id = $1 AND seq = 6",
        &["attempts_in_order"],
    ),
    (
        "UPDATE runs SET status = 'requires_action', finished_at = NULL, outcome = NULL
         WHERE session_id = $1",
        &["run_state_whole", "one_live_run", "counters_agree", "end_told_once"],
    ),
    ("UPDATE runs SET wake_at = now() WHERE session_id = $1", &["run_state_whole"]),
    // A run that waits for no answer, and one that no worker resumes.
    (
        "WITH run AS (
             UPDATE runs SET status = 'requires_action', finished_at = NULL, outcome = NULL,
                    wake_at = now() + interval '1 hour'
             WHERE session_id = $1 AND accepted_seq > 1
             RETURNING id
         ), event AS (
             UPDATE events SET body = '{\"type\":\"session.status_idle\",\"stop_reason\":
                                        {\"type\":\"requires_action\",\"event_ids\":[]}}'
             FROM run
             WHERE session_id = $1 AND run_id = run.id AND type = 'session.status_idle'
         )
         UPDATE sessions SET active_run_id = run.id FROM run WHERE sessions.id = $1",
        &["waits_end"],
    ),
    (
        "WITH run AS (
             UPDATE runs SET status = 'requires_action', finished_at = NULL, outcome = NULL,
                    wake_at = now() - interval '61 seconds'
             WHERE session_id = $1 AND accepted_seq > 1
             RETURNING id
         ), event AS (
             UPDATE events SET body = '{\"type\":\"session.status_idle\",\"stop_reason\":
                                        {\"type\":\"requires_action\",\"event_ids\":[]}}'
             FROM run
             WHERE session_id = $1 AND run_id = run.id AND type = 'session.status_idle'
         )
         UPDATE sessions SET active_run_id = run.id FROM run WHERE sessions.id = $1",
        &["waits_end"],
    ),
    // A run that waits although its events say that it continues.
    (
        "WITH run AS (
             UPDATE runs SET status = 'requires_action', finished_at = NULL, outcome = NULL,
                    wake_at = now()
             WHERE session_id = $1 AND accepted_seq > 1
             RETURNING id
         ), event AS (
             UPDATE events SET type = 'other', body = '{\"type\": \"other\"}' FROM run
             WHERE session_id = $1 AND run_id = run.id AND type = 'session.status_idle'
         )
         UPDATE sessions SET active_run_id = run.id FROM run WHERE sessions.id = $1",
        &["end_told_once"],
    ),
    // A call that ran with another input than the approved one.
    ("UPDATE tool_calls SET input_hash = '' WHERE session_id = $1", &["inputs_approved"]),
    ("UPDATE tool_calls SET awaits = 'client' WHERE session_id = $1", &["calls_made_once"]),
    ("UPDATE runs SET outcome = NULL WHERE session_id = $1", &["run_state_whole"]),
    ("UPDATE runs SET finished_at = NULL WHERE session_id = $1", &["run_state_whole"]),
    (
        "UPDATE runs SET lease_until = now() + interval '1 hour' WHERE session_id = $1",
        &["run_state_whole"],
    ),
    (
        "WITH run AS (
             UPDATE runs SET status = 'running', finished_at = NULL, outcome = NULL,
                    lease_owner = gen_random_uuid(), lease_until = now() - interval '61 seconds'
             WHERE session_id = $1 AND accepted_seq > 1
             RETURNING id
         ), event AS (
             UPDATE events SET type = 'other', body = '{\"type\": \"other\"}' FROM run
             WHERE session_id = $1 AND run_id = run.id AND type = 'session.status_idle'
         )
         UPDATE sessions SET active_run_id = run.id FROM run WHERE sessions.id = $1",
        &["lease_renewed"],
    ),
    // A ledger that does not match the calls.
    (
        "DELETE FROM tool_calls WHERE session_id = $1 AND message_seq = 2 AND position = 1",
        &["ledger_complete", "events_tell_all"],
    ),
    (
        "UPDATE tool_calls SET name = 'other' WHERE session_id = $1 AND message_seq = 2",
        &["ledger_complete"],
    ),
    (
        "UPDATE tool_calls SET run_id = gen_random_uuid() WHERE session_id = $1",
        &["ledger_complete", "events_tell_all"],
    ),
    (
        "INSERT INTO tool_calls (session_id, message_seq, tool_use_id, tenant_id, run_id, position,
                                 name, state, executions, result)
         SELECT session_id, 4, 'stray', tenant_id, run_id, 1, name, 'denied', 0, ''
         FROM tool_calls WHERE session_id = $1 AND message_seq = 2 AND position = 1",
        &["ledger_complete", "events_tell_all"],
    ),
    (
        "UPDATE tool_calls SET state = 'started', result = NULL
         WHERE session_id = $1 AND message_seq = 6",
        &["calls_ended", "events_tell_all"],
    ),
    (
        "UPDATE tool_calls SET result = NULL WHERE session_id = $1 AND message_seq = 6",
        &["calls_ended", "events_tell_all"],
    ),
    (
        "UPDATE tool_calls SET executions = 2 WHERE session_id = $1 AND message_seq = 2",
        &["calls_made_once"],
    ),
    (
        "UPDATE tool_calls SET executions = 0 WHERE session_id = $1 AND message_seq = 2",
        &["calls_made_once"],
    ),
    (
        "UPDATE tool_calls SET executions = 2, hash_after = 'x'
         WHERE session_id = $1 AND message_seq = 2",
        &["calls_made_once"],
    ),
    (
        "UPDATE tool_calls SET result = 'It is midnight.' WHERE session_id = $1",
        &["answers_recorded", "events_tell_all"],
    ),
    (
        "UPDATE tool_calls SET state = 'failed' WHERE session_id = $1",
        &["answers_recorded", "events_tell_all"],
    ),
    (
        r#"UPDATE messages SET content = replace(content::text, '"content":"', '"content":"x')::json
           WHERE session_id = $1 AND seq = 3"#,
        &["answers_recorded"],
    ),
    // Events that are missing or do not match the history.
    ("DELETE FROM events WHERE session_id = $1 AND type = 'session.usage'", &["events_numbered"]),
    ("UPDATE sessions SET last_seq = last_seq + 1 WHERE id = $1", &["events_numbered"]),
    (
        "UPDATE events SET event_id = 'other' WHERE session_id = $1 AND type = 'user.message'",
        &["runs_announced"],
    ),
    (
        "UPDATE events SET body = replace(body::text, 'now', 'then')::json
         WHERE session_id = $1 AND type = 'user.message'",
        &["runs_announced"],
    ),
    (
        "UPDATE events SET type = 'other', body = '{\"type\": \"other\"}'
         WHERE session_id = $1 AND type = 'user.message'",
        &["runs_announced"],
    ),
    (
        "UPDATE events SET body = replace(body::text, 'noon', 'midnight')::json
         WHERE session_id = $1 AND type = 'agent.message'",
        &["events_tell_all"],
    ),
    (
        "UPDATE events SET body = replace(body::text, 'get_time', 'other')::json
         WHERE session_id = $1 AND type = 'agent.tool_use'",
        &["events_tell_all"],
    ),
    (
        "UPDATE events SET body = replace(body::text, 'false', 'true')::json
         WHERE session_id = $1 AND type = 'agent.tool_result'",
        &["events_tell_all"],
    ),
    (
        "UPDATE events SET run_id = gen_random_uuid()
         WHERE session_id = $1 AND type = 'session.usage'",
        &["events_tell_all"],
    ),
    (
        r#"UPDATE events SET type = 'session.status_idle', body =
               '{"type": "session.status_idle", "stop_reason": {"type": "end_turn"}}'
           WHERE session_id = $1 AND type = 'session.usage'"#,
        &["end_told_once"],
    ),
    (
        r#"UPDATE events SET type = 'other', body = '{"type": "other"}'
           WHERE session_id = $1 AND type = 'session.status_idle'"#,
        &["end_told_once"],
    ),
    // Counters that do not match the rows.
    ("UPDATE sessions SET queued = queued + 1 WHERE id = $1", &["counters_agree"]),
    ("UPDATE sessions SET active_run_id = gen_random_uuid() WHERE id = $1", &["counters_agree"]),
    (
        "UPDATE sessions SET last_message_seq = last_message_seq - 1 WHERE id = $1",
        &["counters_agree"],
    ),
    ("UPDATE sessions SET output_tokens = output_tokens + 1 WHERE id = $1", &["counters_agree"]),
    (
        "UPDATE runs SET model_requests = model_requests + 1 WHERE session_id = $1",
        &["counters_agree"],
    ),
    (
        "WITH run AS (UPDATE runs SET cache_read_input_tokens = cache_read_input_tokens + 1
                      WHERE session_id = $1 AND accepted_seq = 1)
         UPDATE sessions SET cache_read_input_tokens = cache_read_input_tokens + 1 WHERE id = $1",
        &["counters_agree"],
    ),
    // Requests that do not match the totals, and reservations of finished runs.
    ("UPDATE sessions SET cost = 1 WHERE id = $1", &["counters_agree"]),
    ("UPDATE requests SET cost = 1 WHERE session_id = $1 AND n = 1", &["counters_agree"]),
    (
        "UPDATE requests SET input_tokens = input_tokens + 1 WHERE session_id = $1 AND n = 2",
        &["counters_agree"],
    ),
    ("DELETE FROM requests WHERE session_id = $1 AND n = 2", &["counters_agree"]),
    ("UPDATE requests SET n = 3 WHERE session_id = $1 AND n = 2", &["counters_agree"]),
    ("UPDATE requests SET run_id = gen_random_uuid() WHERE session_id = $1", &["counters_agree"]),
    ("UPDATE requests SET tenant_id = gen_random_uuid() WHERE session_id = $1", &["tenants_agree"]),
    (
        "INSERT INTO reservations (run_id, tenant_id, tokens, cost)
         SELECT id, tenant_id, 1, 1 FROM runs WHERE session_id = $1",
        &["run_state_whole"],
    ),
];

/// Statements after which a session (`$1`) is still valid.
pub(super) const VALID_CHANGES: &[&str] = &[
    // A server tool call with its result.
    r#"UPDATE messages SET content = (left(content::text, -1) || ',{"type": "server_tool_use",
           "id": "srvtoolu_1", "name": "web_search", "input": {}}, {"type":
           "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}]')::json
       WHERE session_id = $1 AND seq = 8"#,
    // A run whose first requests are older than the table of requests.
    "WITH older AS (DELETE FROM requests WHERE session_id = $1)
     UPDATE runs SET last_request = 0 WHERE session_id = $1",
    // A call that a second attempt repeated, because the hash of the file allowed it.
    "WITH run AS (UPDATE runs SET attempt = 2 WHERE session_id = $1)
     UPDATE tool_calls SET executions = 2, hash_after = 'x' WHERE session_id = $1",
    // A call that ran with an input that the client replaced.
    "UPDATE tool_calls SET input = '{\"a\": 1}', input_hash = sha256('{\"a\": 1}')
     WHERE session_id = $1",
    // A worker that was lost recently: another one will take over the run.
    "WITH run AS (
         UPDATE runs SET status = 'running', finished_at = NULL, outcome = NULL,
                lease_owner = gen_random_uuid(), lease_until = now() - interval '30 seconds'
         WHERE session_id = $1 AND accepted_seq > 1
         RETURNING id
     ), event AS (
         UPDATE events SET type = 'other', body = '{\"type\": \"other\"}' FROM run
         WHERE session_id = $1 AND run_id = run.id AND type = 'session.status_idle'
     )
     UPDATE sessions SET active_run_id = run.id FROM run WHERE sessions.id = $1",
];
