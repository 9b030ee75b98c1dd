//! The permission gate: rules, permission modes, plan mode, and an external evaluator.

use std::time::Duration;

use axum::Router;
use axum::extract::Json;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use twostep::domain::permission::PermissionMode;
use twostep::tools::policy::{EvaluatorSource, OperatorPolicy};

use crate::faults::takeover::{hangs_once, lose_worker};
use crate::support::asked;
use crate::support::{Session, Setup, TestApp, calls, replies, says};

fn with_policy(operator: OperatorPolicy) -> Setup {
    Setup { permissions: Some(operator), ..Setup::default() }
}

/// A policy that asks for an approval of every call that changes something.
fn ask_by_default() -> OperatorPolicy {
    OperatorPolicy { default_mode: PermissionMode::Default, ..OperatorPolicy::default() }
}

fn writes(path: &str) -> Value {
    calls("write_file", json!({ "path": path, "content": "x" }))
}

fn exits_plan_mode() -> Value {
    json!({ "content": [{
        "type": "tool_use", "id": "toolu_plan", "name": "ExitPlanMode",
        "input": { "plan": "1. Write a." },
    }] })
}

fn exists(app: &TestApp, name: &str) -> bool {
    app.folder.path().join(name).exists()
}

async fn permissions(session: &Session<'_>) -> Vec<Value> {
    let permission = |mut event: Value| {
        (event["type"] == "agent.tool_use").then(|| event["evaluated_permission"].take())
    };
    session.events().await.into_iter().filter_map(permission).collect()
}

