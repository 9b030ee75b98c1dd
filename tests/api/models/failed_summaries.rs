//! Failed summaries and servers that do not count tokens: the session continues with its whole
//! history, and a summary is not requested at every run.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{Session, TestApp, says};

/// A text of about 1,000 tokens in the simulator's count.
fn long(word: &str) -> String {
    format!("{word}. {}", "x".repeat(4000))
}

/// A script that answers `Yes.` to every message and gives this reply to a request for a summary.
fn script(compaction: &Value) -> Value {
    json!({ "conversations": [{ "replies": [says("Yes.")] }], "compaction": [compaction] })
}

/// A reply to a request for a summary, with these blocks. They may be invalid.
fn streamed(blocks: &[String]) -> Value {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": "any", "usage": { "input_tokens": 9, "output_tokens": 1 } });
    let mut events = vec![json!({ "type": "message_start", "message": message }).to_string()];
    events.extend(blocks.iter().enumerate().map(|(index, block)| {
        format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
    }));
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } });
    events.extend([end.to_string(), json!({ "type": "message_stop" }).to_string()]);
    json!({ "raw_sse": format!("data: {}\n\n", events.join("\n\ndata: ")) })
}

/// A block of this type that is nested too deeply to parse.
fn too_deep(kind: &str) -> String {
    let [opened, closed] = ["[", "]"].map(|bracket| bracket.repeat(20_000));
    format!(r#"{{"type":"{kind}","content":"They.","more":{opened}{closed}}}"#)
}

fn overloaded() -> Value {
    json!({ "status": 529, "repeat": 99,
            "error": { "type": "overloaded_error", "message": "No summaries today." } })
}

async fn compacting_session(app: &TestApp) -> Session<'_> {
    app.session_with(json!({ "tools": [], "context": { "compact_at": 2000 } })).await
}

async fn compactions(session: &Session<'_>) -> usize {
    let events = session.events().await;
    events.iter().filter(|event| event["type"] == "agent.context_compacted").count()
}

