//! Each value of a step, and of an accepted message, is stored in its own column. All values of a
//! test differ, so that a swap of two is found.

use serde_json::{Value, json};

use super::*;
use crate::domain::call_end::EndReason;
use crate::domain::prefix::PrefixHashes;
use crate::domain::request::{RequestForm, RequestRecord};
use crate::domain::source::Source;
use crate::domain::tool::ToolChoice;
use crate::domain::tool_error::ToolErrorType;

impl Bed {
    /// The only row of a query, as JSON.
    pub(super) async fn row(&self, query: &str) -> Value {
        let query = format!("SELECT to_json(t)::text FROM ({query}) t");
        let row: String =
            sqlx::query_scalar(sqlx::AssertSqlSafe(query)).fetch_one(&self.pool).await.unwrap();
        serde_json::from_str(&row).unwrap()
    }

    pub(super) async fn started(&self) -> Claimed {
        self.started_by(WorkerId::new()).await
    }

    pub(super) async fn started_by(&self, worker: WorkerId) -> Claimed {
        let Accepted::Run(run) = self.post(None, Some(worker)).await else { panic!("refused") };
        run.begun.unwrap()
    }
}

const USAGE: &str = "input_tokens, cache_creation_input_tokens, cache_read_input_tokens, \
    output_tokens, cache_creation_1h_input_tokens, thinking_tokens, web_search_requests, \
    web_fetch_requests, cost";

fn usage() -> Usage {
    Usage {
        input_tokens: 101,
        cache_creation_input_tokens: 102,
        cache_read_input_tokens: 103,
        output_tokens: 104,
        cache_creation_1h_input_tokens: 105,
        thinking_tokens: 106,
        web_search_requests: 107,
        web_fetch_requests: 108,
    }
}

fn with_usage(mut row: Value) -> Value {
    let mut usage = serde_json::to_value(usage()).unwrap();
    usage["cost"] = 109.into();
    row.as_object_mut().unwrap().append(usage.as_object_mut().unwrap());
    row
}

pub(super) fn request() -> RequestRecord {
    RequestRecord {
        model: "asked".into(),
        message_seq: 1,
        form: RequestForm {
            tool_choice: ToolChoice::ANY,
            prompt_cache: None,
            far_breakpoint: None,
            sent_changes: 0,
            compacted: None,
            summary: false,
            question: None,
            title: None,
            chat_completions: None,
            platform: None,
            responses: false,
            max_tokens: None,
            model_settings: None,
            container: None,
            fallback: None,
            unread: 0,
        },
        body_hash: "ab".repeat(32),
        body_length: 201,
        prefix: None::<PrefixHashes>,
        attempts: Vec::new(),
        stop_reason: Some("tool_use".into()),
        error: None,
        usage: usage(),
        usage_estimated: true,
        cost: Some(109),
        duration_ms: 202,
    }
}

