//! Compaction with the protocols of `OpenAI`: the model is asked for the summary in a message.

use std::sync::Arc;

use serde_json::{Value, json};
use twostep::domain::model::{Known, Models};
use twostep::domain::provider::Provider;
use twostep::service::ModelRules;

use crate::support::upstream::items_of;
use crate::support::{Session, Setup, TestApp, calls, says};

const SUMMARY: &str = "They spoke of one, two and \"three\".";
const INSTRUCTIONS: &str = "Summarize the conversation. Keep all numbers.";

/// A text of about 1,000 tokens in the simulator's count.
fn long(word: &str) -> String {
    format!("{word}. {}", "x".repeat(4000))
}

const BOTH: [Provider; 2] = [Provider::OpenAi, Provider::OpenAiResponses];

async fn start(provider: Provider, script: Value, window: Option<u64>) -> TestApp {
    let models = Arc::new(Models::new(provider, Known::new()));
    let model_rules = ModelRules { models, ..ModelRules::default() };
    let setup = Setup { model_rules, window, provider, ..Setup::default() };
    TestApp::start_with(script, setup).await
}

/// A script that answers `Yes.` to every message, and this reply to the request for a summary.
fn script(summary: &Value) -> Value {
    json!({ "conversations": [
        { "when": INSTRUCTIONS, "replies": [summary] },
        { "replies": [says("Yes.")] },
    ], "otherwise": "refuse" })
}

fn settings(compact_at: u32) -> Value {
    let context = json!({ "compact_at": compact_at, "compact_instructions": INSTRUCTIONS });
    json!({ "tools": ["get_time"], "context": context })
}

async fn compactions(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let compacted = events.into_iter().filter(|event| event["type"] == "agent.context_compacted");
    compacted.map(|event| event["up_to"].clone()).collect()
}

/// The messages of a request, each as its role and its text.
fn sent(body: &Value) -> Vec<(String, String)> {
    let text = |content: &Value| match content.as_array() {
        Some(parts) => parts.iter().map(|part| part["text"].as_str().unwrap()).collect(),
        None => content.as_str().unwrap().to_owned(),
    };
    let items = items_of(body).iter().filter(|item| item["role"] != "system");
    items.map(|item| (item["role"].as_str().unwrap().into(), text(&item["content"]))).collect()
}

/// Asserts that the record of the first request of the last run has this body.
async fn assert_recorded(session: &Session<'_>, body: &Value) {
    let app = session.app;
    let runs: Value = app.get(&session.path("/runs")).send().await.unwrap().json().await.unwrap();
    let newest =
        runs["data"].as_array().unwrap().iter().max_by_key(|run| run["id"].as_str()).unwrap();
    let path = format!("/runs/{}/requests/1", newest["id"].as_str().unwrap());
    let shown: Value = app.get(&session.path(&path)).send().await.unwrap().json().await.unwrap();
    assert_eq!(shown["body"], *body);
}

fn user(text: impl Into<String>) -> (String, String) {
    ("user".to_owned(), text.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_is_asked_for_a_summary_which_replaces_the_messages() {
    for provider in BOTH {
        let app = start(provider, script(&says(SUMMARY)), None).await;
        let session = app.session_with(settings(3000)).await;
        for word in ["One", "Two", "Three"] {
            session.ask(&long(word)).await;
        }
        assert_eq!(compactions(&session).await, [4]);
        let upstream = app.upstream();
        let asked = upstream.body(2);
        assert_eq!(sent(&asked).last(), Some(&user(INSTRUCTIONS)));
        assert_eq!(asked["tool_choice"], "none");
        let summary = format!("Summary of the conversation so far:\n\n{SUMMARY}");
        // Only Chat Completions requires that roles alternate.
        let expected = if provider == Provider::OpenAi {
            vec![user(format!("{summary}\n\n{}", long("Three")))]
        } else {
            vec![user(summary), user(long("Three"))]
        };
        let kept = sent(&upstream.body(3));
        assert_eq!(kept, expected);

        // The request is recorded as it was sent, no reader sees the summary as an answer, and another
        // process continues from it.
        assert_recorded(&session, &asked).await;
        assert!(!session.events().await.iter().any(
            |event| event["type"] == "agent.message" && event["content"][0]["text"] == SUMMARY
        ));
        let id = session.id.clone();
        let setup = Setup { provider, ..Setup::default() };
        let app = app.restarted_with(script(&says(SUMMARY)), setup).await;
        app.existing_session(&id).ask("Four").await;
        let sent = sent(&app.upstream().body(0));
        assert_eq!((&sent[..kept.len()], sent.len()), (&kept[..], kept.len() + 2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_request_is_too_long_goes_on_with_a_summary() {
    let reads = || calls("read_file", json!({ "path": "notes.txt" }));
    let script = json!({ "conversations": [
        { "when": INSTRUCTIONS, "replies": [says(SUMMARY)] },
        { "when": "Read", "replies": [reads(), reads(), reads(), says("Done.")] },
    ], "otherwise": "refuse" });
    for (provider, refusal) in
        BOTH.into_iter().zip(["maximum context length", "exceeds the context window"])
    {
        let app = start(provider, script.clone(), Some(5500)).await;
        let session = app
            .session_with(json!({ "tools": ["read_file"], "max_tokens": 300,
            "context": { "compact_at": 4500, "compact_instructions": INSTRUCTIONS } }))
            .await;
        app.write_file("notes.txt", &"It is unknown where it was.\n".repeat(300));
        let run = session.ask("Read it all").await;
        assert_eq!(compactions(&session).await.len(), 1, "{run}");
        let refusals = app.simulator.refusals();
        assert!(refusals[0].contains(refusal), "{refusals:?}");
        app.stop_unchecked().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_or_blank_summary_replaces_nothing() {
    let mut incomplete = says(SUMMARY);
    incomplete["stop_reason"] = json!("max_tokens");
    let summaries = [incomplete, says(" ")];
    for (provider, summary) in
        BOTH.into_iter().flat_map(|provider| summaries.iter().map(move |it| (provider, it)))
    {
        let app = start(provider, script(summary), None).await;
        let session = app.session_with(settings(3000)).await;
        for word in ["One", "Two", "Three"] {
            assert_eq!(session.ask(&long(word)).await["output_text"], "Yes.", "{summary}");
        }
        assert_eq!(compactions(&session).await, [] as [Value; 0], "{summary}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_instructions_of_the_session_the_model_is_asked_to_keep_what_later_work_needs() {
    let asks = "You will continue it with your summary";
    let script = json!({ "conversations": [
        { "when": asks, "replies": [says(SUMMARY)] },
        { "replies": [says("Yes.")] },
    ], "otherwise": "refuse" });
    let app = start(Provider::OpenAi, script, None).await;
    let session = app.session_with(json!({ "tools": [], "context": { "compact_at": 3000 } })).await;
    for word in ["One", "Two", "Three"] {
        session.ask(&long(word)).await;
    }
    assert_eq!(compactions(&session).await, [4]);
}
