//! Each error that the model's server knows, as a status and inside a stream: what may pass is
//! tried again, anything else fails the run clearly, and the session goes on in every case.

use serde_json::{Value, json};

use crate::support::{Session, TestApp, calls, replies, says};

/// A wait that is over at once.
const SOON: &str = "retry-after-ms";

/// The errors of the API: status, type, whether it is tried again, and what clients are told.
const ERRORS: [(u16, &str, bool, &str); 14] = [
    (400, "invalid_request_error", false, "model_request_failed_error"),
    (401, "authentication_error", false, "model_request_failed_error"),
    (402, "billing_error", false, "billing_error"),
    (403, "permission_error", false, "model_request_failed_error"),
    (404, "not_found_error", false, "model_request_failed_error"),
    (408, "timeout_error", true, ""),
    (409, "conflict_error", true, ""),
    (413, "request_too_large", false, "model_request_failed_error"),
    (422, "invalid_request_error", false, "model_request_failed_error"),
    (429, "rate_limit_error", true, ""),
    (500, "api_error", true, ""),
    (503, "api_error", true, ""),
    (504, "timeout_error", true, ""),
    (529, "overloaded_error", true, ""),
];

/// What the API says of a history that breaks a rule.
const VALIDATION: [&str; 19] = [
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_A. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_A. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
    "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_A",
    "messages.1.content.1: `tool_use` ids must be unique",
    "messages: text content blocks must be non-empty",
    "messages.1: all messages must have non-empty content except for the optional final assistant message",
    "This model does not support assistant message prefill. The conversation must end with a user message.",
    "messages.1.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_A. Each `advisor_tool_result` block must have a corresponding `server_tool_use` block before it.",
    "`web_fetch` tool use with id `srvtoolu_A` was found without a corresponding `web_fetch_tool_result` block",
    "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.",
    "tool_choice: type \"tool\" and \"any\" are not supported for this model.",
    "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.",
    "adaptive thinking is not supported on this model",
    "`temperature` is deprecated for this model.",
    "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    "prompt is too long: 208310 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again",
    "All tools have defer_loading: true",
    "Unsupported regex feature in pattern field: (?=a)",
];

fn failure(kind: &str, message: &str) -> Value {
    json!({ "type": kind, "message": message })
}

