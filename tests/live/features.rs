//! Features of the API, each in a session of its own. A second message shows that the model accepts the
//! history that the first one has left.

use serde_json::{Value, json};

use crate::live_service::LiveService;

/// A PNG of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

fn pixel() -> Value {
    json!({ "type": "image",
            "source": { "type": "base64", "media_type": "image/png", "data": PIXEL } })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

#[tokio::test]
#[ignore = "needs ANTHROPIC_API_KEY and costs money"]
async fn thinking_is_sent_back_with_the_results_of_calls() {
    let service = LiveService::start(&[]).await;
    let settings = json!({ "tools": ["get_time"], "thinking": { "type": "adaptive" } });
    let session = service.session(settings).await;
    session.ask("What time is it in Oslo, and what in Lima? Call the tool for both.").await;
    assert!(!session.blocks("tool_result").await.is_empty());
    session.ask("Which of the two is later in the day?").await;
}

#[tokio::test]
#[ignore = "needs ANTHROPIC_API_KEY and costs money"]
async fn an_answer_follows_the_output_schema() {
    let service = LiveService::start(&[]).await;
    let schema = json!({ "type": "object", "properties": { "capital": { "type": "string" } },
                         "required": ["capital"], "additionalProperties": false });
    let session = service.session(json!({ "output_schema": schema })).await;
    let run = session.ask("What is the capital of Norway?").await;
    let answer: Value = serde_json::from_str(run["output_text"].as_str().unwrap()).unwrap();
    assert!(answer["capital"].is_string(), "{answer}");
}

#[tokio::test]
#[ignore = "needs ANTHROPIC_API_KEY and costs money"]
async fn images_of_users_and_of_tools_are_accepted() {
    let service = LiveService::start(&[]).await;
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, PIXEL).unwrap();
    std::fs::write(service.workspace_file("pixel.png"), bytes).unwrap();
    let session = service.session(json!({ "tools": ["Read"] })).await;
    session.ask(json!([text("How many pixels may this have?"), pixel()])).await;
    session.ask("Read pixel.png. Is it the same picture?").await;
    assert_eq!(session.blocks("image").await.len(), 2);
    session.ask("Thank you.").await;
}

#[tokio::test]
#[ignore = "needs ANTHROPIC_API_KEY and costs money"]
async fn citations_of_a_document_are_stored() {
    let service = LiveService::start(&[]).await;
    let session = service.session(json!({})).await;
    let document = json!({ "type": "document", "title": "Opening hours", "citations": { "enabled": true },
        "source": { "type": "text", "media_type": "text/plain",
                    "data": "The library opens at nine. It closes at six." } });
    session.ask(json!([document, text("When does it close? Cite the document.")])).await;
    let cited = |block: &Value| block["citations"].as_array().is_some_and(|all| !all.is_empty());
    assert!(session.blocks("text").await.iter().any(cited), "no citation");
    session.ask("And when does it open?").await;
}

#[tokio::test]
#[ignore = "needs ANTHROPIC_API_KEY and costs money"]
async fn the_provider_searches_the_web_and_runs_code() {
    let service = LiveService::start(&["--server-tools", "web_search,code_execution"]).await;
    let session = service.session(json!({ "tools": ["web_search"] })).await;
    let run = session.ask("Search the web: what is the newest version of PostgreSQL?").await;
    assert!(run["sources"].as_array().is_some_and(|sources| !sources.is_empty()), "{run}");
    session.ask("When was it released?").await;

    let session = service.session(json!({ "tools": ["code_execution", "get_time"] })).await;
    let run =
        session.ask("Compute 17 to the power of 23 with code, and get the time in Oslo.").await;
    let requests = session.get(&format!("/runs/{}/requests", run["id"].as_str().unwrap())).await;
    println!("{requests}");
    session.ask("Compute it again with the same code, plus one.").await;
}

#[tokio::test]
#[ignore = "needs ANTHROPIC_API_KEY and costs money"]
async fn a_long_history_is_compacted_and_read_from_the_cache() {
    let service = LiveService::start(&[]).await;
    let session = service.session(json!({ "context": { "compact_at": 12_000 } })).await;
    let story = "The fox went to the mill, and the miller gave it flour. ".repeat(500);
    session.ask(format!("Remember this story, and answer OK. {story}")).await;
    let run = session.ask("Who gave the flour?").await;
    assert!(run["usage"]["cache_read_input_tokens"].as_i64().unwrap() > 0, "{run}");
    session.ask(format!("It goes on; answer OK. {story}")).await;
    session.ask("Where did the fox go?").await;
    assert!(!session.events("agent.context_compacted").await.is_empty(), "not compacted");
    session.ask("And who gave what?").await;
}

#[tokio::test]
#[ignore = "needs ANTHROPIC_API_KEY and costs money"]
async fn a_session_changes_its_model_and_back() {
    let service = LiveService::start(&[]).await;
    let other = std::env::var("TWOSTEP_LIVE_OTHER_MODEL");
    let other = other.unwrap_or_else(|_| "claude-haiku-4-5".to_owned());
    let session = service.session(json!({ "tools": ["get_time"] })).await;
    let model = session.get("").await["model"].clone();
    session.ask("What time is it in Oslo?").await;
    session.ask_with(json!({ "content": "And in Lima?", "model": other })).await;
    session.patch(json!({ "model": other })).await;
    session.ask("Which is later in the day?").await;
    session.patch(json!({ "model": model })).await;
    session.ask("By how many hours?").await;
}

#[tokio::test]
#[ignore = "needs ANTHROPIC_API_KEY and costs money"]
async fn settings_of_requests_are_accepted() {
    let service = LiveService::start(&[]).await;
    let forced = json!({ "type": "tool", "name": "get_time", "disable_parallel_tool_use": true });
    let settings = json!({
        "tools": ["get_time"], "system": "You are brief.", "effort": "low", "max_tokens": 4000,
        "stop_sequences": ["THE END"], "extra_body": { "inference_geo": "global" },
        "context": { "edits": [{ "type": "clear_tool_uses_20250919" }] },
    });
    let session = service.session(settings).await;
    let message = json!({ "content": "What time is it in Oslo?", "tool_choice": forced });
    session.ask_with(message).await;
    assert!(!session.blocks("tool_result").await.is_empty());
    let run = session.ask("Write one line, then THE END, then another line.").await;
    println!("{}", run["stop_reason"]);
}

#[tokio::test]
#[ignore = "needs ANTHROPIC_API_KEY and costs money"]
async fn a_sub_agent_reports_to_its_session_which_gets_a_title() {
    let service = LiveService::start(&[]).await;
    std::fs::write(service.workspace_file("notes.txt"), "The key is under the mat.").unwrap();
    let settings = json!({ "tools": ["Task", "read_file"], "generate_title": true,
                           "permissions": [{ "tool": "Task", "decision": "allow" }] });
    let session = service.session(settings).await;
    session.ask("Let a sub-agent read notes.txt and say where the key is.").await;
    assert!(!session.blocks("tool_result").await.is_empty());
    session.ask("Thank you.").await;
    println!("{}", session.get("").await["title"]);
}