#[tokio::test]
async fn a_reply_its_request_and_its_usage_are_stored_in_their_columns() {
    let bed = bed().await;
    let run = bed.started().await;
    let content = "[{\"type\":\"text\", \"text\":\"nul \\u0000\",\"text\":\"twice\"}]";
    let mut reply = message(Role::Assistant, content);
    (reply.message_id, reply.model, reply.message.usage) =
        ("msg_reply".into(), Some("answered".into()), usage());
    reply.message.stop_reason = Some(ModelStop::StopSequence(Some("END".into())));
    let event = NewEvent::with_id("evt_1".into(), &EventBody::StatusRunning { attempt: 7 });
    let request = request();
    let step = StepCommit {
        messages: &[reply],
        planned: &[call("toolu_1")],
        events: &[event],
        usage: Some(usage()),
        request: Some(&request),
        ..StepCommit::default()
    };
    assert!(bed.commit(&run, &step).await);

    let stored = bed
        .row(
            "SELECT seq, attempt, role, message_id, model, stop_reason, stop_sequence, usage,
                    content::text AS content
             FROM messages WHERE role = 'assistant'",
        )
        .await;
    let expected = json!({ "seq": 2, "attempt": 1, "role": "assistant",
        "message_id": "msg_reply", "model": "answered", "stop_reason": "stop_sequence",
        "stop_sequence": "END", "usage": usage(), "content": content });
    assert_eq!(stored, expected);
    let planned = "SELECT message_seq, tool_use_id, position, name, state FROM tool_calls";
    let expected = json!({ "message_seq": 2, "tool_use_id": "toolu_1", "position": 1,
        "name": "get_time", "state": "planned" });
    assert_eq!(bed.row(planned).await, expected);
    let event = "SELECT seq, event_id, type, body FROM events WHERE seq = 4";
    let expected = json!({ "seq": 4, "event_id": "evt_1", "type": "session.status_running",
        "body": { "type": "session.status_running", "attempt": 7 } });
    assert_eq!(bed.row(event).await, expected);
    let stored = format!(
        "SELECT n, attempt, model, message_seq, form, encode(body_hash, 'hex') AS body_hash,
                body_length, prefix, attempts, stop_reason, error, duration_ms,
                usage_estimated, {USAGE}
         FROM requests"
    );
    let expected = with_usage(json!({ "n": 1, "attempt": 1, "model": "asked", "message_seq": 1,
        "form": { "tool_choice": { "type": "any" } }, "body_hash": "ab".repeat(32),
        "body_length": 201, "prefix": null, "attempts": [], "stop_reason": "tool_use",
        "error": null, "duration_ms": 202, "usage_estimated": true }));
    assert_eq!(bed.row(&stored).await, expected);
    let run = format!("SELECT status, steps, model_requests, last_request, {USAGE} FROM runs");
    let expected = json!({ "status": "running", "steps": 1, "model_requests": 1,
        "last_request": 1 });
    assert_eq!(bed.row(&run).await, with_usage(expected));
    let session = format!("SELECT last_seq, last_message_seq, {USAGE} FROM sessions");
    let expected = json!({ "last_seq": 4, "last_message_seq": 2 });
    assert_eq!(bed.row(&session).await, with_usage(expected));
}

