//! Tests of the evaluator over real sockets.

use axum::Router;
use axum::extract::Json;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::domain::tool_error::ToolErrorType;

const SESSION: &str = "ses_0193a7c2b8f07d3c9e41f2a6b5c8d7e0";

fn call(name: &str) -> ToolCall {
    ToolCall {
        tool_use_id: "toolu_1".to_owned(),
        name: name.to_owned(),
        input: RawValue::from_string(r#"{"file_path":  "a"}"#.to_owned()).unwrap(),
    }
}

fn evaluator(address: impl std::fmt::Display, timeout: Duration) -> Evaluator {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let operator = OperatorPolicy {
        evaluator: Some(EvaluatorSource::Http {
            url: format!("http://{address}/judge").parse().unwrap(),
            key: Some("open sesame".to_owned().into()),
        }),
        evaluation_timeout: timeout,
        ..OperatorPolicy::default()
    };
    Evaluator::of(&operator, &Arc::default()).unwrap().unwrap()
}

async fn ask(evaluator: &Evaluator, name: &str) -> Result<PolicyDecision, ToolError> {
    evaluator.ask(SESSION.parse().unwrap(), &call(name), ToolClass::Checkable).await
}

/// Sends a request to a service that gives this answer to every request.
async fn answered(
    answer: impl IntoResponse + Clone + Send + Sync + 'static,
) -> (Value, Evaluation) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (questions, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let judge = move |headers: HeaderMap, Json(question): Json<Value>| async move {
        questions.send((headers, question)).unwrap();
        answer
    };
    let stop = CancellationToken::new();
    let server = axum::serve(listener, Router::new().route("/judge", post(judge)))
        .with_graceful_shutdown(stop.clone().cancelled_owned());
    let task = TaskTracker::new().spawn(server.into_future());
    let evaluation = ask(&evaluator(address, Duration::from_secs(20)), "Edit").await;
    stop.cancel();
    task.await.unwrap().unwrap();
    let (headers, question) = asked.recv().await.unwrap();
    assert_eq!(headers["authorization"], "Bearer open sesame");
    (question, evaluation)
}

type Evaluation = Result<PolicyDecision, ToolError>;

fn opinion(permission: Permission, reason: Option<&str>) -> PolicyDecision {
    PolicyDecision { permission, reason: reason.map(str::to_owned), is_by_mode: true }
}

#[tokio::test]
async fn the_request_contains_all_fields_of_the_call() {
    let (question, evaluation) = answered(Json(json!({ "decision": "allow" }))).await;
    assert_eq!(
        question,
        json!({
            "tool": "Edit",
            "input": { "file_path": "a" },
            "class": "checkable",
            "session_id": SESSION,
            "tool_use_id": "toolu_1",
        })
    );
    assert_eq!(evaluation.unwrap(), opinion(Permission::Allow, None));
}

#[tokio::test]
async fn the_evaluator_can_defer_to_a_person() {
    let (_, evaluation) =
        answered(Json(json!({ "decision": "ask", "reason": "It is big." }))).await;
    assert_eq!(evaluation.unwrap(), opinion(Permission::Ask, Some("It is big.")));
}

#[tokio::test]
async fn a_denial_always_has_a_reason() {
    let (_, evaluation) = answered(Json(json!({ "decision": "deny", "reason": "No." }))).await;
    assert_eq!(
        evaluation.unwrap(),
        opinion(
            Permission::Deny,
            Some("This call of Edit did not run: the permission service denied it. No.")
        )
    );
    let (_, evaluation) = answered(Json(json!({ "decision": "deny" }))).await;
    assert_eq!(
        evaluation.unwrap(),
        opinion(
            Permission::Deny,
            Some("This call of Edit did not run: the permission service denied it.")
        )
    );
}

#[tokio::test]
async fn an_invalid_response_allows_nothing() {
    let failed = |cause: &str| {
        Err(ToolError::Failed(format!(
            "Error calling tool (Edit): MCP error -32603: failed to evaluate permission: {cause}"
        )))
    };
    let (_, evaluation) = answered(Json(json!({ "decision": "yes" }))).await;
    assert_eq!(evaluation, failed("the answer cannot be read"));
    let (_, evaluation) = answered("x".repeat(MAX_RESPONSE + 1)).await;
    assert_eq!(evaluation, failed("the answer cannot be read"));
    let allowed = Json(json!({ "decision": "allow" }));
    let (_, evaluation) = answered((reqwest::StatusCode::INTERNAL_SERVER_ERROR, allowed)).await;
    assert_eq!(evaluation, failed("the answer has the status 500"));
}

#[tokio::test]
async fn a_missing_response_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let evaluator = evaluator(listener.local_addr().unwrap(), Duration::from_millis(50));
    let error = ask(&evaluator, "MultiEdit").await.unwrap_err();
    assert_eq!(
        refusal(&error),
        CallOutcome {
            text: "<tool_use_error>Error calling tool (MultiEdit): MCP error -32603: failed to \
                   evaluate permission: request timed out after 50ms</tool_use_error>"
                .to_owned(),
            images: Vec::new(),
            is_error: true,
            error_type: Some(ToolErrorType::Timeout),
            state_changes: Vec::new(),
            sources: Vec::new(),
            sandbox: None,
        }
    );
}

#[tokio::test]
async fn the_default_timeout_is_two_minutes() {
    let error = Failure::TimedOut
        .into_tool_error("MultiEdit", OperatorPolicy::default().evaluation_timeout);
    assert_eq!(
        error,
        ToolError::Timeout(
            "Error calling tool (MultiEdit): MCP error -32603: failed to evaluate permission: \
             request timed out after 2m0s"
                .to_owned()
        )
    );
}

#[tokio::test]
async fn a_closed_connection_is_no_response() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let evaluator = evaluator(listener.local_addr().unwrap(), Duration::from_secs(20));
    let close = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 16]).await.unwrap();
    };
    let (evaluation, ()) = tokio::join!(ask(&evaluator, "Edit"), close);
    assert_eq!(
        evaluation,
        Err(ToolError::NoResponse(
            "Error calling tool (Edit): MCP error -32603: failed to evaluate permission: no \
             response received"
                .to_owned()
        ))
    );
}

#[tokio::test]
async fn an_unreachable_evaluator_is_a_failed_fetch() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let evaluation = ask(&evaluator(address, Duration::from_secs(20)), "Edit").await;
    assert_eq!(
        evaluation,
        Err(ToolError::Network("Error calling tool (Edit): fetch failed".to_owned()))
    );
}

#[test]
fn durations_are_formatted_as_in_go() {
    let formatted = [50, 1_500, 2_000, 120_000, 90_000, 3_600_000, 3_725_000]
        .map(|millis| go_duration(Duration::from_millis(millis)));
    assert_eq!(formatted, ["50ms", "1.5s", "2s", "2m0s", "1m30s", "1h0m0s", "1h2m5s"]);
}
