//! Import of sessions from an export.

use reqwest::Response;
use serde_json::{Value, json};
use twostep::tools::policy::OperatorPolicy;

use crate::support::media::pixel;
use crate::support::{Session, Setup, TestApp, calls_as, problem, says};

async fn export(session: &Session<'_>) -> Vec<String> {
    let response = session.app.get(&session.path("/export")).send().await.unwrap();
    response.text().await.unwrap().lines().map(str::to_owned).collect()
}

async fn import(app: &TestApp, lines: &[String]) -> Response {
    let request = app.post("/v1/sessions/import").header("content-type", "application/jsonl");
    request.body(lines.join("\n") + "\n").send().await.unwrap()
}

async fn imported<'a>(app: &'a TestApp, lines: &[String]) -> Session<'a> {
    let response = import(app, lines).await;
    assert_eq!(response.status(), 201);
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let session: Value = response.json().await.unwrap();
    assert_eq!(location, format!("/v1/sessions/{}", session["id"].as_str().unwrap()));
    app.existing_session(session["id"].as_str().unwrap())
}

/// An export without ids and times, with runs numbered in order of appearance.
fn without_ids(lines: &[String]) -> Vec<Value> {
    let mut runs: Vec<Value> = Vec::new();
    let mut anonymous = |line: &String| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let members = line.as_object_mut().unwrap();
        members.remove("session_id");
        members.remove("created_at");
        if let Some(run) = members.get_mut("run_id") {
            if !runs.contains(run) {
                runs.push(run.clone());
            }
            *run = json!(runs.iter().position(|known| known == run));
        }
        line
    };
    lines.iter().map(&mut anonymous).collect()
}

/// Starts a service whose model thinks, calls two tools, one of which fails, and answers.
async fn start(setup: Setup) -> TestApp {
    let calls = calls_as(&[
        ("toolu_1", "get_time", json!({})),
        ("toolu_2", "read_file", json!({ "path": "none.txt" })),
    ]);
    let mut blocks = vec![json!({ "type": "thinking", "thinking": "Hm." })];
    blocks.extend(calls["content"].as_array().unwrap().clone());
    let script = json!({ "conversations": [
        { "when": "again", "replies": [says("Again.")] },
        { "replies": [{ "content": blocks }, says("It is late.")] },
    ], "otherwise": "refuse" });
    TestApp::start_with(script, setup).await
}