#[tokio::test]
async fn a_change_of_a_call_is_stored_in_its_columns() {
    let bed = bed().await;
    let run = bed.started().await;
    let reply = [message(Role::Assistant, r#"[{"type":"x"}]"#)];
    let planned = [call("a")];
    let step = StepCommit { messages: &reply, planned: &planned, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    let sub_agent_run = run.fence.run_id;
    let recorded = [CallRecord {
        tool_use_id: "a".into(),
        state: CallState::Failed,
        result: Some("the \"result\"\n".into()),
        content: Some(r#"[{"type": "z"}]"#.into()),
        is_execution: true,
        duration_ms: 1500,
        change: Some(ChangeRecord {
            path: "a/path".into(),
            before: Some(b"before".to_vec()),
            after: b"after".to_vec(),
            result: "the change's result".into(),
        }),
        error_type: Some(ToolErrorType::ReadRequired),
        end_reason: Some(EndReason::ResultExpired),
        wait: Some(NewWait {
            awaits: Awaits::Approval,
            within: Duration::from_secs(90),
            reason: Some("the reason".into()),
            diff: Some("the diff".into()),
        }),
        input_hash: Some(b"input".to_vec()),
        sandbox: Some("bubblewrap"),
        sources: vec![Source { title: "no nul".into(), url: Some("https://a".into()) }],
        sub_agent_run: Some(sub_agent_run),
    }];
    let step = StepCommit { recorded_message_seq: 2, recorded: &recorded, ..StepCommit::default() };
    assert!(bed.commit(&run, &step).await);
    let stored = "SELECT state, result, content::text AS content, executions, convert_from(hash_before, 'UTF8') AS before,
                convert_from(hash_after, 'UTF8') AS after, change_path, change_result, error_type,
                awaits, answer_by - finished_at AS time_limit, finished_at - started_at AS duration, wait_reason, diff,
                convert_from(input_hash, 'UTF8') AS input, sandbox, sources::text AS sources,
                child_run_id, end_reason, finished_at IS NOT NULL AS has_finished
         FROM tool_calls";
    let expected = json!({ "state": "failed", "result": "the \"result\"\n",
        "content": r#"[{"type": "z"}]"#, "executions": 1, "before": "before", "after": "after", "change_path": "a/path",
        "change_result": "the change's result",
        "error_type": ToolErrorType::ReadRequired.as_str(), "awaits": Awaits::Approval.as_str(),
        "time_limit": "00:01:30", "duration": "00:00:01.5", "wait_reason": "the reason", "diff": "the diff",
        "input": "input", "sandbox": "bubblewrap",
        "sources": r#"[{"title":"no nul","url":"https://a"}]"#,
        "child_run_id": sub_agent_run.as_uuid(), "end_reason": EndReason::ResultExpired.as_str(),
        "has_finished": true });
    assert_eq!(bed.row(stored).await, expected);
}

#[tokio::test]
async fn a_call_whose_result_comes_with_its_message_is_stored_in_its_columns() {
    let bed = bed().await;
    let run = bed.started().await;
    let messages =
        [message(Role::Assistant, r#"[{"type":"x"}]"#), message(Role::User, r#"[{"type":"y"}]"#)];
    let recorded = [CallRecord {
        result: Some("the \"result\"\n".into()),
        is_execution: true,
        duration_ms: 1500,
        error_type: Some(ToolErrorType::ReadRequired),
        sandbox: Some("bubblewrap"),
        sources: vec![Source { title: "no nul".into(), url: Some("https://a".into()) }],
        ..CallRecord::new("a", CallState::Failed)
    }];
    let planned = [call("a"), call("b")];
    let step = StepCommit {
        messages: &messages,
        planned: &planned,
        recorded: &recorded,
        ..StepCommit::default()
    };
    assert!(bed.commit(&run, &step).await);
    let stored =
        "SELECT message_seq, position, name, state, result, executions, error_type, sandbox,
                sources::text AS sources, finished_at - started_at AS duration
         FROM tool_calls WHERE tool_use_id = 'a'";
    let expected = json!({ "message_seq": 2, "position": 1, "name": planned[0].name,
        "state": "failed", "result": "the \"result\"\n", "executions": 1,
        "error_type": ToolErrorType::ReadRequired.as_str(), "sandbox": "bubblewrap",
        "sources": r#"[{"title":"no nul","url":"https://a"}]"#, "duration": "00:00:01.5" });
    assert_eq!(bed.row(stored).await, expected);
    let open = "SELECT state, result, executions, started_at, finished_at
         FROM tool_calls WHERE tool_use_id = 'b'";
    let expected = json!({ "state": "planned", "result": null, "executions": 0,
        "started_at": null, "finished_at": null });
    assert_eq!(bed.row(open).await, expected);
    let session = "SELECT last_message_seq FROM sessions";
    assert_eq!(bed.row(session).await, json!({ "last_message_seq": 3 }));
}

#[tokio::test]
async fn a_reply_ends_with_its_own_events_and_its_results_with_the_last_event_of_the_step() {
    let bed = bed().await;
    let run = bed.started().await;
    let before: i64 =
        sqlx::query_scalar("SELECT last_seq FROM sessions").fetch_one(&bed.pool).await.unwrap();
    let messages =
        [message(Role::Assistant, r#"[{"type":"x"}]"#), message(Role::User, r#"[{"type":"y"}]"#)];
    let event = || NewEvent::new(&EventBody::UserInterrupt {});
    let events = [event(), event(), event(), event(), event()];
    let planned = [call("a")];
    let result = Some("noon".into());
    let recorded = [CallRecord { result, ..CallRecord::new("a", CallState::Done) }];
    let step = StepCommit {
        messages: &messages,
        planned: &planned,
        recorded: &recorded,
        events: &events,
        reply_events: Some(2),
        ..StepCommit::default()
    };
    assert!(bed.commit(&run, &step).await);
    let stored = "SELECT array_agg(last_event ORDER BY seq) AS last FROM messages WHERE seq > 1";
    assert_eq!(bed.row(stored).await, json!({ "last": [before + 2, before + 5] }));
}

#[tokio::test]
async fn a_step_that_settles_a_run_stores_its_outcome_and_stop_reason() {
    let bed = bed().await;
    let run = bed.started().await;
    let outcome = Outcome { output_text: "the answer".into(), ..outcome() };
    assert!(bed.commit(&run, &settling(&outcome)).await);
    let stored = "SELECT r.status, r.outcome::text AS outcome, s.stop_reason, r.lease_owner,
                s.active_run_id, r.finished_at IS NOT NULL AS has_finished
         FROM runs r, sessions s";
    let expected = json!({ "status": "completed",
        "outcome": serde_json::to_string(&outcome).unwrap(),
        "stop_reason": { "type": "end_turn" }, "lease_owner": null, "active_run_id": null,
        "has_finished": true });
    assert_eq!(bed.row(stored).await, expected);
}
