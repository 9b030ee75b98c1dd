//! Summaries that are none, and servers that count no tokens: the conversation goes on, is not
//! forgotten, and is not paid for again and again.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{Session, TestApp, says};

/// Some 1,000 tokens, as the simulator counts.
fn long(word: &str) -> String {
    format!("{word}. {}", "x".repeat(4000))
}

/// A model that says yes to everything, and is asked for summaries like this.
fn script(compaction: &Value) -> Value {
    json!({ "conversations": [{ "replies": [says("Yes.")] }], "compaction": [compaction] })
}

/// A reply to a request for a summary that has these blocks, whatever they are.
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

/// A block of this kind, deeper than anybody can read it.
fn bottomless(kind: &str) -> String {
    let [opened, closed] = ["[", "]"].map(|bracket| bracket.repeat(20_000));
    format!(r#"{{"type":"{kind}","content":"They.","more":{opened}{closed}}}"#)
}

fn overloaded() -> Value {
    json!({ "status": 529, "repeat": 99,
            "error": { "type": "overloaded_error", "message": "No summaries today." } })
}

async fn session_of(app: &TestApp) -> Session<'_> {
    app.session_with(json!({ "tools": [], "context": { "compact_at": 2000 } })).await
}

async fn compactions(session: &Session<'_>) -> usize {
    let events = session.events().await;
    events.iter().filter(|event| event["type"] == "agent.context_compacted").count()
}

/// How many requests for a summary there were.
fn summaries(app: &TestApp) -> usize {
    let upstream = app.upstream();
    (0..upstream.len()).filter(|index| upstream.body(*index).get("compaction").is_some()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_is_blank_or_was_not_ended_does_not_stand_for_the_history() {
    let block = |text: &str| json!([{ "type": "compaction", "content": text }]);
    for compaction in [
        json!({ "content": block("") }),
        json!({ "content": block(" \n") }),
        json!({ "content": block("They"), "stop_reason": "max_tokens" }),
        json!({ "content": block("They"), "stop_reason": "refusal" }),
        streamed(&[bottomless("compaction")]),
    ] {
        let app = TestApp::start(script(&compaction)).await;
        let session = session_of(&app).await;
        session.ask(&long("One")).await;
        let run = session.ask(&long("Two")).await;
        assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Yes.")));
        assert_eq!((summaries(&app), compactions(&session).await), (1, 0));
        let last = app.upstream().len() - 1;
        assert_eq!(app.upstream().roles(last), ["user", "assistant", "user"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_was_declined_is_not_asked_for_and_paid_for_at_every_run() {
    let app = TestApp::start(script(&json!({ "stop_reason": "refusal", "repeat": 9 }))).await;
    let session = session_of(&app).await;
    session.ask(&long("One")).await;
    session.ask(&long("Two")).await;
    session.ask("Three").await;
    assert_eq!(summaries(&app), 2, "there is twice as much");
    for word in ["Four", "Five", &long("Six")] {
        session.ask(word).await;
    }
    assert_eq!(summaries(&app), 2, "there is hardly more");
    session.ask("Seven").await;
    assert_eq!(summaries(&app), 3);
    assert_eq!(compactions(&session).await, 0);
}

/// The system prompt alone is too long: no summary can change that.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_does_not_help_is_not_made_at_every_run_where_nobody_counts() {
    let mut script = script(&json!({ "content": [{ "type": "compaction", "content": "Yes?" }] }));
    script["counting"] = json!({ "status": 404 });
    let app = TestApp::start(script).await;
    let asked_for = json!({ "tools": [], "system": "x".repeat(40_000),
                            "context": { "compact_at": 8000 } });
    let session = app.session_with(asked_for).await;
    for word in ["One", "Two", "Three", "Four", "Five", "Six"] {
        session.ask(&format!("{word} {}", "y".repeat(300))).await;
    }
    assert_eq!(compactions(&session).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_fails_is_left_to_a_later_run() {
    let app = TestApp::start(script(&overloaded())).await;
    let session = session_of(&app).await;
    session.ask(&long("One").repeat(2)).await;
    for (text, asked) in [("Two", 1), ("Three", 1), (&long("Four"), 1), ("Five", 2)] {
        let run = session.ask(text).await;
        assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Yes.")));
        assert_eq!(summaries(&app), asked);
    }
}

/// Many conversations come to be summed up at the same time, and none can be.
#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_sum_up_is_not_left_alone_for_it() {
    let mut answer = says("Yes.");
    answer["delay_ms"] = json!(300);
    let mut script = script(&overloaded());
    script["conversations"][0]["replies"] = json!([answer]);
    let app = TestApp::start(script).await;
    let sessions = join_all((0..12).map(|_| session_of(&app))).await;
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
async fn nobody_sees_a_summary_come_in() {
    let compaction = streamed(&[
        json!({ "type": "thinking", "thinking": "They want it short.", "signature": "s" })
            .to_string(),
        json!({ "type": "text", "text": "They spoke of one." }).to_string(),
    ]);
    let app = TestApp::start(script(&compaction)).await;
    let session = session_of(&app).await;
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
async fn a_reply_that_is_nested_too_deeply_is_the_models_fault_and_the_session_goes_on() {
    let reply = streamed(&[bottomless("odd")]);
    let conversations =
        json!([{ "when": "deep", "replies": [reply] }, { "replies": [says("Yes.")] }]);
    let app = TestApp::start(json!({ "conversations": conversations })).await;
    let session = app.session().await;
    let run = session.ask("Go deep.").await;
    assert_eq!(run["error"]["type"], "model_request_failed_error");
    assert_eq!(session.ask("Again.").await["output_text"], "Yes.");
}

/// As after a move to another account: what the one has signed the other does not take back.
#[tokio::test(flavor = "multi_thread")]
async fn a_history_whose_summary_is_not_taken_back_is_summed_up_anew() {
    let summary =
        json!({ "content": [{ "type": "compaction", "content": "They spoke." }], "repeat": 9 });
    let app = TestApp::start(script(&summary)).await;
    let session = session_of(&app).await;
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
    // First all of it is sent, and then a summary of all of it.
    let run = session.ask("Four").await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Yes.")));
    let upstream = app.upstream();
    assert_eq!(upstream.roles(upstream.len() - 1).len(), 7);
    let told = session.events().await;
    let told: Vec<&Value> = told
        .iter()
        .filter(|event| event["type"] == "session.updated")
        .map(|it| &it["sent_history"])
        .collect();
    assert_eq!(told, [&json!({ "change": "summary_dropped", "up_to": 4 })]);
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
    assert!(!refusals.is_empty() && refusals.iter().all(|said| *said == refused), "{refusals:?}");
    app.end_refused(&refusals);
}