/// A script that does this to the first message, and answers all others.
fn fails(reply: &Value) -> Value {
    json!({ "conversations": [
        { "when": "go", "replies": [reply] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" })
}

/// The same, with a good answer once this has happened.
fn fails_first(reply: &Value) -> Value {
    let mut answer = says("Here I am.");
    answer["fail_first"] = json!([reply]);
    fails(&answer)
}

/// A run that failed in this way: nothing of it is in the history but its message, its last two
/// events say so, and the next message is answered.
async fn assert_failed(session: &Session<'_>, run: &Value, kind: &str, what: &str) {
    assert_eq!(run["status"], "failed", "{what}: {run}");
    assert_eq!(run["stop_reason"], json!({ "type": "retries_exhausted" }), "{what}");
    assert_eq!(run["error"]["type"], kind, "{what}: {run}");
    let events = session.events().await;
    let [.., error, idle] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&error["type"], &error["error"]), (&json!("session.error"), &run["error"]));
    assert_eq!(idle["type"], "session.status_idle");
    let history = session.history().await;
    assert_eq!(history.len(), 1, "{what}: {history:?}");
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.", "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_error_before_the_stream_is_tried_again_or_told() {
    for (status, kind, is_tried_again, told) in ERRORS {
        let reply = json!({ "status": status, "error": failure(kind, "scripted"),
                            "headers": { SOON: "5" } });
        check(&reply, is_tried_again, told, &format!("{status} {kind}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_error_inside_the_stream_is_tried_again_or_told() {
    // A status may tell more than the type, and inside a stream there is none.
    let by_type = ERRORS.iter().filter(|(status, ..)| !matches!(status, 408 | 422 | 503));
    for (_, kind, is_tried_again, told) in by_type {
        for events in [0, 1, 4] {
            let reply = json!({ "content": [{ "type": "text", "text": "WRONG, and WRONG again" }],
                                "error_after": events, "error": failure(kind, "scripted") });
            check(&reply, *is_tried_again, told, &format!("{kind} after {events} events")).await;
        }
    }
}

async fn check(reply: &Value, is_tried_again: bool, told: &str, what: &str) {
    let script = if is_tried_again { fails_first(reply) } else { fails(reply) };
    let app = TestApp::start(script).await;
    let session = app.session().await;
    let run = session.ask("go").await;
    if is_tried_again {
        assert_eq!(run["output_text"], "Here I am.", "{what}: {run}");
        assert_eq!(app.upstream().len(), 2, "{what}");
    } else {
        assert_failed(&session, &run, told, what).await;
        assert_eq!(app.upstream().len(), 2, "{what}: one request for each message");
    }
    let stored = json!([session.history().await, session.events().await]).to_string();
    assert!(!stored.contains("WRONG") && !stored.contains("scripted"), "{what}: {stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_said_to_break_a_rule_fails_the_run_and_not_the_session() {
    for message in VALIDATION {
        let error = failure("invalid_request_error", message);
        let before = json!({ "status": 400, "error": error });
        let inside = json!({ "content": [{ "type": "text", "text": "WRONG" }], "error_after": 1,
                             "error": error });
        for reply in [before, inside] {
            check(&reply, false, "model_request_failed_error", message).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_a_round_of_tools_leaves_a_history_that_the_model_takes() {
    for reply in [
        json!({ "status": 400, "error": failure("invalid_request_error", VALIDATION[0]) }),
        json!({ "content": [{ "type": "text", "text": "WRONG" }], "error_after": 3,
                "error": failure("invalid_request_error", VALIDATION[0]) }),
    ] {
        let script = json!({ "conversations": [
            { "when": "go", "replies": [calls("get_time", json!({})), reply] },
            { "replies": [says("Still here.")] },
        ], "otherwise": "refuse" });
        let app = TestApp::start(script).await;
        let session = app.session().await;
        let run = session.ask("go").await;
        assert_eq!(run["error"]["type"], "model_request_failed_error");
        assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
        let roles = app.upstream().roles(2);
        assert_eq!(roles, ["user", "assistant", "user", "user"], "the results stay");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_none_of_the_apis_fails_the_run() {
    let page = "<html><h1>Entity Too Large</h1></html>";
    let html = json!({ "content-type": "text/html" });
    let moved = json!({ "location": "http://127.0.0.1:9/v1/messages" });
    let told = |kind: &str| format!("the model answered with {kind}");
    let unreadable = "the model's reply could not be read".to_owned();
    let message = r#"{"type":"message","content":[]}"#;
    let table = [
        (json!({ "status": 413, "body": page, "headers": html }), told("request_too_large")),
        (json!({ "status": 403, "body": "", "headers": html }), told("permission_error")),
        (json!({ "status": 301, "body": "", "headers": moved }), told("redirect")),
        (json!({ "status": 307, "body": page, "headers": moved }), told("redirect")),
        (json!({ "raw_sse": page, "headers": html }), unreadable.clone()),
        (
            json!({ "raw_sse": message, "headers": { "content-type": "application/json" } }),
            unreadable.clone(),
        ),
        (json!({ "raw_sse": "data: not JSON\n\n" }), unreadable.clone()),
        (json!({ "raw_sse": "data: [1]\n\n" }), unreadable),
    ];
    for (reply, message) in table {
        let app = TestApp::start(fails(&reply)).await;
        let session = app.session().await;
        let run = session.ask("go").await;
        assert_eq!(run["error"]["message"], message, "{reply}");
        assert_failed(&session, &run, "model_request_failed_error", &reply.to_string()).await;
        assert_eq!(app.upstream().len(), 2, "it is asked once, and there: {reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_stream_or_ends_early_is_asked_for_again() {
    let start = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",",
        "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"simulator\",\"content\":[],",
        "\"stop_reason\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n",
    );
    let page = json!({ "content-type": "text/html" });
    for reply in [
        json!({ "raw_sse": "upstream connect error or disconnect/reset before headers" }),
        json!({ "raw_sse": "" }),
        json!({ "raw_sse": start }),
        json!({ "status": 502, "body": "<html>Bad Gateway</html>", "headers": page }),
        json!({ "status": 500, "body": "{\"error\":" }),
        json!({ "status": 503, "body": "{\"message\":\"no healthy upstream\"}" }),
    ] {
        check(&reply, true, "", &reply.to_string()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spend_limit_is_final_whatever_else_the_answer_says() {
    for code in ["enforced_spend_limit_reached", "contract_spend_limit_reached"] {
        let error = json!({ "type": "rate_limit_error", "message": "scripted",
                            "details": { "error_code": code } });
        let advice = json!({ "x-should-retry": "true", "retry-after": "1" });
        let reply = json!({ "status": 429, "error": error, "headers": advice });
        check(&reply, false, "billing_error", code).await;
        let inside = json!({ "content": [], "error_after": 1, "error": error });
        check(&inside, false, "billing_error", code).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_was_said_before_an_error_is_asked_for_again_in_the_same_words() {
    let torn = json!({ "content": [{ "type": "text", "text": "WRONG" }], "error_after": 3 });
    let mut last = says("Noon.");
    last["fail_first"] = json!([torn]);
    let app = TestApp::start(replies(&[calls("get_time", json!({})), last])).await;
    let session = app.session().await;
    assert_eq!(session.ask("What time is it?").await["output_text"], "Noon.");
    assert_eq!(app.upstream().text(1), app.upstream().text(2));
}
