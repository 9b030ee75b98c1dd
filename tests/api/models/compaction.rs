//! A history that nears the model's window: it is counted, summed up before a run, and sent from
//! the summary on, while what is stored stays whole.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::media::pixel;
use crate::support::{Session, Setup, TestApp, assert_refused, calls, invalid, replies, says};

/// Some 1,000 tokens, as the simulator counts.
fn long(word: &str) -> String {
    format!("{word}. {}", "x".repeat(4000))
}

const SUMMARY: &str = "They spoke of one, two and \"three\".";

/// A model that says yes to everything, and sums up in these words.
fn script(compaction: &Value) -> Value {
    json!({ "conversations": [{ "replies": [says("Yes.")] }], "compaction": [compaction, compaction] })
}

fn summary() -> Value {
    json!({ "content": [{ "type": "compaction", "content": SUMMARY }] })
}

fn sums_up() -> Value {
    script(&summary())
}

async fn compacted(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let told = events.iter().filter(|event| event["type"] == "agent.context_compacted");
    told.map(|event| json!([event["up_to"], event["tokens_before"], event["tokens_after"]]))
        .collect()
}

/// The paths and, where there are messages, how many of them.
fn asked(app: &TestApp) -> Vec<(String, usize)> {
    let upstream = app.upstream();
    (0..upstream.len())
        .map(|index| {
            let body = upstream.body(index);
            let what = if body.get("compaction").is_some() { " for a summary" } else { "" };
            let path = upstream.requests[index].path.clone() + what;
            (path, body["messages"].as_array().map_or(0, Vec::len))
        })
        .collect()
}

const MESSAGES: &str = "/v1/messages";
const SUMMED_UP: &str = "/v1/messages for a summary";
const COUNTED: &str = "/v1/messages/count_tokens";

fn expected(steps: &[(&str, usize)]) -> Vec<(String, usize)> {
    steps.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_nears_the_window_is_sent_from_its_summary_on() {
    let app = TestApp::start(sums_up()).await;
    let context = json!({ "compact_at": 3000, "compact_instructions": "Keep all numbers." });
    let session = app
        .session_with(json!({ "tools": [], "context": context, "stop_sequences": ["END"] }))
        .await;
    assert_eq!(session.read().await["context"], context);
    for word in ["One", "Two", "Three"] {
        session.ask(&long(word)).await;
    }
    let before = session.history().await;
    // The first is surely short enough: a token is a byte at least.
    let first = [(MESSAGES, 1), (COUNTED, 3), (MESSAGES, 3)];
    let third = [(COUNTED, 5), (SUMMED_UP, 4), (COUNTED, 2), (MESSAGES, 2)];
    assert_eq!(asked(&app), expected(&[&first[..], &third[..]].concat()));

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

    let told = compacted(&session).await;
    let [told] = told.as_slice() else { panic!("{told:?}") };
    let [up_to, before_it, after_it] = [0, 1, 2].map(|at| told[at].as_i64().unwrap());
    assert_eq!(up_to, 4);
    assert!(before_it > 3000 && after_it > 1000 && after_it < 2000, "{told}");

    // The history is whole, and goes on from where it was.
    session.ask("Four").await;
    let now = session.history().await;
    assert_eq!(now[..before.len()], before);
    assert_eq!(now.len(), 8);
    let upstream = app.upstream();
    let last = upstream.len() - 1;
    assert_eq!(upstream.body(last)["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_summary_used_is_counted_and_its_request_can_be_looked_at() {
    let app = TestApp::start(sums_up()).await;
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
async fn another_process_goes_on_from_the_summary() {
    let app = TestApp::start(sums_up()).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 3000 } })).await;
    for word in ["One", "Two", "Three"] {
        session.ask(&long(word)).await;
    }
    let id = session.id.clone();
    let app = app.restarted(sums_up()).await;
    let session = app.existing_session(&id);
    session.ask("Four").await;
    let upstream = app.upstream();
    let messages = upstream.body(upstream.len() - 1)["messages"].clone();
    assert_eq!(messages[0]["content"][0]["content"], SUMMARY);
    assert_eq!(messages.as_array().unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_is_summed_up_again_with_what_has_come_since() {
    let app = TestApp::start(sums_up()).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 3000 } })).await;
    for word in ["One", "Two", "Three", "Four", "Five", "Six"] {
        session.ask(&long(word)).await;
    }
    let told = compacted(&session).await;
    let up_to: Vec<i64> = told.iter().map(|told| told[0].as_i64().unwrap()).collect();
    assert_eq!(up_to, [4, 8], "{told:?}");
    let summaries: Vec<usize> = asked(&app)
        .into_iter()
        .filter(|(path, _)| path == SUMMED_UP)
        .map(|(_, count)| count)
        .collect();
    assert_eq!(summaries, [4, 5], "the second one has the first summary and two turns");
}

