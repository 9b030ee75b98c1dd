//! Compaction of a history that nears the model's window: its tokens are counted, its beginning is
//! summarized before a run and replaced by the summary in requests. The stored history is complete.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::media::pixel;
use crate::support::{Session, Setup, TestApp, assert_refused, calls, invalid, replies, says};

/// A text of about 1,000 tokens in the simulator's count.
fn long(word: &str) -> String {
    format!("{word}. {}", "x".repeat(4000))
}

const SUMMARY: &str = "They spoke of one, two and \"three\".";

/// A script that answers `Yes.` to every message and gives this reply to requests for a summary.
fn script(compaction: &Value) -> Value {
    json!({ "conversations": [{ "replies": [says("Yes.")] }], "compaction": [compaction, compaction] })
}

fn summary() -> Value {
    json!({ "content": [{ "type": "compaction", "content": SUMMARY }] })
}

fn summarizes() -> Value {
    script(&summary())
}

async fn compactions(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let compacted = events.iter().filter(|event| event["type"] == "agent.context_compacted");
    compacted
        .map(|event| json!([event["up_to"], event["tokens_before"], event["tokens_after"]]))
        .collect()
}

/// The path and the number of messages of each request to the model.
fn model_requests(app: &TestApp) -> Vec<(String, usize)> {
    let upstream = app.upstream();
    (0..upstream.len())
        .map(|index| {
            let body = upstream.body(index);
            let purpose = if body.get("compaction").is_some() { " for a summary" } else { "" };
            let path = upstream.requests[index].path.clone() + purpose;
            (path, body["messages"].as_array().map_or(0, Vec::len))
        })
        .collect()
}

const MESSAGES: &str = "/v1/messages";
const SUMMARIZED: &str = "/v1/messages for a summary";
const COUNTED: &str = "/v1/messages/count_tokens";

fn expected(steps: &[(&str, usize)]) -> Vec<(String, usize)> {
    steps.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_nears_the_window_is_sent_as_a_summary_and_the_last_messages() {
    let app = TestApp::start(summarizes()).await;
    let context = json!({ "compact_at": 3000, "compact_instructions": "Keep all numbers." });
    let session = app
        .session_with(json!({ "tools": [], "context": context, "stop_sequences": ["END"] }))
        .await;
    assert_eq!(session.read().await["context"], context);
    for word in ["One", "Two", "Three"] {
        session.ask(&long(word)).await;
    }
    let before = session.history().await;
    // The first message is short enough without a count: a token has at least one byte.
    let first = [(MESSAGES, 1), (COUNTED, 3), (MESSAGES, 3)];
    let third = [(COUNTED, 5), (SUMMARIZED, 4), (COUNTED, 2), (MESSAGES, 2)];
    assert_eq!(model_requests(&app), expected(&[&first[..], &third[..]].concat()));

    let upstream = app.upstream();
    let summary = upstream.body(4);
    assert_eq!(
        summary["compaction"],
        json!({ "type": "summarize", "instructions": "Keep all numbers." })
    );
    assert_eq!(summary.get("stop_sequences"), None);
    assert_eq!(upstream.requests[4].headers["anthropic-beta"], "compact-2026-09-04");
    let sent = upstream.body(6);
    assert_eq!(sent["messages"][0]["role"], "assistant");
    let block = &sent["messages"][0]["content"][0];
    assert_eq!((&block["type"], &block["content"]), (&json!("compaction"), &json!(SUMMARY)));
    assert_eq!(upstream.requests[6].headers["anthropic-beta"], "compact-2026-09-04");

    let compacted = compactions(&session).await;
    let [compaction] = compacted.as_slice() else { panic!("{compacted:?}") };
    let [up_to, tokens_before, tokens_after] = [0, 1, 2].map(|at| compaction[at].as_i64().unwrap());
    assert_eq!(up_to, 4);
    assert!(tokens_before > 3000 && tokens_after > 1000 && tokens_after < 2000, "{compaction}");

    // The stored history is complete, and new messages are appended to it.
    session.ask("Four").await;
    let now = session.history().await;
    assert_eq!(now[..before.len()], before);
    assert_eq!(now.len(), 8);
    let upstream = app.upstream();
    let last = upstream.len() - 1;
    assert_eq!(upstream.body(last)["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usage_of_a_summary_is_counted_and_its_request_is_shown() {
    let app = TestApp::start(summarizes()).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 2000 } })).await;
    session.ask(&long("One")).await;
    let run = session.ask(&long("Two")).await;
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    let requests: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    let requests = requests["data"].as_array().unwrap();
    let stops: Vec<&Value> = requests.iter().map(|request| &request["stop_reason"]).collect();
    assert_eq!(stops, [&json!("compaction"), &json!("end_turn")]);
    let used = |index: usize| requests[index]["usage"]["input_tokens"].as_i64().unwrap();
    assert!(used(0) + requests[0]["usage"]["cache_creation_input_tokens"].as_i64().unwrap() > 1000);
    assert!(used(1) > 0);
    for n in [1, 2] {
        let request: Value =
            app.get(&format!("{path}/{n}")).send().await.unwrap().json().await.unwrap();
        assert_eq!(request["body"].get("compaction").is_some(), n == 1);
        assert!(request["body"]["messages"].is_array(), "{request}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_continues_from_the_summary() {
    let app = TestApp::start(summarizes()).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 3000 } })).await;
    for word in ["One", "Two", "Three"] {
        session.ask(&long(word)).await;
    }
    let id = session.id.clone();
    let app = app.restarted(summarizes()).await;
    let session = app.existing_session(&id);
    session.ask("Four").await;
    let upstream = app.upstream();
    let messages = upstream.body(upstream.len() - 1)["messages"].clone();
    assert_eq!(messages[0]["content"][0]["content"], SUMMARY);
    assert_eq!(messages.as_array().unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_is_summarized_again_with_later_messages() {
    let app = TestApp::start(summarizes()).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 3000 } })).await;
    for word in ["One", "Two", "Three", "Four", "Five", "Six"] {
        session.ask(&long(word)).await;
    }
    let compacted = compactions(&session).await;
    let up_to: Vec<i64> =
        compacted.iter().map(|compaction| compaction[0].as_i64().unwrap()).collect();
    assert_eq!(up_to, [4, 8], "{compacted:?}");
    let summaries: Vec<usize> = model_requests(&app)
        .into_iter()
        .filter(|(path, _)| path == SUMMARIZED)
        .map(|(_, count)| count)
        .collect();
    assert_eq!(summaries, [4, 5], "the second one has the first summary and two turns");
}

