//! What calls may do: rules, modes, plans, and a second opinion.

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

fn under(operator: OperatorPolicy) -> Setup {
    Setup { permissions: Some(operator), ..Setup::default() }
}

/// A service whose operator wants to be asked about everything that changes something.
fn careful() -> OperatorPolicy {
    OperatorPolicy { default_mode: PermissionMode::Default, ..OperatorPolicy::default() }
}

fn writes(path: &str) -> Value {
    calls("write_file", json!({ "path": path, "content": "x" }))
}

fn plans() -> Value {
    json!({ "content": [{
        "type": "tool_use", "id": "toolu_plan", "name": "ExitPlanMode",
        "input": { "plan": "1. Write a." },
    }] })
}

fn exists(app: &TestApp, name: &str) -> bool {
    app.folder.path().join(name).exists()
}

async fn permissions(session: &Session<'_>) -> Vec<Value> {
    let asked = |mut event: Value| {
        (event["type"] == "agent.tool_use").then(|| event["evaluated_permission"].take())
    };
    session.events().await.into_iter().filter_map(asked).collect()
}

async fn mode(session: &Session<'_>) -> Value {
    session.read().await["permission_mode"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rule_that_matches_decides_and_its_reason_reaches_the_model() {
    let script = replies(&[writes("docs/a"), writes("docs/secret"), says("{{result.0}}")]);
    let app = TestApp::start_with(script, under(careful())).await;
    let rules = json!([
        { "tool": "write_file", "input": { "path": "docs/secret" }, "decision": "deny",
          "reason": "Nobody writes there." },
        { "tool": "write_*", "input": { "path": "docs/**" }, "decision": "allow" },
        { "tool": "*", "decision": "deny" },
    ]);
    let session = app.session_with(json!({ "permissions": rules })).await;
    let run = session.ask("Write").await;
    assert_eq!(run["output_text"], "Error: Nobody writes there.");
    assert_eq!(permissions(&session).await, ["allow", "deny"]);
    assert_eq!((exists(&app, "docs/a"), exists(&app, "docs/secret")), (true, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_no_rule_speaks_of_waits_for_somebody() {
    let app = TestApp::start_with(replies(&[writes("a"), says("Done.")]), under(careful())).await;
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
async fn a_session_cannot_allow_what_the_operator_denies() {
    let rule = json!({ "tool": "write_file", "decision": "deny", "reason": "Read only." });
    let rules = vec![serde_json::from_value(rule).unwrap()];
    let operator = OperatorPolicy { rules, allows_bypass: true, ..OperatorPolicy::default() };
    let script = replies(&[writes("a"), says("{{result.0}}")]);
    let app = TestApp::start_with(script, under(operator)).await;
    let allow = json!([{ "tool": "*", "decision": "allow" }]);
    let body = json!({ "permission_mode": "bypass", "permissions": allow });
    let session = app.session_with(body).await;
    assert_eq!(session.ask("Write").await["output_text"], "Error: Read only.");
    assert!(!exists(&app, "a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_the_operator_has_taken_back_is_neither_shown_nor_in_force() {
    let script = replies(&[writes("a"), says("Done.")]);
    let operator = OperatorPolicy { allows_bypass: true, ..careful() };
    let app = TestApp::start_with(script.clone(), under(operator)).await;
    let session = app.session_with(json!({ "permission_mode": "bypass" })).await;
    assert_eq!(mode(&session).await, "bypass");
    let id = session.id.clone();
    let app = app.restarted_with(script, under(careful())).await;
    let session = app.existing_session(&id);
    assert_eq!(mode(&session).await, "default");
    let run = session.ask("Write").await;
    assert_eq!((&run["status"], exists(&app, "a")), (&json!("requires_action"), false));
    session.cancel(&run).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_plan_ends_plan_mode() {
    let script = replies(&[writes("a"), plans(), writes("b"), says("Done.")]);
    let app = TestApp::start_with(script, under(OperatorPolicy::default())).await;
    let session = app.session_with(json!({ "permission_mode": "plan" })).await;
    let run = session.ask("Plan it").await;
    assert_eq!((&run["status"], mode(&session).await), (&json!("requires_action"), json!("plan")));
    let refused = &session.history().await[2]["message"]["content"][0]["content"];
    let expected = "Error: Plan mode is on: write_file changes things, and nothing may change \
        before a plan is approved. Look around with tools that only read, then call ExitPlanMode \
        with your plan.";
    assert_eq!(refused, expected);
    assert_eq!(session.approvals().await[0]["input"], json!({ "plan": "1. Write a." }));

    session.allow("toolu_plan", json!({})).await;
    assert_eq!(session.settled(&run).await["output_text"], "Done.");
    let answered = &session.history().await[4]["message"]["content"][0]["content"];
    let approved = "User has approved your plan. You can now start coding. Start with updating \
        your todo list if applicable";
    assert_eq!(answered, approved);
    assert_eq!(mode(&session).await, "accept_edits");
    assert_eq!((exists(&app, "a"), exists(&app, "b")), (false, true));
    let events = session.events().await;
    let updated = events.iter().find(|event| event["type"] == "session.updated").unwrap();
    assert_eq!(updated["permission_mode"], "accept_edits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_does_not_bring_back_the_mode_that_its_message_began_in() {
    let script = replies(&[plans(), hangs_once(writes("b")), says("Done.")]);
    let app = TestApp::start_with(script, under(OperatorPolicy::default())).await;
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
async fn a_rejected_plan_is_told_why_and_plan_mode_goes_on() {
    let script = replies(&[plans(), says("{{result.0}}")]);
    let app = TestApp::start_with(script, under(OperatorPolicy::default())).await;
    let session = app.session_with(json!({ "permission_mode": "plan" })).await;
    let run = session.ask("Plan it").await;
    session.deny("toolu_plan", "Step one is wrong.").await;
    let told = session.settled(&run).await["output_text"].take();
    let expected = "<tool_use_error>This call was denied, and did not run. Step one is \
        wrong.</tool_use_error>";
    assert_eq!((told, mode(&session).await), (json!(expected), json!("plan")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_outside_of_plan_mode_needs_no_approval() {
    let script = replies(&[plans(), says("{{result.0}}")]);
    let app = TestApp::start_with(script, under(careful())).await;
    let session = app.session().await;
    let told = session.ask("Plan it").await["output_text"].take();
    let expected = "Plan mode is not on: there is nothing to approve. Go on with the work.";
    assert_eq!((told, mode(&session).await), (json!(expected), json!("default")));
}

/// A service that judges calls: those that write `yes` may, those that write `no` may not.
async fn judge() -> (String, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let judged = |Json(question): Json<Value>| async move {
        Json(match question["input"]["path"].as_str().unwrap() {
            "yes" => json!({ "decision": "allow" }),
            "no" => json!({ "decision": "deny", "reason": "Too risky." }),
            _ => json!({ "decision": "ask" }),
        })
    };
    let router = Router::new().route("/", post(judged));
    (url, TaskTracker::new().spawn(axum::serve(listener, router).into_future()))
}

fn judged_by(url: &str, evaluation_timeout: Duration) -> Setup {
    let evaluator = Some(EvaluatorSource::Http { url: url.parse().unwrap(), key: None });
    under(OperatorPolicy { evaluator, evaluation_timeout, ..careful() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_opinion_decides_before_people_are_asked() {
    let (url, server) = judge().await;
    let script = replies(&[writes("yes"), writes("no"), writes("other"), says("Done.")]);
    let app = TestApp::start_with(script, judged_by(&url, Duration::from_secs(20))).await;
    let session = app.session().await;
    let run = session.ask("Write").await;
    assert_eq!(run["status"], "requires_action");
    let pending = run["pending"].as_array().unwrap();
    let inputs: Vec<&Value> = pending.iter().map(|call| &call["input"]["path"]).collect();
    assert_eq!(inputs, ["other"]);
    let refused = &session.history().await[4]["message"]["content"][0]["content"];
    assert_eq!(refused, "Error: Too risky.");
    assert_eq!((exists(&app, "yes"), exists(&app, "no")), (true, false));
    session.cancel(&run).await;
    session.settled(&run).await;
    drop(app);
    server.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opinion_that_does_not_come_fails_the_call_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let script = json!({ "conversations": [
        { "when": "write", "replies": [writes("a"), says("{{result.0}}")] },
        { "replies": [says("Hi.")] },
    ] });
    let app = TestApp::start_with(script, judged_by(&url, Duration::from_secs(5))).await;
    let (session, other) = (app.session().await, app.session().await);
    let run = session.post(json!({ "content": "Write" })).await;
    let _asked = listener.accept().await.unwrap();
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
async fn a_tool_that_the_session_does_not_have_is_unknown() {
    let script = replies(&[writes("a.txt"), says("Done.")]);
    for tools in [json!(["read_file"]), json!([])] {
        let app = TestApp::start(script.clone()).await;
        let session = app.session_with(json!({ "tools": tools })).await;
        session.ask("Write it").await;
        let told = &session.history().await[2]["message"]["content"][0]["content"];
        assert_eq!(told, r#"{"error":"Unknown tool: 'write_file'"}"#, "{tools}");
        assert!(!exists(&app, "a.txt"), "{tools}");
        // The simulator refuses a history with calls and no tools, which no model would have made.
        if tools == json!([]) {
            app.stop_unchecked().await;
        }
    }
}
