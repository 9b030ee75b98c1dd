//! The Responses protocol: a strict server accepts the requests, and reasoning comes back unchanged.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use twostep::domain::model::{Known, Models, ProviderModels};
use twostep::domain::provider::Provider;
use twostep::service::ModelRules;

use crate::support::media::{PIXEL, image_at};
use crate::support::model_server::NamedProvider;
use crate::support::{Session, Setup, TestApp, calls, calls_as, problem, replies, says};

pub(super) async fn start(script: Value) -> TestApp {
    let setup = Setup { provider: Provider::OpenAiResponses, ..Setup::default() };
    TestApp::start_with(script, setup).await
}

/// A reply that thinks and calls a tool.
fn thinks_and_reads() -> Value {
    let mut reply = calls("read_file", json!({ "path": "a.txt" }));
    let thinking = json!({ "type": "thinking", "thinking": "I have to read it." });
    reply["content"].as_array_mut().unwrap().insert(0, thinking);
    reply
}

/// A reply of a server of the Messages API that thinks and answers.
fn thinks_and_answers() -> Value {
    json!({ "content": [{ "type": "thinking", "thinking": "I wonder." },
                        { "type": "text", "text": "Well." }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_carry_the_history_and_the_reasoning_and_store_nothing() {
    let app = start(replies(&[thinks_and_reads(), says("It says hello.")])).await;
    app.write_file("a.txt", "hello");
    let settings = json!({ "tools": ["read_file"], "effort": "low" });
    let session = app.session_with(settings).await;
    let run = session.ask("What does a.txt say?").await;
    assert_eq!(run["output_text"], "It says hello.");
    let upstream = app.upstream();
    assert_eq!(upstream.requests[0].path, "/v1/responses");
    let body = upstream.body(1);
    assert_eq!(
        json!([
            body["store"],
            body["include"],
            body["reasoning"],
            body.get("previous_response_id")
        ]),
        json!([false, ["reasoning.encrypted_content"], { "effort": "low" }, null])
    );
    let kinds: Vec<&str> =
        body["input"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    let expected = ["message", "reasoning", "function_call", "function_call_output"];
    assert_eq!(kinds, expected);
    assert!(session.kinds().await.contains(&"agent.thinking".to_owned()));
    let path = session.path(&format!("/runs/{}/requests/2", run["id"].as_str().unwrap()));
    let record: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    assert_eq!(json!([record["form"]["responses"], record["body"]]), json!([true, body]));
    assert!(run["usage"]["input_tokens"].as_i64().unwrap() > 0, "{run}");
}

/// A stream with these items, an end with this status, and further members of the response.
pub(super) fn stream_of(items: &[&str], status: &str, details: &str) -> Value {
    let mut sse = r#"data: {"type":"response.created","response":{"model":"gpt"}}"#.to_owned();
    for (index, item) in items.iter().enumerate() {
        let event =
            format!(r#""type":"response.output_item.done","output_index":{index},"item":{item}"#);
        sse = format!("{sse}\n\ndata: {{{event}}}");
    }
    let response = format!(
        r#""object":"response","status":"{status}","usage":{{"input_tokens":20,"output_tokens":5}}{details}"#
    );
    let event = format!(r#""type":"response.{status}","response":{{{response}}}"#);
    sse = format!("{sse}\n\ndata: {{{event}}}\n\n");
    json!({ "raw_sse": sse })
}

/// A reasoning item that no serializer would write like this. The simulator verifies its content.
const REASONING: &str = concat!(
    r#"{"type":"reasoning",  "id":"rs_7","summary":[ ],"status":null,"encrypted_content":"#,
    r#""gAAAAA216fcd98e039702f701ca1e0840779de5509213a8bb5473aa8d2b1b452f7ab3d"}"#,
);

#[tokio::test(flavor = "multi_thread")]
async fn a_reasoning_item_is_sent_back_byte_for_byte_before_its_call() {
    let call = r#"{"type":"function_call","call_id":"call_7","name":"read_file","arguments":"{\"path\":\"a.txt\"}"}"#;
    let thinks = stream_of(&[REASONING, call], "completed", "");
    let app = start(replies(&[thinks, says("It says hello."), says("Again.")])).await;
    app.write_file("a.txt", "hello");
    let session = app.session_with(json!({ "tools": ["read_file"] })).await;
    assert_eq!(session.ask("What does a.txt say?").await["output_text"], "It says hello.");
    let sent = format!(r#"{REASONING},{{"type":"function_call","call_id":"call_7","#);
    let second = app.upstream().text(1);
    assert!(second.contains(&sent), "{second}");
    // Another process has the item from the database.
    let id = session.id.clone();
    let setup = Setup { provider: Provider::OpenAiResponses, ..Setup::default() };
    let app = app.restarted_with(replies(&[says("Again.")]), setup).await;
    assert_eq!(app.existing_session(&id).ask("And now?").await["output_text"], "Again.");
    let third = app.upstream().text(0);
    assert!(third.contains(&sent), "{third}");
    app.end_refused(&[]);
}

/// The changes to the history that is sent.
async fn changes(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let sent = events.iter().map(|event| event["sent_history"]["change"].clone());
    sent.filter(|change| !change.is_null()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_changes_its_provider_takes_no_reasoning_with_it() {
    let second =
        NamedProvider::start("second", Provider::Anthropic, &replies(&[thinks_and_answers()]))
            .await;
    let models = [("second".to_owned(), ProviderModels::new(Provider::Anthropic, Known::new()))];
    let default = ProviderModels::new(Provider::OpenAiResponses, Known::new());
    let models = Arc::new(Models::of(default, models.into()));
    let setup = Setup {
        model_rules: ModelRules { models, ..ModelRules::default() },
        provider: Provider::OpenAiResponses,
        providers: vec![second.server.clone()],
        ..Setup::default()
    };
    let app = TestApp::start_with(replies(&[thinks_and_reads(), says("It says hello.")]), setup);
    let app = app.await;
    app.write_file("a.txt", "hello");
    let session = app.session().await;
    session.ask("What does a.txt say?").await;
    assert!(app.upstream().text(1).contains("encrypted_content\":\"gAAAAA"));

    let other = json!({ "content": "Go on", "model": "second/claude-sonnet-5-5" });
    assert_eq!(session.ask_with(other).await["output_text"], "Well.");
    let sent = second.upstream().text(0);
    assert!(!sent.contains("gAAAAA") && !sent.contains(r#""type":"thinking""#), "{sent}");
    assert!(sent.contains("tool_use"), "{sent}");

    app.play(&replies(&[says("Back.")]));
    assert_eq!(session.ask("Back?").await["output_text"], "Back.");
    let sent = app.upstream().text(2);
    assert!(!sent.contains("\"type\":\"reasoning\"") && !sent.contains("I wonder."), "{sent}");
    assert_eq!(changes(&session).await, ["thinking_dropped"; 2]);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_reasoning_is_left_out_of_later_requests() {
    let mut script = replies(&[thinks_and_reads(), says("It says hello.")]);
    let message = "The encrypted content gAAA... could not be verified.";
    script["unreadable"] = json!([{ "type": "reasoning", "message": message }]);
    let app = start(script).await;
    app.write_file("a.txt", "hello");
    let session = app.session().await;
    assert_eq!(session.ask("What does a.txt say?").await["output_text"], "It says hello.");
    assert_eq!(changes(&session).await, ["thinking_dropped"]);
    assert_eq!(app.upstream().len(), 3);
    assert!(!app.upstream().text(2).contains("gAAAAA"));
    app.end_refused(&[message]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_the_protocol_lacks_are_refused() {
    let models = Arc::new(Models::new(Provider::OpenAiResponses, Known::new()));
    let model_rules = ModelRules { models, ..ModelRules::default() };
    let provider = Provider::OpenAiResponses;
    let setup = Setup { model_rules, provider, ..Setup::default() };
    let app = TestApp::start_with(replies(&[]), setup).await;
    for (member, value) in
        [("stop_sequences", json!(["END"])), ("top_k", json!(5)), ("seed", json!(7))]
    {
        let response = app.post("/v1/sessions").json(&json!({ member: value })).send().await;
        let refused = problem(response.unwrap(), 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], format!("/{member}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_follows_a_schema() {
    let app = start(replies(&[says(r#"{"degrees": -4}"#)])).await;
    let schema = json!({ "type": "object", "properties": { "degrees": { "type": "integer" } },
                         "required": ["degrees"], "additionalProperties": false });
    let session = app.session_with(json!({ "output_schema": schema })).await;
    let run = session.ask("How warm is it?").await;
    assert_eq!(run["output"], json!({ "degrees": -4 }), "{run}");
    let format = json!({ "type": "json_schema", "name": "output", "strict": true,
                         "schema": schema });
    assert_eq!(app.upstream().body(0)["text"], json!({ "format": format }));
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_messages_and_of_results_are_sent_where_they_are() {
    let script = replies(&[
        calls_as(&[("call_1", "Read", json!({ "file_path": "a.png" }))]),
        says("Two pictures."),
    ]);
    let app = start(script).await;
    let bytes = STANDARD.decode(PIXEL).unwrap();
    std::fs::write(app.folder.path().join("a.png"), bytes).unwrap();
    let session = app.session_with(json!({ "tools": ["Read"] })).await;
    let url = "https://example.com/a.png";
    let text = json!({ "type": "text", "text": "Compare it with a.png." });
    let run = session.ask_with(json!({ "content": [text, image_at(url)] })).await;
    assert_eq!(run["output_text"], "Two pictures.", "{run}");
    let input = app.upstream().body(1)["input"].clone();
    let shown = |url: &str| json!({ "type": "input_image", "image_url": url, "detail": "auto" });
    assert_eq!(input[0]["content"][1], shown(url));
    assert_eq!(input[2]["type"], "function_call_output");
    assert_eq!(input[2]["output"][1], shown(&format!("data:image/png;base64,{PIXEL}")), "{input}");
    app.end_refused(&[]);
}
