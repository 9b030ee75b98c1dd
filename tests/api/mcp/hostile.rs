//! Servers that crash, hang or flood the service. Each call gets a result, and the session
//! continues.

use std::time::Duration;

use serde_json::json;
use twostep::tools::mcp::ServerSettings;

use super::fake_server::{
    Fake, app, is_running, listed, metric, readiness, results, script_calling, wait_until,
};

const NO_RESPONSE: &str = "Error: no response received from the tool server fake; the call may \
                           have been executed";

/// Asserts that a call of this tool has this error as its result, and that the next call succeeds.
async fn assert_recovers_after(tool: &str, expected: &str) {
    let fake = Fake::new();
    let seconds = if expected == NO_RESPONSE { 20 } else { 5 };
    let settings = ServerSettings { timeout: Duration::from_secs(seconds), ..fake.settings() };
    let app = app(settings, &script_calling(&[tool, "echo"])).await;
    let session = app.session().await;
    let run = session.ask("Go").await;
    assert_eq!(run["status"], "completed");
    let expected = [(expected.to_owned(), true), ("You said hello.".to_owned(), false)];
    assert_eq!(results(&session).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_exits_during_a_call_is_restarted_for_the_next_call() {
    assert_recovers_after("crash", NO_RESPONSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_with_another_id_does_not_answer_the_call() {
    assert_recovers_after("wrong_id", "Error: mcp__fake__wrong_id timed out after 5 s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_sends_too_large_a_message_is_stopped() {
    assert_recovers_after("huge", NO_RESPONSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_sends_endless_notifications_is_stopped() {
    assert_recovers_after("flood", NO_RESPONSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_sends_endless_requests_is_stopped() {
    assert_recovers_after("pings", NO_RESPONSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_hangs_times_out_and_is_cancelled_at_the_server() {
    assert_recovers_after("hang", "Error: mcp__fake__hang timed out after 5 s").await;
    let fake = Fake::new();
    let settings = ServerSettings { timeout: Duration::from_secs(1), ..fake.settings() };
    let app = app(settings, &script_calling(&["hang"])).await;
    app.session().await.ask("Go").await;
    wait_until("the server received no cancellation", async || {
        fake.received().iter().any(|message| message["method"] == "notifications/cancelled")
    })
    .await;
    let received = fake.received();
    let call = received.iter().find(|message| message["method"] == "tools/call").unwrap();
    let cancelled =
        received.iter().find(|message| message["method"] == "notifications/cancelled").unwrap();
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_run_cancels_its_call_at_once() {
    let fake = Fake::new();
    let app = fake.app(&["hang"]).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Go" })).await;
    wait_until("the tool was not called", async || {
        fake.received().iter().any(|message| message["method"] == "tools/call")
    })
    .await;
    session.cancel(&run).await;
    assert_eq!(session.settled(&run).await["status"], "cancelled");
    wait_until("the server received no cancellation", async || {
        fake.received().iter().any(|message| message["method"] == "notifications/cancelled")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_failures_open_the_circuit_breaker_of_a_server() {
    let fake = Fake::new();
    let settings = ServerSettings { timeout: Duration::from_secs(1), ..fake.settings() };
    let app =
        app(settings, &script_calling(&["hang", "hang", "hang", "hang", "hang", "echo"])).await;
    let session = app.session().await;
    session.ask("Go").await;
    let results = results(&session).await;
    let timed_out = ("Error: mcp__fake__hang timed out after 1 s".to_owned(), true);
    assert_eq!(results[..5], vec![timed_out; 5]);
    let (text, is_error) = &results[5];
    let seconds = text
        .strip_prefix("Error: the tool server fake failed too often and gets no calls for ")
        .and_then(|rest| rest.strip_suffix(" s"));
    assert!(*is_error && (1..=30).contains(&seconds.unwrap().parse::<u64>().unwrap()), "{text}");
    let check = json!({ "status": "warning", "detail": "calls fail; the circuit breaker is open" });
    assert_eq!(readiness(&app).await, (true, check));
    assert_eq!(listed(&app).await["status"], "failing");
    let count = async |outcome: &str| {
        let line = format!(r#"twostep_mcp_requests_total{{server="fake",outcome="{outcome}"}}"#);
        metric(&app, &line).await
    };
    assert_eq!((count("timed_out").await, count("withheld").await), (5, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_ready_although_a_server_cannot_be_started() {
    let fake = Fake::new();
    let mut settings = fake.settings();
    if let twostep::tools::mcp::ServerTransport::Program(program) = &mut settings.transport {
        "/no/such/program".clone_into(&mut program.command);
    }
    let app = app(settings, &script_calling(&[])).await;
    let check = json!({ "status": "warning", "detail": "not connected" });
    assert_eq!(readiness(&app).await, (true, check));
    assert_eq!(metric(&app, r#"twostep_mcp_up{server="fake"}"#).await, 0);
    let expected =
        json!({ "type": "mcp_server", "name": "fake", "status": "disconnected", "tools": 0 });
    assert_eq!(listed(&app).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_a_server_is_left_after_the_service_stops() {
    let fake = Fake::new();
    let app = fake.app(&["crash", "spawn"]).await;
    app.session().await.ask("Go").await;
    let started = fake.started();
    assert_eq!(started.len(), 3);
    drop(app);
    wait_until("a process still runs", async || !started.iter().any(|pid| is_running(*pid))).await;
}