/// The system prompt alone is too long: no summary can change that.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_does_not_help_is_not_made_at_every_run() {
    let app = TestApp::start(summarizes()).await;
    let system = "x".repeat(12_000);
    let settings = json!({ "tools": [], "system": system, "context": { "compact_at": 2000 } });
    let session = app.session_with(settings).await;
    for word in ["One", "Two", "Three", "Four", "Five"] {
        session.ask(&format!("{word} {}", "y".repeat(600))).await;
    }
    assert_eq!(compactions(&session).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_with_its_whole_history_when_the_summary_fails() {
    let error = |status: u16, kind: &str| json!({ "status": status, "error": { "type": kind, "message": "No." } });
    for compaction in [
        error(400, "invalid_request_error"),
        json!({ "stop_reason": "refusal" }),
        json!({ "stop_reason": "max_tokens" }),
    ] {
        let app = TestApp::start(script(&compaction)).await;
        let session =
            app.session_with(json!({ "tools": [], "context": { "compact_at": 2000 } })).await;
        session.ask(&long("One")).await;
        let run = session.ask(&long("Two")).await;
        assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Yes.")));
        assert_eq!(compactions(&session).await, [] as [Value; 0]);
        // A summary is requested again when the history has doubled, not when it has hardly grown.
        session.ask("And now?").await;
        session.ask(&long("Three")).await;
        let mut steps: Vec<String> =
            model_requests(&app).into_iter().map(|(path, _)| path).collect();
        steps.retain(|path| path != COUNTED);
        // A refused summary is requested again for a shorter history.
        steps.dedup_by(|next, before| next == SUMMARIZED && before == SUMMARIZED);
        let expected = [MESSAGES, SUMMARIZED, MESSAGES, SUMMARIZED, MESSAGES, MESSAGES];
        assert_eq!(steps, expected, "{compaction}");
    }
}

/// The result of a call does not fit next to the messages of earlier runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_request_is_too_long_goes_on_with_a_summary_of_earlier_runs() {
    let script = json!({ "conversations": [
        { "when": "Two", "replies": [calls("read_file", json!({ "path": "notes.txt" })), says("Done.")] },
        { "replies": [says("Yes.")] },
    ], "compaction": [summary()] });
    let setup = Setup { window: Some(5500), ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let settings = json!({ "tools": ["read_file"], "context": { "compact_at": 4500 } });
    let session = app.session_with(settings).await;
    app.write_file("notes.txt", &"It is unknown where it was.\n".repeat(300));
    session.ask(&long("One").repeat(2)).await;
    let run = session.ask(&long("Two")).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Done.")));
    let compacted = compactions(&session).await;
    assert_eq!((compacted.len(), &compacted[0][0]), (1, &json!(2)), "all before the run");
    let last = app.upstream().len() - 1;
    assert_eq!(app.upstream().roles(last), ["assistant", "user", "assistant", "user"]);
    end_too_long(app, 1);
}

/// A script for one run with three rounds of calls. A request that begins with a summary is answered.
fn reads_for_long(last: &Value) -> Value {
    let reads = || calls("read_file", json!({ "path": "notes.txt" }));
    json!({ "conversations": [
        { "when": "Read", "replies": [reads(), reads(), last] },
        { "replies": [says("Unused."), says("Done.")] },
    ], "compaction": [summary()] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fills_the_window_itself_goes_on_with_a_summary_up_to_its_last_round() {
    let script = reads_for_long(&calls("read_file", json!({ "path": "notes.txt" })));
    let setup = Setup { window: Some(5500), ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let settings = json!({ "tools": ["read_file"], "context": { "compact_at": 4500 } });
    let session = app.session_with(settings).await;
    app.write_file("notes.txt", &"It is unknown where it was.\n".repeat(300));
    let run = session.ask("Read it all").await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Done.")));
    let compacted = compactions(&session).await;
    assert_eq!((compacted.len(), &compacted[0][0]), (1, &json!(5)), "all but the last round");
    let last = app.upstream().len() - 1;
    assert_eq!(app.upstream().roles(last), ["assistant", "assistant", "user"]);
    assert_eq!(session.history().await.len(), 8, "the stored history is complete");
    end_too_long(app, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_reply_fills_the_window_goes_on_with_a_summary() {
    let cut = json!({ "content": [{ "type": "text", "text": "I was" }],
                      "stop_reason": "model_context_window_exceeded" });
    let app = TestApp::start(reads_for_long(&cut)).await;
    let settings = json!({ "tools": ["read_file"], "context": { "compact_at": 4500 } });
    let session = app.session_with(settings).await;
    app.write_file("notes.txt", "It is unknown where it was.");
    let run = session.ask("Read it all").await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Done.")));
    assert_eq!(compactions(&session).await[0][0], 3);
    assert_eq!(run["model_requests"], 5, "the truncated reply and the summary count");
    app.end_refused(&[]);
}

/// Ends a test in which this number of requests was too long.
fn end_too_long(app: TestApp, number: usize) {
    let refusals = app.simulator.refusals();
    assert_eq!(refusals.len(), number, "{refusals:?}");
    let is_too_long = |refusal: &String| refusal.starts_with("prompt is too long");
    assert!(refusals.iter().all(is_too_long), "{refusals:?}");
    let refusals: Vec<&str> = refusals.iter().map(String::as_str).collect();
    app.end_refused(&refusals);
}

/// The window has less space left than the history must grow before the next summary is due.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_exceeds_the_window_is_shortened() {
    let setup = Setup { window: Some(4400), ..Setup::default() };
    let app = TestApp::start_with(summarizes(), setup).await;
    let settings =
        json!({ "tools": [], "system": "x".repeat(14_000), "context": { "compact_at": 4000 } });
    let session = app.session_with(settings).await;
    let text = |word: &str| format!("{word}. {}", "x".repeat(1300));
    for word in ["One", "Two", "Three", "Four", "Five", "Six"] {
        let run = session.ask(&text(word)).await;
        assert_eq!(run["output_text"], "Yes.", "{word}: {run}");
    }
    assert!(compactions(&session).await.len() > 1);
    let refusals = app.simulator.refusals();
    assert!(!refusals.is_empty(), "no request exceeded the window");
    assert!(
        refusals.iter().all(|refusal| refusal.starts_with("prompt is too long")),
        "{refusals:?}"
    );
    let refusals: Vec<&str> = refusals.iter().map(String::as_str).collect();
    app.end_refused(&refusals);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_can_be_cancelled_during_compaction_and_the_next_run_compacts() {
    let slow =
        json!({ "content": [{ "type": "compaction", "content": SUMMARY }], "delay_ms": 600_000 });
    let app = TestApp::start(script(&slow)).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 2000 } })).await;
    session.ask(&long("One")).await;
    let run = session.post(json!({ "content": long("Two") })).await;
    let deadline = Instant::now() + Duration::from_mins(1);
    while model_requests(&app).last().is_none_or(|(path, _)| path != SUMMARIZED) {
        assert!(Instant::now() < deadline, "no summary was requested");
        sleep(Duration::from_millis(10)).await;
    }
    session.cancel(&run).await;
    assert_eq!(session.settled(&run).await["status"], "cancelled");
    let id = session.id.clone();
    let app = app.restarted(summarizes()).await;
    let session = app.existing_session(&id);
    session.ask(&long("Three")).await;
    assert_eq!(compactions(&session).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_and_the_tokens_of_a_summary_do_not_count_against_the_limits_of_the_run() {
    let mut slow = summary();
    slow["delay_ms"] = json!(4500);
    let app = TestApp::start(script(&slow)).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 2000 } })).await;
    session.ask(&long("One")).await;
    let limits = json!({ "seconds": 4, "tokens": 3000 });
    let run = session.ask_with(json!({ "content": long("Two"), "limits": limits })).await;
    assert_eq!((&run["output_text"], &run["limited"]), (&json!("Yes."), &json!(false)));
    assert_eq!(compactions(&session).await.len(), 1);
}

/// The summary does not cover the last server tool call, which has no result.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_turn_is_summarized_without_its_open_call() {
    let search =
        json!({ "type": "server_tool_use", "name": "web_search", "input": { "query": "x" } });
    let pause = json!({ "content": [{ "type": "text", "text": "Let me see." }, search],
                        "stop_reason": "pause_turn", "repeat": 20 });
    let script = json!({ "conversations": [
        { "when": "Search", "replies": [pause] }, { "replies": [says("Yes.")] },
    ], "compaction": [summary()] });
    let server_tools = vec!["web_search".parse().unwrap()];
    let model_rules = twostep::service::ModelRules { server_tools, ..Default::default() };
    let app = TestApp::start_with(script, Setup { model_rules, ..Setup::default() }).await;
    let session = app
        .session_with(json!({ "tools": ["web_search"], "context": { "compact_at": 2000 } }))
        .await;
    let run = session.ask(&format!("Search. {}", long("One"))).await;
    assert_eq!(run["stop_reason"]["type"], "unknown");
    session.ask(&long("Two")).await;
    assert_eq!(compactions(&session).await.len(), 1, "{:?}", model_requests(&app));
    assert_eq!(app.simulator.refusals(), Vec::<String>::new());
    app.end_repaired(&[("open_server_call", 10)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_the_budget_does_not_allow_is_not_requested() {
    let app = TestApp::start(summarizes()).await;
    let session = app
        .session_with(json!({ "tools": [], "max_tokens": 100, "context": { "compact_at": 2000 },
                              "budget": { "tokens": 12_000 } }))
        .await;
    session.ask(&long("One")).await;
    let run = session.ask(&long("Two")).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Yes.")));
    assert_eq!(model_requests(&app), expected(&[(MESSAGES, 1), (COUNTED, 3), (MESSAGES, 3)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn summarized_messages_do_not_count_against_the_content_limits() {
    let app = TestApp::start(summarizes()).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 2000 } })).await;
    let images = json!({ "content": vec![pixel(); 60] });
    session.ask_with(images.clone()).await;
    let refused = session.message(&images);
    assert_refused(&session, refused, invalid("/content")).await;
    session.ask(&long("One").repeat(2)).await;
    assert!(!compactions(&session).await.is_empty());
    session.ask_with(images).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_never_split() {
    let script = json!({ "conversations": [
        { "when": "Two", "replies": [calls("get_time", json!({})), says("Done.")] },
        { "replies": [says("Yes.")] },
    ], "compaction": [summary()] });
    let app = TestApp::start(script).await;
    let session =
        app.session_with(json!({ "tools": ["get_time"], "context": { "compact_at": 3000 } })).await;
    session.ask(&long("One")).await;
    session.ask(&format!("Two {}", "y".repeat(7000))).await;
    let steps: Vec<String> = model_requests(&app).into_iter().map(|(path, _)| path).collect();
    let compactions = steps.iter().filter(|path| *path == SUMMARIZED).count();
    assert!(compactions <= 1, "{steps:?}");
    assert_eq!(steps.last().map(String::as_str), Some(MESSAGES));
    let last = app.upstream().len() - 1;
    let kinds: Vec<Value> = app.upstream().body(last)["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"][0]["type"].clone())
        .collect();
    assert!(
        kinds.ends_with(&[json!("text"), json!("tool_use"), json!("tool_result")]),
        "{kinds:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_context_settings_are_refused_with_a_pointer() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    let edit = |edit: Value| json!({ "edits": [edit] });
    let trigger = |value: i64| {
        json!({ "type": "compact_20260112",
        "trigger": { "type": "input_tokens", "value": value } })
    };
    for (context, pointer) in [
        (json!(1), "/context"),
        (json!({ "compact": 1 }), "/context/compact"),
        (json!({ "compact_at": -1 }), "/context/compact_at"),
        (json!({ "compact_at": 999 }), "/context/compact_at"),
        (
            json!({ "compact_at": 5000, "edits": [{ "type": "compact_20260112" }] }),
            "/context/compact_at",
        ),
        (json!({ "compact_instructions": " " }), "/context/compact_instructions"),
        (json!({ "edits": {} }), "/context/edits"),
        (edit(json!({ "type": "clear_everything" })), "/context/edits/0/type"),
        (edit(json!({ "type": "clear_tool_uses_20250919", "unknown": 1 })), "/context/edits/0"),
        (
            edit(json!({ "type": "clear_tool_uses_20250919",
                      "keep": { "type": "turns", "value": 1 } })),
            "/context/edits/0/keep",
        ),
        (
            edit(json!({ "type": "clear_thinking_20251015",
                      "keep": { "type": "thinking_turns", "value": 0 } })),
            "/context/edits/0/keep",
        ),
        (edit(trigger(49_999)), "/context/edits/0/trigger"),
        (
            json!({ "edits": [{ "type": "compact_20260112" }, { "type": "compact_20260112" }] }),
            "/context/edits/1",
        ),
        (
            json!({ "edits": [{ "type": "compact_20260112" }, { "type": "clear_thinking_20251015" }] }),
            "/context/edits/1",
        ),
    ] {
        let request = app.post("/v1/sessions").json(&json!({ "context": context }));
        assert_refused(&session, request, invalid(pointer)).await;
    }
    let request = app.post("/v1/sessions").json(&json!({ "model": "claude-haiku-4-5",
        "context": { "compact_at": 5000 } }));
    assert_refused(&session, request, invalid("/context/compact_at")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_with_a_known_window_has_a_default_compaction_threshold() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    for (asked, at) in [
        (json!({ "model": "claude-opus-5-5" }), json!(800_000)),
        (json!({ "model": "claude-opus-4-5" }), Value::Null),
        (json!({ "model": "claude-opus-5-5", "context": { "compact_at": 0 } }), Value::Null),
        (json!({ "model": "claude-opus-5-5", "context": { "compact_at": 1000 } }), json!(1000)),
        (
            json!({ "model": "claude-opus-5-5",
                 "context": { "edits": [{ "type": "compact_20260112" }] } }),
            Value::Null,
        ),
    ] {
        let session = app.session_with(asked.clone()).await;
        assert_eq!(session.read().await["context"]["compact_at"], at, "{asked}");
    }
    drop(app);
    let model_rules = twostep::service::ModelRules { compact_at: Some(7000), ..Default::default() };
    let setup = Setup { model_rules, ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup).await;
    assert_eq!(app.session().await.read().await["context"], json!({ "compact_at": 7000 }));
}