async fn mode(session: &Session<'_>) -> Value {
    session.read().await["permission_mode"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_matching_rule_decides_and_its_reason_is_sent_to_the_model() {
    let script = replies(&[writes("docs/a"), writes("docs/secret"), says("{{result.0}}")]);
    let app = TestApp::start_with(script, with_policy(ask_by_default())).await;
    let rules = json!([
        { "tool": "write_file", "input": { "path": "docs/secret" }, "decision": "deny",
          "reason": "This file is read-only." },
        { "tool": "write_*", "input": { "path": "docs/**" }, "decision": "allow" },
        { "tool": "*", "decision": "deny" },
    ]);
    let session = app.session_with(json!({ "permissions": rules })).await;
    let run = session.ask("Write").await;
    let denied = "Error: This call of write_file did not run: the permission rule for \"write_file\" \
        with path \"docs/secret\" denies it. This file is read-only.";
    assert_eq!(run["output_text"], denied);
    assert_eq!(permissions(&session).await, ["allow", "deny"]);
    assert_eq!((exists(&app, "docs/a"), exists(&app, "docs/secret")), (true, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_no_rule_matches_waits_for_approval() {
    let app =
        TestApp::start_with(replies(&[writes("a"), says("Done.")]), with_policy(ask_by_default()))
            .await;
    let session = app.session().await;
    let run = session.ask("Write").await;
    assert_eq!(run["status"], "requires_action");
    assert_eq!(permissions(&session).await, ["ask"]);
    assert!(!exists(&app, "a"));
    let id = run["pending"][0]["tool_use_id"].as_str().unwrap();
    session.allow(id, json!({})).await;
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
    assert!(exists(&app, "a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_of_a_session_cannot_allow_calls_that_the_operator_denies() {
    let rule = json!({ "tool": "write_file", "decision": "deny", "reason": "Read only." });
    let rules = vec![serde_json::from_value(rule).unwrap()];
    let operator =
        OperatorPolicy { rules: rules.into(), allows_bypass: true, ..OperatorPolicy::default() };
    let script = replies(&[writes("a"), says("{{result.0}}")]);
    let app = TestApp::start_with(script, with_policy(operator)).await;
    let allow = json!([{ "tool": "*", "decision": "allow" }]);
    let body = json!({ "permission_mode": "bypass", "permissions": allow });
    let session = app.session_with(body).await;
    let denied = "Error: This call of write_file did not run: the permission rule for \"write_file\" \
        denies it. Read only.";
    assert_eq!(session.ask("Write").await["output_text"], denied);
    assert!(!exists(&app, "a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_mode_that_the_operator_has_disabled_is_neither_shown_nor_applied() {
    let script = replies(&[writes("a"), says("Done.")]);
    let operator = OperatorPolicy { allows_bypass: true, ..ask_by_default() };
    let app = TestApp::start_with(script.clone(), with_policy(operator)).await;
    let session = app.session_with(json!({ "permission_mode": "bypass" })).await;
    assert_eq!(mode(&session).await, "bypass");
    let id = session.id.clone();
    let app = app.restarted_with(script, with_policy(ask_by_default())).await;
    let session = app.existing_session(&id);
    assert_eq!(mode(&session).await, "default");
    let run = session.ask("Write").await;
    assert_eq!((&run["status"], exists(&app, "a")), (&json!("requires_action"), false));
    session.cancel(&run).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_plan_ends_plan_mode() {
    let script = replies(&[writes("a"), exits_plan_mode(), writes("b"), says("Done.")]);
    let app = TestApp::start_with(script, with_policy(OperatorPolicy::default())).await;
    let session = app.session_with(json!({ "permission_mode": "plan" })).await;
    let run = session.ask("Plan it").await;
    assert_eq!((&run["status"], mode(&session).await), (&json!("requires_action"), json!("plan")));
    let refused = &session.history().await[2]["message"]["content"][0]["content"];
    let expected = "Error: Plan mode is on: write_file can have side effects, which are not \
        allowed before a plan is approved. Use only tools that read, then call ExitPlanMode with \
        your plan.";
    assert_eq!(refused, expected);
    assert_eq!(session.approvals().await[0]["input"], json!({ "plan": "1. Write a." }));

    session.allow("toolu_plan", json!({})).await;
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
    let result = &session.history().await[4]["message"]["content"][0]["content"];
    let approved = "User has approved your plan. You can now start coding. Start with updating \
        your todo list if applicable";
    assert_eq!(result, approved);
    assert_eq!(mode(&session).await, "accept_edits");
    assert_eq!((exists(&app, "a"), exists(&app, "b")), (false, true));
    let events = session.events().await;
    let updated = events.iter().find(|event| event["type"] == "session.updated").unwrap();
    assert_eq!(updated["permission_mode"], "accept_edits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_does_not_restore_the_permission_mode_of_the_message() {
    let script = replies(&[exits_plan_mode(), hangs_once(writes("b")), says("Done.")]);
    let app = TestApp::start_with(script, with_policy(OperatorPolicy::default())).await;
    let session = app.session().await;
    let body = json!({ "content": "Plan it", "permission_mode": "plan" });
    let run = session.ask_with(body).await;
    assert_eq!((&run["status"], mode(&session).await), (&json!("requires_action"), json!("plan")));
    session.allow("toolu_plan", json!({})).await;
    asked(&app, 2).await;
    lose_worker(&app, &run, 1).await;
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
    assert_eq!((mode(&session).await, exists(&app, "b")), (json!("accept_edits"), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_rejected_plan_is_sent_to_the_model_and_plan_mode_stays_on() {
    let script = replies(&[exits_plan_mode(), says("{{result.0}}")]);
    let app = TestApp::start_with(script, with_policy(OperatorPolicy::default())).await;
    let session = app.session_with(json!({ "permission_mode": "plan" })).await;
    let run = session.ask("Plan it").await;
    session.deny("toolu_plan", "Step one is wrong.").await;
    let output = session.settled(&run).await["output_text"].take();
    let expected = "<tool_use_error>The approver denied this call, and it did not run. Step one is \
        wrong.</tool_use_error>";
    assert_eq!((output, mode(&session).await), (json!(expected), json!("plan")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_outside_of_plan_mode_needs_no_approval() {
    let script = replies(&[exits_plan_mode(), says("{{result.0}}")]);
    let app = TestApp::start_with(script, with_policy(ask_by_default())).await;
    let session = app.session().await;
    let output = session.ask("Plan it").await["output_text"].take();
    let expected = "Plan mode is off: there is nothing to approve. Continue with the work.";
    assert_eq!((output, mode(&session).await), (json!(expected), json!("default")));
}

/// An evaluator that allows calls with the path `yes`, denies `no`, and asks otherwise.
async fn start_evaluator() -> (String, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let evaluate = |Json(question): Json<Value>| async move {
        Json(match question["input"]["path"].as_str().unwrap() {
            "yes" => json!({ "decision": "allow" }),
            "no" => json!({ "decision": "deny", "reason": "Too risky." }),
            _ => json!({ "decision": "ask" }),
        })
    };
    let router = Router::new().route("/", post(evaluate));
    (url, TaskTracker::new().spawn(axum::serve(listener, router).into_future()))
}

fn evaluated_by(url: &str, evaluation_timeout: Duration) -> Setup {
    let evaluator = Some(EvaluatorSource::Http { url: url.parse().unwrap(), key: None });
    with_policy(OperatorPolicy { evaluator, evaluation_timeout, ..ask_by_default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_evaluator_decides_before_an_approval_is_requested() {
    let (url, server) = start_evaluator().await;
    let script = replies(&[writes("yes"), writes("no"), writes("other"), says("Done.")]);
    let app = TestApp::start_with(script, evaluated_by(&url, Duration::from_secs(20))).await;
    let session = app.session().await;
    let run = session.ask("Write").await;
    assert_eq!(run["status"], "requires_action");
    let pending = run["pending"].as_array().unwrap();
    let inputs: Vec<&Value> = pending.iter().map(|call| &call["input"]["path"]).collect();
    assert_eq!(inputs, ["other"]);
    let refused = &session.history().await[4]["message"]["content"][0]["content"];
    let denied = "Error: This call of write_file did not run: the permission service denied it. Too \
        risky.";
    assert_eq!(refused, denied);
    assert_eq!((exists(&app, "yes"), exists(&app, "no")), (true, false));
    session.cancel(&run).await;
    session.settled(&run).await;
    drop(app);
    server.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_that_times_out_fails_only_its_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let script = json!({ "conversations": [
        { "when": "write", "replies": [writes("a"), says("{{result.0}}")] },
        { "replies": [says("Hi.")] },
    ] });
    let app = TestApp::start_with(script, evaluated_by(&url, Duration::from_secs(5))).await;
    let (session, other) = (app.session().await, app.session().await);
    let run = session.post(json!({ "content": "Write" })).await;
    let _connection = listener.accept().await.unwrap();
    assert_eq!(other.ask("Hello").await["output_text"], "Hi.");
    assert_eq!(session.run(&run).await["status"], "running");
    assert_eq!(
        session.settled(&run).await["output_text"],
        "<tool_use_error>Error calling tool (write_file): MCP error -32603: failed to evaluate \
         permission: request timed out after 5s</tool_use_error>"
    );
    assert!(!exists(&app, "a"));
    let events = session.events().await;
    let result = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
    assert_eq!((&result["is_error"], &result["error_type"]), (&json!(true), &json!("TIMEOUT")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_tool_that_the_session_does_not_have_is_an_error_result() {
    let script = replies(&[writes("a.txt"), says("Done.")]);
    for tools in [json!(["read_file"]), json!([])] {
        let app = TestApp::start(script.clone()).await;
        let session = app.session_with(json!({ "tools": tools })).await;
        session.ask("Write it").await;
        let result = &session.history().await[2]["message"]["content"][0]["content"];
        assert_eq!(result, r#"{"error":"Unknown tool: 'write_file'"}"#, "{tools}");
        assert!(!exists(&app, "a.txt"), "{tools}");
        // The simulator refuses a history with calls and no tools: no model would produce it.
        if tools == json!([]) {
            app.end_refused(&[
                "Requests which include `tool_use` or `tool_result` blocks must define tools.",
            ]);
        }
    }
}
