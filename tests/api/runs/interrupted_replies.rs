//! Replies during which the client stops the run: the text that was received stays in the history,
//! and the model's server accepts it.

use futures::future::join_all;
use serde_json::{Value, json};
use twostep::domain::provider::Provider;
use twostep::domain::session::InterruptedReplies;

use crate::models::recorded_streams::stream;
use crate::support::{Session, Setup, TestApp, calls, problem, says};

/// Recorded streams with a text, of all kinds of blocks.
const SAMPLES: [&str; 7] = [
    "02_text_then_tool_use",
    "04_thinking_signature_tool_use",
    "09_pause_turn_server_tool",
    "16_unknown_events_and_blocks",
    "21_citations",
    "29_beta_fallback_block",
    "30_beta_compaction",
];

/// A script that answers a message with `go` with `reply`, and all other messages with text.
fn first(reply: &Value) -> Value {
    json!({ "conversations": [
        { "when": "go", "replies": [reply] }, { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A reply of these blocks whose stream stops after this number of events.
fn hangs(blocks: &[Value], events: usize) -> Value {
    json!({ "content": blocks, "chunk": 6, "hang_after": events })
}

/// The preview of a text: the id of its event, and the text so far.
struct Previewed {
    run: Value,
    id: Value,
    text: String,
}

/// Posts a message with `go` and reads previews until this text was received.
async fn streams(session: &Session<'_>, expected: &str) -> Previewed {
    // The first message identifies the session in the requests to the model.
    let mut stream = session.stream(&format!("go {}", session.id)).await;
    let mut previewed = Previewed { run: Value::Null, id: Value::Null, text: String::new() };
    while previewed.text != expected {
        let delta = stream.until("event_delta").await.data;
        if let Some(text) = delta["delta"]["content"]["text"].as_str() {
            previewed.text.push_str(text);
            previewed.id = delta["event_id"].clone();
            previewed.run = json!({ "id": delta["run_id"] });
        }
        assert!(expected.starts_with(&previewed.text), "{}", previewed.text);
    }
    previewed
}

async fn stop(session: &Session<'_>, run: &Value) -> Value {
    session.cancel(run).await;
    session.settled(run).await
}

/// The blocks of the interrupted reply, if the history has one.
async fn kept(session: &Session<'_>) -> Option<Value> {
    let history = session.history().await;
    let mut interrupted =
        history.iter().filter(|item| item["message"].get("interrupted").is_some());
    let found = interrupted.next()?;
    assert_eq!(interrupted.next(), None);
    assert_eq!(found["message"]["interrupted"], true);
    assert_eq!(found["message"]["stop_reason"], "interrupted");
    Some(found["message"]["content"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_stopped_answer_is_kept_and_sent_with_the_next_message() {
    let blocks = [text("First, we open the file and then")];
    for (provider, events) in
        [(Provider::Anthropic, 6), (Provider::OpenAi, 4), (Provider::OpenAiResponses, 6)]
    {
        let setup = Setup { provider, ..Setup::default() };
        let app = TestApp::start_with(first(&hangs(&blocks, events)), setup).await;
        let session = app.session().await;
        let Previewed { run, id, text } = streams(&session, "First, we open the").await;
        let run = stop(&session, &run).await;
        assert_eq!(run["status"], "cancelled");
        assert_eq!(kept(&session).await, Some(json!([{ "type": "text", "text": text }])));

        let events = session.events().await;
        let of_run: Vec<&Value> =
            events.iter().filter(|event| event["run_id"] == run["id"]).collect();
        let message = of_run.iter().position(|event| event["type"] == "agent.message").unwrap();
        assert_eq!(of_run[message]["id"], id, "the event replaces its preview");
        assert_eq!(of_run[message]["interrupted"], true);
        assert_eq!(of_run[message]["content"], json!([{ "type": "text", "text": text }]));
        let idle = of_run.iter().position(|event| event["type"] == "session.status_idle").unwrap();
        assert!(message < idle);

        assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
        let upstream = app.upstream();
        let roles = upstream.roles(upstream.len() - 1);
        let roles = roles.iter().filter(|role| *role != "system").collect::<Vec<_>>();
        assert_eq!(roles, ["user", "assistant", "user"]);
        assert!(upstream.text(upstream.len() - 1).contains("First, we open the"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_interrupts_keeps_what_the_model_had_said() {
    let app = TestApp::start(first(&hangs(&[text("First, we open the file")], 6))).await;
    let session = app.session().await;
    let Previewed { text, .. } = streams(&session, "First, we open the").await;
    let message = json!({ "content": "No, stop. Are you there?", "on_busy": "interrupt" });
    assert_eq!(session.ask_with(message).await["output_text"], "Still here.");
    assert_eq!(kept(&session).await, Some(json!([{ "type": "text", "text": text }])));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_after_tool_results_is_kept() {
    let script = json!({ "conversations": [
        { "when": "go", "replies": [calls("get_time", json!({})),
                                    hangs(&[text("It is about noon")], 5)] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    let session = app.session().await;
    let Previewed { run, text, .. } = streams(&session, "It is about ").await;
    stop(&session, &run).await;
    let history = session.history().await;
    let roles: Vec<&Value> = history.iter().map(|item| &item["type"]).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert_eq!(kept(&session).await, Some(json!([{ "type": "text", "text": text }])));
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_call_is_dropped_and_the_text_before_it_is_kept() {
    let call = json!({ "type": "tool_use", "name": "write_file",
                       "input": { "path": "half.txt", "content": "never written" } });
    // The input of the call is cut, or complete and not followed by the end of the reply.
    for (provider, cuts) in [
        (Provider::Anthropic, [9, 17]),
        (Provider::OpenAi, [6, 12]),
        (Provider::OpenAiResponses, [9, 14]),
    ] {
        for events in cuts {
            let reply = hangs(&[text("I write"), call.clone()], events);
            let setup = Setup { provider, ..Setup::default() };
            let app = TestApp::start_with(first(&reply), setup).await;
            let session = app.session().await;
            let mut stream = session.stream("go").await;
            // The preview of the call begins after that of the text.
            let mut start = stream.until("event_start").await.data;
            while start["event"]["type"] != "agent.tool_use" {
                start = stream.until("event_start").await.data;
            }
            stop(&session, &json!({ "id": start["run_id"] })).await;
            assert_eq!(kept(&session).await, Some(json!([text("I write")])));
            assert!(!app.folder.path().join("half.txt").exists());
            assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
        }
    }
}

/// Every recorded kind of block, cut after every event: thinking with and without a signature,
/// citations, server tools, calls. The simulator refuses a history that the API would refuse.
#[tokio::test(flavor = "multi_thread")]
async fn the_history_is_accepted_wherever_a_recorded_stream_is_stopped() {
    for name in SAMPLES {
        let sse = stream(name);
        // After the last event the reply would be complete.
        let cuts = sse.matches("\n\n").count() - 1;
        assert!(cuts > 5, "{name}");
        let conversation = |cut: usize| {
            json!({ "when": format!("go {cut}."),
                    "replies": [{ "raw_sse": sse, "hang_after": cut }] })
        };
        let mut conversations: Vec<Value> = (1..=cuts).map(conversation).collect();
        conversations.push(json!({ "replies": [says("Still here.")] }));
        let script = json!({ "conversations": conversations, "otherwise": "refuse" });
        let app = TestApp::start(script).await;
        let rounds = (1..=cuts).map(|cut| {
            let app = &app;
            async move {
                let session = app.session().await;
                let run = session.post(json!({ "content": format!("go {cut}.") })).await;
                session.reached(&run, "span.model_request_start").await;
                // The delay selects the moment; it does not wait for a condition.
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                let run = stop(&session, &run).await;
                let blocks = kept(&session).await;
                if let Some(blocks) = &blocks {
                    assert_eq!(run["status"], "cancelled", "{name} {cut}");
                    let kinds: Vec<&str> = blocks
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|block| block["type"].as_str().unwrap())
                        .collect();
                    assert!(!kinds.contains(&"tool_use"), "{name} {cut}: {kinds:?}");
                    assert!(kinds.contains(&"text"), "{name} {cut}: {kinds:?}");
                }
                let next = session.ask("Are you there?").await;
                assert_eq!(next["output_text"], "Still here.", "{name} {cut}: {blocks:?}");
                usize::from(blocks.is_some())
            }
        });
        let with_text: usize = join_all(rounds).await.into_iter().sum();
        assert!(with_text > 0, "{name}: no cut left a text");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_reply_can_be_discarded() {
    let reply = hangs(&[text("First, we open the file")], 6);
    let discard = json!({ "interrupted_replies": "discard" });
    let setup = Setup { interrupted_replies: InterruptedReplies::Discard, ..Setup::default() };
    let of_operator = TestApp::start_with(first(&reply), setup).await;
    let app = TestApp::start(first(&reply)).await;
    let put = app.client.put(app.url("/v1/agents/brief")).json(&discard).send().await.unwrap();
    assert!(put.status().is_success());
    for (session, is_kept) in [
        (app.session().await, true),
        (app.session_with(discard).await, false),
        (app.session_with(json!({ "agent": "brief" })).await, false),
        (app.session_with(json!({ "agent": "brief", "interrupted_replies": "keep" })).await, true),
        (of_operator.session().await, false),
        (of_operator.session_with(json!({ "interrupted_replies": "keep" })).await, true),
    ] {
        let shown: Value =
            session.app.get(&session.path("")).send().await.unwrap().json().await.unwrap();
        let expected = if is_kept { "keep" } else { "discard" };
        assert_eq!(shown["interrupted_replies"], expected);
        let Previewed { run, .. } = streams(&session, "First, we open the").await;
        let run = stop(&session, &run).await;
        assert_eq!(kept(&session).await.is_some(), is_kept);
        let events = session.events().await;
        assert_eq!(events.iter().any(|event| event["type"] == "agent.message"), is_kept);
        assert!(
            run["usage"]["input_tokens"].as_i64().unwrap() > 0,
            "a discarded reply costs as well"
        );
        assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
    }
    let bad = json!({ "interrupted_replies": "forget" });
    let refused = app.post("/v1/sessions").json(&bad).send().await.unwrap();
    problem(refused, 422, "validation_failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_reply_is_part_of_forks_and_exports() {
    let app = TestApp::start(first(&hangs(&[text("First, we open the file")], 6))).await;
    let session = app.session().await;
    let Previewed { run, .. } = streams(&session, "First, we open the").await;
    stop(&session, &run).await;
    let blocks = kept(&session).await;

    let fork = app.post(&session.path("/forks")).json(&json!({})).send().await.unwrap();
    assert!(fork.status().is_success(), "{:?}", fork.text().await);
    let fork: Value = fork.json().await.unwrap();
    let fork = app.existing_session(fork["id"].as_str().unwrap());
    assert_eq!(kept(&fork).await, blocks);
    assert_eq!(fork.ask("Are you there?").await["output_text"], "Still here.");

    let markdown = app.get(&session.path("/export?format=markdown")).send().await.unwrap();
    let markdown = markdown.text().await.unwrap();
    assert!(markdown.contains("## 2. Assistant (interrupted)"), "{markdown}");
    let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
    let import = app.post("/v1/sessions/import").header("content-type", "application/jsonl");
    let imported: Value = import.body(export).send().await.unwrap().json().await.unwrap();
    let copy = app.existing_session(imported["id"].as_str().unwrap());
    assert_eq!(kept(&copy).await, blocks);
    assert_eq!(imported["stop_reason"], json!({ "type": "cancelled" }));
    let events = copy.events().await;
    let message = events.iter().find(|event| event["type"] == "agent.message").unwrap();
    assert_eq!(message["interrupted"], true);
    assert_eq!(copy.ask("Are you there?").await["output_text"], "Still here.");
}