/// The number of requests for a summary.
fn summaries(app: &TestApp) -> usize {
    let upstream = app.upstream();
    (0..upstream.len()).filter(|index| upstream.body(*index).get("compaction").is_some()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blank_or_incomplete_summary_does_not_replace_the_history() {
    let block = |text: &str| json!([{ "type": "compaction", "content": text }]);
    for compaction in [
        json!({ "content": block("") }),
        json!({ "content": block(" \n") }),
        json!({ "content": block("They"), "stop_reason": "max_tokens" }),
        json!({ "content": block("They"), "stop_reason": "refusal" }),
        streamed(&[too_deep("compaction")]),
    ] {
        let app = TestApp::start(script(&compaction)).await;
        let session = compacting_session(&app).await;
        session.ask(&long("One")).await;
        let run = session.ask(&long("Two")).await;
        assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Yes.")));
        assert_eq!((summaries(&app), compactions(&session).await), (1, 0));
        let last = app.upstream().len() - 1;
        assert_eq!(app.upstream().roles(last), ["user", "assistant", "user"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declined_summary_is_not_requested_at_every_run() {
    let app = TestApp::start(script(&json!({ "stop_reason": "refusal", "repeat": 9 }))).await;
    let session = compacting_session(&app).await;
    session.ask(&long("One")).await;
    session.ask(&long("Two")).await;
    session.ask("Three").await;
    assert_eq!(summaries(&app), 2, "the history has doubled");
    for word in ["Four", "Five", &long("Six")] {
        session.ask(word).await;
    }
    assert_eq!(summaries(&app), 2, "the history has hardly grown");
    session.ask("Seven").await;
    assert_eq!(summaries(&app), 3);
    assert_eq!(compactions(&session).await, 0);
}

/// The system prompt alone is too long: no summary can change that.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_does_not_help_is_not_made_at_every_run_on_a_server_that_does_not_count() {
    let mut script = script(&json!({ "content": [{ "type": "compaction", "content": "Yes?" }] }));
    script["counting"] = json!({ "status": 404 });
    let app = TestApp::start(script).await;
    let settings = json!({ "tools": [], "system": "x".repeat(40_000),
                            "context": { "compact_at": 8000 } });
    let session = app.session_with(settings).await;
    for word in ["One", "Two", "Three", "Four", "Five", "Six"] {
        session.ask(&format!("{word} {}", "y".repeat(300))).await;
    }
    assert_eq!(compactions(&session).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_summary_is_requested_again_by_a_later_run() {
    let app = TestApp::start(script(&overloaded())).await;
    let session = compacting_session(&app).await;
    session.ask(&long("One").repeat(2)).await;
    for (text, asked) in [("Two", 1), ("Three", 1), (&long("Four"), 1), ("Five", 2)] {
        let run = session.ask(text).await;
        assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Yes.")));
        assert_eq!(summaries(&app), asked);
    }
}

/// Many sessions request a summary at the same time, and all of these requests fail.
#[tokio::test(flavor = "multi_thread")]
async fn failed_summaries_do_not_open_the_circuit() {
    let mut answer = says("Yes.");
    answer["delay_ms"] = json!(300);
    let mut script = script(&overloaded());
    script["conversations"][0]["replies"] = json!([answer]);
    let app = TestApp::start(script).await;
    let sessions = join_all((0..12).map(|_| compacting_session(&app))).await;
    let [one, two] = [long("One").repeat(2), "Two".to_owned()];
    for text in [&one, &two] {
        join_all(sessions.iter().map(|session| session.ask(text))).await;
    }
    assert_eq!(summaries(&app), 12);
    for session in &sessions {
        let events = session.events().await;
        assert!(events.iter().all(|event| event["type"] != "session.status_rescheduled"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_has_no_previews() {
    let compaction = streamed(&[
        json!({ "type": "thinking", "thinking": "They want it short.", "signature": "s" })
            .to_string(),
        json!({ "type": "text", "text": "They spoke of one." }).to_string(),
    ]);
    let app = TestApp::start(script(&compaction)).await;
    let session = compacting_session(&app).await;
    session.ask(&long("One")).await;
    let mut stream = session.stream(&long("Two")).await;
    let mut previews = Vec::new();
    while let Some(received) = stream.next().await {
        if received.name == "event_start" {
            previews.push(received.data["event"]["type"].clone());
        }
    }
    assert_eq!(summaries(&app), 1);
    assert_eq!(previews, [json!("agent.message")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_nested_too_deeply_fails_the_run_and_not_the_session() {
    let reply = streamed(&[too_deep("odd")]);
    let conversations =
        json!([{ "when": "deep", "replies": [reply] }, { "replies": [says("Yes.")] }]);
    let app = TestApp::start(json!({ "conversations": conversations })).await;
    let session = app.session().await;
    let run = session.ask("Go deep.").await;
    assert_eq!(run["error"]["type"], "model_request_failed_error");
    assert_eq!(session.ask("Again.").await["output_text"], "Yes.");
}

/// As after a change of the account: the new account refuses signatures of the old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_summary_is_dropped_and_made_again() {
    let summary =
        json!({ "content": [{ "type": "compaction", "content": "They spoke." }], "repeat": 9 });
    let app = TestApp::start(script(&summary)).await;
    let session = compacting_session(&app).await;
    for word in ["One", "Two", "Three"] {
        session.ask(&long(word)).await;
    }
    assert_eq!(compactions(&session).await, 2);
    let id = session.id.clone();
    let unreadable = json!([{ "type": "compaction", "contains": "They spoke.",
        "message": "Invalid `signature` in `compaction` block" }]);
    let other = json!({ "content": [{ "type": "compaction", "content": "All was said." }] });
    let mut script = script(&other);
    script["unreadable"] = unreadable;
    let app = app.restarted(script).await;
    let session = app.existing_session(&id);
    // This run sends the whole history. The next one sends a new summary of it.
    let run = session.ask("Four").await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Yes.")));
    let upstream = app.upstream();
    assert_eq!(upstream.roles(upstream.len() - 1).len(), 7);
    let events = session.events().await;
    let changes: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "session.updated")
        .map(|it| &it["sent_history"])
        .collect();
    assert_eq!(changes, [&json!({ "change": "summary_dropped", "up_to": 4 })]);
    let run = session.ask("Five").await;
    let upstream = app.upstream();
    let last = upstream.body(upstream.len() - 1)["messages"].clone();
    assert_eq!(last[0]["content"][0]["content"], "All was said.");
    assert_eq!(last.as_array().unwrap().len(), 2);
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    for n in 1..=2 {
        let request: Value =
            app.get(&format!("{path}/{n}")).send().await.unwrap().json().await.unwrap();
        assert!(request["body"]["messages"].is_array(), "{request}");
    }
    assert_eq!(session.ask("Six").await["output_text"], "Yes.");
    let refusals = app.simulator.refusals();
    let refusals: Vec<&str> = refusals.iter().map(String::as_str).collect();
    let refused =
        "messages.0.content.0.compaction.source: Invalid `signature` in `compaction` block";
    assert!(
        !refusals.is_empty() && refusals.iter().all(|refusal| *refusal == refused),
        "{refusals:?}"
    );
    app.end_refused(&refusals);
}
