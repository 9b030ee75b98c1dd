//! Replies that are too large, and replies with calls that the model's server would refuse as a part
//! of later requests.

use serde_json::{Value, json};
use twostep::domain::provider::Provider;

use crate::support::{Session, Setup, TestApp, calls, calls_as, replies, says};

const ALL: [Provider; 3] = [Provider::Anthropic, Provider::OpenAi, Provider::OpenAiResponses];

async fn start(provider: Provider, script: Value) -> TestApp {
    TestApp::start_with(script, Setup { provider, ..Setup::default() }).await
}

/// The session after a failed run. The scripts of the other protocols take both messages of the user as
/// one, which would select the reply to the first one again.
async fn next_session<'a>(
    app: &'a TestApp,
    session: Session<'a>,
    provider: Provider,
) -> Session<'a> {
    match provider {
        Provider::Anthropic => session,
        Provider::OpenAi | Provider::OpenAiResponses => app.session().await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_without_an_end_fails_the_run_with_the_bound_that_it_exceeds() {
    for provider in ALL {
        let line = format!("data: {}", "x".repeat(17 * 1024 * 1024));
        let script = json!({ "conversations": [
            { "when": "go", "replies": [{ "raw_sse": line }] },
            { "replies": [says("Still here.")] },
        ], "otherwise": "refuse" });
        let app = start(provider, script).await;
        let session = app.session().await;
        let run = session.ask("go").await;
        let message = "the model's reply is larger than 16777216 bytes";
        let error = json!({ "type": "model_request_failed_error", "message": message,
                            "reason": "reply_too_large" });
        assert_eq!(json!([run["status"], run["error"]]), json!(["failed", error]));
        assert_eq!(app.upstream().len(), 1, "a reply that is too large is not requested again");
        let session = next_session(&app, session, provider).await;
        assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_an_invalid_name_never_enters_the_history() {
    for (provider, name) in ALL
        .into_iter()
        .flat_map(|provider| [(provider, "read file".to_owned()), (provider, "x".repeat(10_000))])
    {
        let bad = calls(&name, json!({}));
        let mut good = says("Without a tool.");
        good["fail_first"] = json!([bad]);
        let script = json!({ "conversations": [
            { "when": "always", "replies": [bad] },
            { "when": "once", "replies": [good] },
            { "replies": [says("Still here.")] },
        ], "otherwise": "refuse" });
        let app = start(provider, script).await;
        let session = app.session().await;
        let run = session.ask("always").await;
        assert_eq!(
            json!([run["status"], run["error"]["type"]]),
            json!(["failed", "model_request_failed_error"])
        );
        let message = run["error"]["message"].as_str().unwrap();
        assert!(message.contains("is not the name of a tool") && message.len() < 200, "{message}");
        assert_eq!(app.upstream().len(), 3, "the request is sent three times");
        let session = next_session(&app, session, provider).await;
        assert_eq!(session.ask("once").await["output_text"], "Without a tool.");
        assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_an_invalid_or_repeated_id_gets_a_new_one() {
    let long = "x".repeat(5000);
    for (provider, id) in ALL.into_iter().flat_map(|provider| {
        [(provider, "a b"), (provider, long.as_str()), (provider, "toolu_again")]
    }) {
        let round = || calls_as(&[(id, "get_time", json!({})), (id, "get_time", json!({}))]);
        let app = start(provider, replies(&[round(), round(), says("Noon.")])).await;
        let session = app.session().await;
        assert_eq!(session.ask("What time is it?").await["output_text"], "Noon.");
        let events = session.events().await;
        let calls = events.iter().filter(|event| event["type"] == "agent.tool_use");
        let ids: Vec<&str> = calls.map(|event| event["id"].as_str().unwrap()).collect();
        let new = ids.iter().filter(|id| id.starts_with("call_")).count();
        assert_eq!((ids.len(), new), (4, if id == "toolu_again" { 3 } else { 4 }), "{ids:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_call_with_an_invalid_id_never_enters_the_history() {
    let search = json!({ "content": [
        { "type": "server_tool_use", "id": "srv toolu", "name": "web_search", "input": {} },
        { "type": "web_search_tool_result", "tool_use_id": "srv toolu", "content": [] },
        { "type": "text", "text": "Found." },
    ] });
    let mut good = says("Without a search.");
    good["fail_first"] = json!([search]);
    let app = TestApp::start(replies(&[good])).await;
    let session = app.session().await;
    assert_eq!(session.ask("Search").await["output_text"], "Without a search.");
    assert_eq!(session.ask("Again").await["output_text"], "Without a search.");
}
