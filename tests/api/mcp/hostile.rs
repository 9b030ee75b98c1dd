//! Servers that do what they must not. Whatever it is, the call has a result and the session goes
//! on.

use std::time::Duration;

use serde_json::json;
use twostep::tools::mcp::ServerSettings;

use super::fake_server::{Fake, app, asks_for, figure, is_running, readiness, results, until};

const NO_RESPONSE: &str = "Error: no response received from the tool server fake; the call may \
                           have happened all the same";

/// What becomes of one call, and of one after it.
async fn after(tool: &str, expected: &str) {
    let fake = Fake::new();
    let seconds = if expected == NO_RESPONSE { 20 } else { 5 };
    let settings = ServerSettings { timeout: Duration::from_secs(seconds), ..fake.settings() };
    let app = app(settings, &asks_for(&[tool, "echo"])).await;
    let session = app.session().await;
    let run = session.ask("Go").await;
    assert_eq!(run["status"], "completed");
    let expected = [(expected.to_owned(), true), ("You said hello.".to_owned(), false)];
    assert_eq!(results(&session).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ends_in_a_call_is_started_again_for_the_next() {
    after("crash", NO_RESPONSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_answers_somebody_else_has_not_answered() {
    after("wrong_id", "Error: mcp__fake__wrong_id timed out after 5 s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_message_has_no_end_is_ended() {
    after("huge", NO_RESPONSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_tells_without_end_is_ended() {
    after("flood", NO_RESPONSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_asks_without_end_is_ended() {
    after("pings", NO_RESPONSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_hangs_is_given_up_and_the_server_told() {
    after("hang", "Error: mcp__fake__hang timed out after 5 s").await;
    let fake = Fake::new();
    let settings = ServerSettings { timeout: Duration::from_secs(1), ..fake.settings() };
    let app = app(settings, &asks_for(&["hang"])).await;
    app.session().await.ask("Go").await;
    until("it was not told", async || {
        fake.heard().iter().any(|heard| heard["method"] == "notifications/cancelled")
    })
    .await;
    let heard = fake.heard();
    let call = heard.iter().find(|heard| heard["method"] == "tools/call").unwrap();
    let told = heard.iter().find(|heard| heard["method"] == "notifications/cancelled").unwrap();
    assert_eq!(told["params"]["requestId"], call["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_gives_its_call_up_at_once() {
    let fake = Fake::new();
    let app = fake.app(&["hang"]).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Go" })).await;
    until("it was not called", async || {
        fake.heard().iter().any(|heard| heard["method"] == "tools/call")
    })
    .await;
    session.cancel(&run).await;
    assert_eq!(session.settled(&run).await["status"], "cancelled");
    until("it was not told", async || {
        fake.heard().iter().any(|heard| heard["method"] == "notifications/cancelled")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_and_fails_is_left_alone_for_a_while() {
    let fake = Fake::new();
    let settings = ServerSettings { timeout: Duration::from_secs(1), ..fake.settings() };
    let app = app(settings, &asks_for(&["hang", "hang", "hang", "hang", "hang", "echo"])).await;
    let session = app.session().await;
    session.ask("Go").await;
    let told = results(&session).await;
    let timed_out = ("Error: mcp__fake__hang timed out after 1 s".to_owned(), true);
    assert_eq!(told[..5], vec![timed_out; 5]);
    let (text, is_error) = &told[5];
    let seconds = text
        .strip_prefix("Error: the tool server fake failed too often and is left alone for ")
        .and_then(|rest| rest.strip_suffix(" s"));
    assert!(*is_error && (1..=30).contains(&seconds.unwrap().parse::<u64>().unwrap()), "{text}");
    let check = json!({ "status": "warning", "detail": "calls fail; the circuit breaker is open" });
    assert_eq!(readiness(&app).await, (true, check));
    let count = async |outcome: &str| {
        let line = format!(r#"twostep_mcp_requests_total{{server="fake",outcome="{outcome}"}}"#);
        figure(&app, &line).await
    };
    assert_eq!((count("timed_out").await, count("withheld").await), (5, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_be_started_keeps_nobody_from_being_ready() {
    let fake = Fake::new();
    let mut settings = fake.settings();
    if let twostep::tools::mcp::Reach::Program(program) = &mut settings.reach {
        "/no/such/program".clone_into(&mut program.command);
    }
    let app = app(settings, &asks_for(&[])).await;
    let check = json!({ "status": "warning", "detail": "not connected" });
    assert_eq!(readiness(&app).await, (true, check));
    assert_eq!(figure(&app, r#"twostep_mcp_up{server="fake"}"#).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_program_is_left_when_the_service_ends() {
    let fake = Fake::new();
    let app = fake.app(&["crash", "stay"]).await;
    app.session().await.ask("Go").await;
    let started = fake.started();
    assert_eq!(started.len(), 3);
    drop(app);
    until("a program is left", async || !started.iter().any(|pid| is_running(*pid))).await;
}
