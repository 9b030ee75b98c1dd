//! Pairs of settings that the model's API refuses together are refused before they enter a session,
//! where they would fail every later request.

use serde_json::{Value, json};
use twostep::service::ModelRules;

use crate::support::{Setup, TestApp, calls, pending, problem, replies, says};

fn schema() -> Value {
    json!({ "type": "object", "additionalProperties": false })
}

fn document(is_cited: bool) -> Value {
    json!({ "type": "document", "citations": { "enabled": is_cited },
            "source": { "type": "text", "media_type": "text/plain", "data": "Rain at noon." } })
}

fn search_result(is_cited: bool) -> Value {
    json!({ "type": "search_result", "source": "https://example.org", "title": "Weather",
            "content": [{ "type": "text", "text": "Rain at noon." }],
            "citations": { "enabled": is_cited } })
}

/// Posts a body and returns the pointer of the refusal.
async fn refused(app: &TestApp, path: &str, body: &Value) -> String {
    let refused = app.post(path).json(body).send().await.unwrap();
    let refused = problem(refused, 422, "validation_failed").await;
    refused["errors"][0]["pointer"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn cited_content_is_refused_in_a_session_with_an_output_schema() {
    let app = TestApp::start(replies(&[says("{}"), says("{}")])).await;
    let session = app.session_with(json!({ "output_schema": schema() })).await;
    let path = session.path("/messages");
    let text = json!({ "type": "text", "text": "When does it rain?" });
    for block in [document(true), search_result(true)] {
        let body = json!({ "content": [text, block] });
        assert_eq!(refused(&app, &path, &body).await, "/content/1/citations");
    }
    for block in [document(false), search_result(false)] {
        let run = session.ask_with(json!({ "content": [text, block] })).await;
        assert_eq!(run["output_text"], "{}", "{run}");
    }
    // Without a schema, citations are allowed.
    let session = app.session().await;
    let run = session.ask_with(json!({ "content": [text, document(true)] })).await;
    assert_eq!(run["status"], "completed", "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cited_result_of_a_client_tool_is_refused_in_a_session_with_an_output_schema() {
    let app = TestApp::start(replies(&[calls("look_up", json!({})), says("{}")])).await;
    let tool = json!({ "name": "look_up", "client": true, "input_schema": { "type": "object" } });
    let settings = json!({ "output_schema": schema(), "tools": [tool] });
    let session = app.session_with(settings).await;
    let run = session.ask("When does it rain?").await;
    let call = pending(&run)[0];
    let path = session.path("/tool_results");
    let result = |block: Value| json!({ "results": [{ "tool_use_id": call, "content": [block] }] });
    let pointer = refused(&app, &path, &result(document(true))).await;
    assert_eq!(pointer, "/results/0/content/0/citations");
    let accepted = app.post(&path).json(&result(document(false))).send().await.unwrap();
    assert!(accepted.status().is_success(), "{accepted:?}");
    assert_eq!(session.settled(&run).await["output_text"], "{}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cited_pages_are_refused_together_with_an_output_schema() {
    let server_tools = vec!["web_fetch_20250910".parse().unwrap()];
    let model_rules = ModelRules { server_tools, ..ModelRules::default() };
    let app =
        TestApp::start_with(replies(&[says("{}")]), Setup { model_rules, ..Setup::default() })
            .await;
    let settings = |is_cited: bool| {
        let options = json!({ "citations": { "enabled": is_cited } });
        json!({ "output_schema": schema(), "tools": [{ "name": "web_fetch", "options": options }] })
    };
    assert_eq!(refused(&app, "/v1/sessions", &settings(true)).await, "/output_schema");
    let run = app.session_with(settings(false)).await.ask("When does it rain?").await;
    assert_eq!(run["output_text"], "{}", "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_tool_choice_is_refused_together_with_thinking_of_every_kind() {
    let app = TestApp::start(replies(&[says("Noon.")])).await;
    let forced = json!({ "type": "any" });
    let budget = json!({ "type": "enabled", "budget_tokens": 1024 });
    for thinking in [budget, json!({ "type": "adaptive" })] {
        let settings = json!({ "thinking": thinking, "tools": ["get_time"], "max_tokens": 5000 });
        let mut both = settings.clone();
        both["tool_choice"] = forced.clone();
        assert_eq!(refused(&app, "/v1/sessions", &both).await, "/tool_choice", "{thinking}");
        let session = app.session_with(settings).await;
        let body = json!({ "content": "What time is it?", "tool_choice": forced });
        assert_eq!(refused(&app, &session.path("/messages"), &body).await, "/tool_choice");
        assert_eq!(session.ask(&format!("Hi {thinking}")).await["output_text"], "Noon.");
    }
}
