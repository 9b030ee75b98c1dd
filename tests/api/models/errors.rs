//! Each error of the model server, as a status and inside a stream: temporary errors are retried,
//! other errors fail the run with an error type, and the session continues in every case.

use serde_json::{Value, json};

use crate::support::{Session, TestApp, calls, replies, says};

/// The header that asks for a wait in milliseconds.
const RETRY_AFTER: &str = "retry-after-ms";

/// The errors of the API: status, type, whether the request is retried, and the error type of the
/// run.
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

/// Messages of the API about a history that violates a rule.
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

/// A script that gives this reply to the message `go` and answers all others.
fn fails(reply: &Value) -> Value {
    json!({ "conversations": [
        { "when": "go", "replies": [reply] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" })
}

/// A script that gives this reply to the first try of `go`, and answers the second one.
fn fails_first(reply: &Value) -> Value {
    let mut answer = says("Here I am.");
    answer["fail_first"] = json!([reply]);
    fails(&answer)
}

/// Asserts that the run failed with an error of this type: the history has only its message, the
/// last two events report the failure, and the next message is answered.
async fn assert_failed(session: &Session<'_>, run: &Value, kind: &str, case: &str) {
    assert_eq!(run["status"], "failed", "{case}: {run}");
    assert_eq!(run["stop_reason"], json!({ "type": "error" }), "{case}: nothing was retried");
    assert_eq!(run["error"]["type"], kind, "{case}: {run}");
    let mut events = session.events().await;
    // A request that fails inside its stream has a usage.
    events.retain(|event| event["type"] != "session.usage");
    let [.., error, idle] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&error["type"], &error["error"]), (&json!("session.error"), &run["error"]));
    assert_eq!(idle["type"], "session.status_idle");
    let history = session.history().await;
    assert_eq!(history.len(), 1, "{case}: {history:?}");
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.", "{case}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_error_before_the_stream_is_retried_or_reported() {
    let app = TestApp::start(fails(&json!({}))).await;
    for (status, kind, is_retried, run_error) in ERRORS {
        let reply = json!({ "status": status, "error": failure(kind, "scripted"),
                            "headers": { RETRY_AFTER: "5" } });
        check(&app, &reply, is_retried, run_error, &format!("{status} {kind}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_error_inside_the_stream_is_retried_or_reported() {
    let app = TestApp::start(fails(&json!({}))).await;
    // These statuses are more specific than their error types. A stream has no status.
    let by_type = ERRORS.iter().filter(|(status, ..)| !matches!(status, 408 | 422 | 503));
    for (_, kind, is_retried, run_error) in by_type {
        for events in [0, 1, 4] {
            let reply = json!({ "content": [{ "type": "text", "text": "WRONG, and WRONG again" }],
                                "error_after": events, "error": failure(kind, "scripted") });
            check(&app, &reply, *is_retried, run_error, &format!("{kind} after {events} events"))
                .await;
        }
    }
}

async fn check(app: &TestApp, reply: &Value, is_retried: bool, run_error: &str, case: &str) {
    let script = if is_retried { fails_first(reply) } else { fails(reply) };
    app.play(&script);
    let before = app.upstream().len();
    let session = app.session().await;
    let run = session.ask(&format!("go {before}")).await;
    if is_retried {
        assert_eq!(run["output_text"], "Here I am.", "{case}: {run}");
        assert_eq!(app.upstream().len(), before + 2, "{case}");
    } else {
        assert_failed(&session, &run, run_error, case).await;
        assert_eq!(app.upstream().len(), before + 2, "{case}: one request for each message");
    }
    let stored = json!([session.history().await, session.events().await]).to_string();
    assert!(!stored.contains("WRONG"), "{case}: {stored}");
    assert!(!is_retried || !stored.contains("scripted"), "{case}: {stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_the_model_refuses_fails_the_run_and_not_the_session() {
    let app = TestApp::start(fails(&json!({}))).await;
    for message in VALIDATION {
        let error = failure("invalid_request_error", message);
        let before = json!({ "status": 400, "error": error });
        let inside = json!({ "content": [{ "type": "text", "text": "WRONG" }], "error_after": 1,
                             "error": error });
        for reply in [before, inside] {
            check(&app, &reply, false, "model_request_failed_error", message).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_a_round_of_tools_leaves_a_history_that_the_model_accepts() {
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
        assert_eq!(roles, ["user", "assistant", "user", "user"], "the results are kept");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_is_not_of_the_api_fails_the_run() {
    let page = "<html><h1>Entity Too Large</h1></html>";
    let html = json!({ "content-type": "text/html" });
    let moved = json!({ "location": "http://127.0.0.1:9/v1/messages" });
    let answered = |kind: &str| format!("the model answered with {kind}");
    let redirect = "redirect; the operator must correct the base URL of the model's server";
    let unreadable = "the model's reply could not be read".to_owned();
    let object = r#"{"type":"health","status":"ok"}"#;
    let table = [
        (
            json!({ "status": 413, "body": page, "headers": html }),
            answered("request_too_large; post less, or continue in a new session"),
        ),
        (
            json!({ "status": 403, "body": "", "headers": html }),
            answered(
                "permission_error; use a model and features that the API key of the service permits, \
                 or another key",
            ),
        ),
        (json!({ "status": 301, "body": "", "headers": moved }), answered(redirect)),
        (json!({ "status": 307, "body": page, "headers": moved }), answered(redirect)),
        (json!({ "raw_sse": page, "headers": html }), unreadable.clone()),
        (
            json!({ "raw_sse": object, "headers": { "content-type": "application/json" } }),
            unreadable.clone(),
        ),
        (json!({ "raw_sse": "data: not JSON\n\n" }), unreadable.clone()),
        (json!({ "raw_sse": "data: [1]\n\n" }), unreadable),
    ];
    let app = TestApp::start(fails(&json!({}))).await;
    for (number, (reply, message)) in table.into_iter().enumerate() {
        app.play(&fails(&reply));
        let session = app.session().await;
        let run = session.ask(&format!("go {number}")).await;
        assert_eq!(run["error"]["message"], message, "{reply}");
        assert_failed(&session, &run, "model_request_failed_error", &reply.to_string()).await;
        let requests = app.upstream().len();
        assert_eq!(requests, 2 * (number + 1), "one for each message, no redirect: {reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_retried_when_the_body_is_no_stream_or_ends_early() {
    let start = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",",
        "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"simulator\",\"content\":[],",
        "\"stop_reason\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n",
    );
    let page = json!({ "content-type": "text/html" });
    let app = TestApp::start(fails(&json!({}))).await;
    for reply in [
        json!({ "raw_sse": "upstream connect error or disconnect/reset before headers" }),
        json!({ "raw_sse": "" }),
        json!({ "raw_sse": start }),
        json!({ "status": 502, "body": "<html>Bad Gateway</html>", "headers": page }),
        json!({ "status": 500, "body": "{\"error\":" }),
        json!({ "status": 503, "body": "{\"message\":\"no healthy upstream\"}" }),
    ] {
        check(&app, &reply, true, "", &reply.to_string()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spend_limit_is_not_retried_even_if_the_headers_ask_for_it() {
    let app = TestApp::start(fails(&json!({}))).await;
    for code in ["enforced_spend_limit_reached", "contract_spend_limit_reached"] {
        let error = json!({ "type": "rate_limit_error", "message": "scripted",
                            "details": { "error_code": code } });
        let advice = json!({ "x-should-retry": "true", "retry-after": "1" });
        let reply = json!({ "status": 429, "error": error, "headers": advice });
        check(&app, &reply, false, "billing_error", code).await;
        let inside = json!({ "content": [], "error_after": 1, "error": error });
        check(&app, &inside, false, "billing_error", code).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_a_round_of_tools_sends_the_same_request() {
    let broken = json!({ "content": [{ "type": "text", "text": "WRONG" }], "error_after": 3 });
    let mut last = says("Noon.");
    last["fail_first"] = json!([broken]);
    let app = TestApp::start(replies(&[calls("get_time", json!({})), last])).await;
    let session = app.session().await;
    assert_eq!(session.ask("What time is it?").await["output_text"], "Noon.");
    assert_eq!(app.upstream().text(1), app.upstream().text(2));
}