/// The message alone is too long: no summary of what came before can change that.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_does_not_help_is_not_made_at_every_run() {
    let app = TestApp::start(sums_up()).await;
    let system = "x".repeat(12_000);
    let asked_for = json!({ "tools": [], "system": system, "context": { "compact_at": 2000 } });
    let session = app.session_with(asked_for).await;
    for word in ["One", "Two", "Three", "Four", "Five"] {
        session.ask(&format!("{word} {}", "y".repeat(600))).await;
    }
    assert_eq!(compacted(&session).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_history_is_not_summed_up_goes_on_with_all_of_it() {
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
        assert_eq!(compacted(&session).await, [] as [Value; 0]);
        // It is tried again when there is twice as much, and not when there is hardly more.
        session.ask("And now?").await;
        session.ask(&long("Three")).await;
        let mut steps: Vec<String> = asked(&app).into_iter().map(|(path, _)| path).collect();
        steps.retain(|path| path != COUNTED);
        // What is refused is tried again with less.
        steps.dedup_by(|next, before| next == SUMMED_UP && before == SUMMED_UP);
        let expected = [MESSAGES, SUMMED_UP, MESSAGES, SUMMED_UP, MESSAGES, MESSAGES];
        assert_eq!(steps, expected, "{compaction}");
    }
}

/// A run fills the window by itself, so that not even a summary of it all can be asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_has_outgrown_the_window_is_summed_up_as_far_as_it_fits() {
    let script = json!({ "conversations": [
        { "when": "Two", "replies": [calls("read_file", json!({ "path": "notes.txt" })), says("Done.")] },
        { "replies": [says("Yes.")] },
    ], "compaction": [summary()] });
    let setup = Setup { window: Some(5500), ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let asked_for = json!({ "tools": ["read_file"], "context": { "compact_at": 4500 } });
    let session = app.session_with(asked_for).await;
    app.write_file("notes.txt", &"Nobody knows where it went.\n".repeat(300));
    session.ask(&long("One").repeat(2)).await;
    let run = session.ask(&long("Two")).await;
    assert_eq!(run["status"], "failed");
    let run = session.ask(&long("Three")).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Yes.")));
    let told = compacted(&session).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0][0], 3, "up to the last request that was answered");
    let last = app.upstream().len() - 1;
    assert_eq!(app.upstream().roles(last), ["assistant", "assistant", "user", "user"]);
    let refusals = app.simulator.refusals();
    assert!(!refusals.is_empty());
    assert!(refusals.iter().all(|said| said.starts_with("prompt is too long")), "{refusals:?}");
    let refusals: Vec<&str> = refusals.iter().map(String::as_str).collect();
    app.end_refused(&refusals);
}