async fn session_with_two_runs(app: &TestApp) -> Session<'_> {
    let tool = json!({ "name": "locate", "client": true, "input_schema": { "type": "object" } });
    let body = json!({ "title": "Time", "metadata": { "a": 1.50 },
                       "tools": ["get_time", "read_file", tool], "limits": { "rounds": 5 },
                       "thinking": { "type": "adaptive" } });
    let session = app.session_with(body).await;
    session.ask("How late is it?").await;
    session
        .ask_with(json!({ "content": [{ "type": "text", "text": "And again?" }, pixel()] }))
        .await;
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_session_equals_the_exported_one() {
    let app = start(Setup::default()).await;
    let session = session_with_two_runs(&app).await;
    let lines = export(&session).await;
    let copy = imported(&app, &lines).await;
    assert_eq!(without_ids(&export(&copy).await), without_ids(&lines));

    // The import has no usage, and its runs are marked as imported.
    let read: Value = app.get(&copy.path("")).send().await.unwrap().json().await.unwrap();
    let no_usage = json!({ "input_tokens": 0, "cache_creation_input_tokens": 0,
                          "cache_read_input_tokens": 0, "output_tokens": 0 });
    assert_eq!((&read["usage"], &read["status"]), (&no_usage, &json!("idle")));
    assert_eq!(read["stop_reason"], json!({ "type": "end_turn" }));
    let runs: Value = app.get(&copy.path("/runs")).send().await.unwrap().json().await.unwrap();
    let texts = ["It is late.", "Again."];
    assert_eq!(runs["data"].as_array().unwrap().len(), texts.len());
    for (run, text) in runs["data"].as_array().unwrap().iter().zip(texts) {
        assert_eq!((&run["status"], &run["imported"]), (&json!("completed"), &json!(true)));
        assert_eq!((&run["output_text"], &run["usage"]), (&json!(text), &no_usage));
    }

    // The model accepts the history of both sessions.
    assert_eq!(copy.ask("Once again?").await["output_text"], "Again.");
    assert_eq!(session.ask("Once again?").await["output_text"], "Again.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_messages_can_be_imported() {
    let app = start(Setup::default()).await;
    let lines = export(&app.session().await).await;
    let copy = imported(&app, &lines).await;
    assert_eq!(without_ids(&export(&copy).await), without_ids(&lines));
}

/// The lines with a changed value in one of them.
fn changed(lines: &[String], number: usize, pointer: &str, value: Value) -> Vec<String> {
    let mut line: Value = serde_json::from_str(&lines[number - 1]).unwrap();
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    if let Some(Value::Array(items)) = line.pointer_mut(parent) {
        items[member.parse::<usize>().unwrap()] = value;
    } else {
        line.pointer_mut(parent).unwrap()[member] = value;
    }
    replaced(lines, number, &line.to_string())
}

fn replaced(lines: &[String], number: usize, text: &str) -> Vec<String> {
    let mut lines = lines.to_vec();
    text.clone_into(&mut lines[number - 1]);
    lines
}

fn without(lines: &[String], number: usize) -> Vec<String> {
    let mut lines = lines.to_vec();
    lines.remove(number - 1);
    lines
}

/// Exports with an invalid structure or invalid settings, each with the pointer of its error.
///
/// The lines of the valid export: 1 session, 2 user, 3 assistant, 4 tools, 5 assistant, 6 user,
/// 7 assistant, 8 end.
fn invalid_files(lines: &[String]) -> Vec<(Vec<String>, &'static str)> {
    let changed = |number, pointer, value| changed(lines, number, pointer, value);
    vec![
        (Vec::new(), "/lines/1"),
        (vec![lines[0].clone()], "/lines/1"),
        (without(lines, 1), "/lines/1/seq"),
        (without(lines, 8), "/lines/7"),
        (without(lines, 5), "/lines/7/messages"),
        (replaced(lines, 3, "{"), "/lines/3"),
        (replaced(lines, 3, "[]"), "/lines/3"),
        (changed(1, "/version", json!(2)), "/lines/1/version"),
        (changed(1, "/settings/colour", json!("red")), "/lines/1/settings/colour"),
        (changed(1, "/settings/tools/0", json!("fly")), "/lines/1/settings/tools"),
        (changed(1, "/settings/workspace", json!("/etc")), "/lines/1/settings/workspace"),
        (changed(1, "/settings/max_tokens", json!(0)), "/lines/1/settings/max_tokens"),
    ]
}

/// The reply of line 5, as line 4.
fn reply_in_place_of_results(lines: &[String]) -> String {
    changed(lines, 5, "/seq", json!(3))[4].clone()
}

/// Exports with an invalid message, each with the pointer of its error.
fn invalid_messages(lines: &[String]) -> Vec<(Vec<String>, &'static str)> {
    let changed = |number, pointer, value| changed(lines, number, pointer, value);
    let text = |text: &str| json!({ "type": "text", "text": text });
    let result = |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": "x" });
    let thinking = json!({ "type": "thinking", "thinking": "Hm." });
    let redacted = json!({ "type": "redacted_thinking", "data": "x" });
    let marked = json!({ "type": "text", "text": "x", "cache_control": { "type": "ephemeral" } });
    let paused = changed(3, "/message/stop_reason", json!("pause_turn"));
    vec![
        (changed(2, "/seq", json!(2)), "/lines/2/seq"),
        (changed(2, "/colour", json!("red")), "/lines/2/colour"),
        (changed(2, "/message/role", json!("assistant")), "/lines/2/message/role"),
        (changed(2, "/message/id", json!("a b")), "/lines/2/message/id"),
        (changed(2, "/message/content", json!([])), "/lines/2/message/content"),
        (changed(2, "/message/content/0", text(" ")), "/lines/2/message/content/0/text"),
        (changed(2, "/message/content/0", result("a")), "/lines/2/message/content/0/tool_use_id"),
        (changed(3, "/run_id", json!("other")), "/lines/3/run_id"),
        (
            changed(3, "/message/content/0", json!({ "type": "image" })),
            "/lines/3/message/content/0",
        ),
        (changed(3, "/message/content/0", thinking), "/lines/3/message/content/0"),
        (changed(3, "/message/stop_reason", json!("")), "/lines/3/message/stop_reason"),
        (changed(3, "/message/interrupted", json!("a\0")), "/lines/3/message/interrupted"),
        (changed(3, "/message/interrupted", json!(true)), "/lines/3/message/interrupted"),
        (changed(3, "/message/interrupted", json!(false)), "/lines/3/message/interrupted"),
        (changed(2, "/message/interrupted", json!(true)), "/lines/2/message/interrupted"),
        (changed(5, "/message/stop_reason", json!("interrupted")), "/lines/5/message/interrupted"),
        (replaced(&paused, 4, &reply_in_place_of_results(lines)), "/lines/4/message/content"),
        (changed(3, "/message/content/2/id", json!("toolu_1")), "/lines/3/message/content/2/id"),
        (changed(4, "/message/content", json!([result("toolu_1")])), "/lines/4/message/content"),
        (
            changed(4, "/message/content/0", result("toolu_2")),
            "/lines/4/message/content/0/tool_use_id",
        ),
        (changed(4, "/message/content/1", text("x")), "/lines/4/message/content/1"),
        (changed(5, "/message/content", json!([])), "/lines/5/message/content"),
        (changed(5, "/message/content", json!([redacted])), "/lines/5/message/content"),
        (changed(5, "/message/content/0", marked), "/lines/5/message/content/0"),
        (changed(6, "/run_id", json!("other")), "/lines/7/run_id"),
        (changed(7, "/message/content/0", text("")), "/lines/7/message/content/0"),
        (changed(8, "/messages", json!(7)), "/lines/8/messages"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_export_is_refused_with_a_pointer_and_creates_nothing() {
    let app = start(Setup::default()).await;
    let session = session_with_two_runs(&app).await;
    let lines = export(&session).await;
    assert_eq!(lines.len(), 8);
    let mut invalid = invalid_files(&lines);
    invalid.extend(invalid_messages(&lines));
    for (lines, pointer) in invalid {
        let refused = problem(import(&app, &lines).await, 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{lines:#?}");
    }
    let all: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    assert_eq!(all["data"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_with_open_calls_is_refused() {
    let app = start(Setup::default()).await;
    let mut lines = export(&session_with_two_runs(&app).await).await;
    lines.drain(3..7);
    lines[3] = json!({ "type": "end", "messages": 2 }).to_string();
    let refused = problem(import(&app, &lines).await, 422, "validation_failed").await;
    let expected = json!([{ "pointer": "/lines/3/message/content",
                            "message": "leaves the call toolu_1 unanswered" }]);
    assert_eq!(refused["errors"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_is_refused_if_a_new_session_with_its_settings_would_be() {
    let app = start(Setup::default()).await;
    let session = app.session_with(json!({ "permission_mode": "bypass" })).await;
    let lines = export(&session).await;
    let setup = Setup { permissions: Some(OperatorPolicy::default()), ..Setup::default() };
    let other = app.second_service(setup).await;
    let request = other.post("/v1/sessions/import").header("content-type", "application/jsonl");
    let response = request.body(lines.join("\n")).send().await.unwrap();
    let refused = problem(response, 422, "validation_failed").await;
    assert_eq!(refused["errors"][0]["pointer"], "/lines/1/settings/permission_mode");
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_of_another_media_type_is_refused() {
    let app = start(Setup::default()).await;
    for kind in ["application/json", "text/plain"] {
        let request = app.post("/v1/sessions/import").header("content-type", kind);
        problem(request.body("{}").send().await.unwrap(), 415, "unsupported_media_type").await;
    }
}