/// What the window leaves is less than what has to come before another summary is due.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_too_long_after_all_is_made_shorter() {
    let setup = Setup { window: Some(4400), ..Setup::default() };
    let app = TestApp::start_with(sums_up(), setup).await;
    let asked_for =
        json!({ "tools": [], "system": "x".repeat(14_000), "context": { "compact_at": 4000 } });
    let session = app.session_with(asked_for).await;
    let third = |word: &str| format!("{word}. {}", "x".repeat(1300));
    for word in ["One", "Two", "Three", "Four", "Five", "Six"] {
        let run = session.ask(&third(word)).await;
        assert_eq!(run["output_text"], "Yes.", "{word}: {run}");
    }
    assert!(compacted(&session).await.len() > 1);
    let refusals = app.simulator.refusals();
    assert!(!refusals.is_empty(), "the window was met");
    assert!(refusals.iter().all(|said| said.starts_with("prompt is too long")), "{refusals:?}");
    let refusals: Vec<&str> = refusals.iter().map(String::as_str).collect();
    app.end_refused(&refusals);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_while_its_past_is_summed_up_ends_and_the_next_one_does_it() {
    let slow =
        json!({ "content": [{ "type": "compaction", "content": SUMMARY }], "delay_ms": 600_000 });
    let app = TestApp::start(script(&slow)).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 2000 } })).await;
    session.ask(&long("One")).await;
    let run = session.post(json!({ "content": long("Two") })).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while asked(&app).last().is_none_or(|(path, _)| path != SUMMED_UP) {
        assert!(Instant::now() < deadline, "no summary was asked for");
        sleep(Duration::from_millis(10)).await;
    }
    session.cancel(&run).await;
    assert_eq!(session.settled(&run).await["status"], "cancelled");
    let id = session.id.clone();
    let app = app.restarted(sums_up()).await;
    let session = app.existing_session(&id);
    session.ask(&long("Three")).await;
    assert_eq!(compacted(&session).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_and_the_tokens_of_a_summary_are_none_of_the_runs_limits() {
    let mut slow = summary();
    slow["delay_ms"] = json!(1500);
    let app = TestApp::start(script(&slow)).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 2000 } })).await;
    session.ask(&long("One")).await;
    let limits = json!({ "seconds": 1, "tokens": 3000 });
    let run = session.ask_with(json!({ "content": long("Two"), "limits": limits })).await;
    assert_eq!((&run["output_text"], &run["limited"]), (&json!("Yes."), &json!(false)));
    assert_eq!(compacted(&session).await.len(), 1);
}

/// The one call of the model's own tools that stays open is no part of what is summed up.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_was_left_open_is_summed_up_without_what_is_open() {
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
    assert_eq!(compacted(&session).await.len(), 1, "{:?}", asked(&app));
    assert_eq!(app.simulator.refusals(), Vec::<String>::new());
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_the_budget_does_not_allow_is_not_asked_for() {
    let app = TestApp::start(sums_up()).await;
    let session = app
        .session_with(json!({ "tools": [], "max_tokens": 100, "context": { "compact_at": 2000 },
                              "budget": { "tokens": 12_000 } }))
        .await;
    session.ask(&long("One")).await;
    let run = session.ask(&long("Two")).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Yes.")));
    assert_eq!(asked(&app), expected(&[(MESSAGES, 1), (COUNTED, 3), (MESSAGES, 3)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_summed_up_does_not_count_against_the_limits_of_a_conversation() {
    let app = TestApp::start(sums_up()).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 2000 } })).await;
    let images = json!({ "content": vec![pixel(); 60] });
    session.ask_with(images.clone()).await;
    let refused = session.message(&images);
    assert_refused(&session, refused, invalid("/content")).await;
    session.ask(&long("One").repeat(2)).await;
    assert!(!compacted(&session).await.is_empty());
    session.ask_with(images).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_never_cut_in_two() {
    let script = json!({ "conversations": [
        { "when": "Two", "replies": [calls("get_time", json!({})), says("Done.")] },
        { "replies": [says("Yes.")] },
    ], "compaction": [summary()] });
    let app = TestApp::start(script).await;
    let session =
        app.session_with(json!({ "tools": ["get_time"], "context": { "compact_at": 3000 } })).await;
    session.ask(&long("One")).await;
    session.ask(&format!("Two {}", "y".repeat(7000))).await;
    let steps: Vec<String> = asked(&app).into_iter().map(|(path, _)| path).collect();
    let compactions = steps.iter().filter(|path| *path == SUMMED_UP).count();
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
async fn what_the_context_cannot_be_is_pointed_at() {
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
        (edit(json!({ "type": "clear_tool_uses_20250919", "what": 1 })), "/context/edits/0"),
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
async fn a_model_whose_window_is_known_has_its_histories_summed_up_before_they_outgrow_it() {
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
