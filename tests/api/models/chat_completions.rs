//! The Chat Completions protocol: scripts give the same runs as with the Messages protocol, and a
//! strict server accepts the requests.

use serde_json::{Value, json};
use twostep::domain::provider::Provider;

use crate::support::kept_output::MODEL_KEY;
use crate::support::{Session, Setup, TestApp, asks, calls, calls_as, replies, says};

const ALL: [Provider; 3] = [Provider::Anthropic, Provider::OpenAi, Provider::OpenAiResponses];

fn setup_for(provider: Provider) -> Setup {
    Setup { provider, ..Setup::default() }
}

async fn start(script: Value) -> TestApp {
    TestApp::start_with(script, setup_for(Provider::OpenAi)).await
}

/// A value without the members that each server generates.
fn without_ids(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(key, _)| !["id", "tool_use_id", "caller"].contains(&key.as_str()))
            .map(|(key, member)| (key.clone(), without_ids(member)))
            .collect(),
        Value::Array(items) => items.iter().map(without_ids).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The result of a run, the types of its events, and the stored history.
async fn outcome(session: &Session<'_>, run: &Value) -> Value {
    let history = session.history().await;
    let stored: Vec<Value> =
        history.iter().map(|item| without_ids(&item["message"]["content"])).collect();
    json!({
        "status": run["status"],
        "answer": run["output_text"],
        "stop_reason": run["stop_reason"],
        "requests": run["model_requests"],
        "kinds": session.kinds().await,
        "history": stored,
    })
}

fn fails_first(failures: Value) -> Value {
    let mut reply = says("Here I am.");
    reply["fail_first"] = failures;
    reply
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_gives_the_same_run_in_all_protocols() {
    let soon = |status: u16| json!({ "status": status, "headers": { "retry-after-ms": "5" } });
    let wrong = |key: &str, value: Value| {
        let mut reply = says("WRONG, and WRONG again");
        reply[key] = value;
        reply
    };
    let read =
        |path: &str| json!({ "type": "tool_use", "name": "read_file", "input": { "path": path } });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let table = [
        vec![says("Four.")],
        vec![calls("read_file", json!({ "path": "a.txt" })), says("It says: {{result.0}}")],
        vec![
            json!({ "content": [text("Both, then."), read("a.txt"), read("b.txt")] }),
            says("{{result.1}} and {{result.0}}"),
        ],
        vec![calls("read_file", json!({ "path": "none.txt" })), says("It failed: {{results}}")],
        vec![calls("no_such_tool", json!({})), says("It failed.")],
        vec![
            json!({ "content": [{ "type": "tool_use", "name": "read_file", "raw_input": "[1" }] }),
            says("It failed."),
        ],
        vec![json!({ "content": [text("As I was say")], "stop_reason": "max_tokens" })],
        vec![json!({ "content": [text("I will n")], "stop_reason": "refusal" })],
        vec![json!({ "content": [] })],
        vec![fails_first(json!([soon(529), soon(503), soon(429)]))],
        vec![fails_first(json!([wrong("cut_after", json!(3))]))],
        vec![fails_first(json!([wrong("error_after", json!(3))]))],
        vec![json!({ "status": 400 })],
        vec![json!({ "status": 402 })],
    ];
    let start = async |provider| {
        let app = TestApp::start_with(replies(&[]), setup_for(provider)).await;
        app.write_file("a.txt", "hello");
        app.write_file("b.txt", "there");
        app
    };
    let apps = [start(ALL[0]).await, start(ALL[1]).await, start(ALL[2]).await];
    for (number, script) in table.into_iter().enumerate() {
        let mut outcomes = Vec::new();
        for app in &apps {
            app.play(&replies(&script));
            let session = app.session().await;
            let run = session.ask(&format!("Go on, {number}")).await;
            outcomes.push(outcome(&session, &run).await);
        }
        assert_eq!(outcomes[0], outcomes[1], "{script:?}");
        assert_eq!(outcomes[0], outcomes[2], "{script:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_follow_the_protocol() {
    let reads = json!({ "content": [
        { "type": "thinking", "thinking": "Hm." },
        { "type": "text", "text": "I look." },
        { "type": "tool_use", "name": "read_file", "input": { "path": "a.txt" } },
        { "type": "tool_use", "name": "read_file", "input": { "path": "none.txt" } } ] });
    let app = start(replies(&[reads, says("It says hello.")])).await;
    app.write_file("a.txt", "hello");
    let settings = json!({ "tools": ["read_file"], "stop_sequences": ["END"],
                           "thinking": { "type": "adaptive" } });
    let session = app.session_with(settings).await;
    assert_eq!(session.ask("What does a.txt say?").await["output_text"], "It says hello.");

    let upstream = app.upstream();
    let request = &upstream.requests[1];
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.headers["authorization"], format!("Bearer {MODEL_KEY}"));
    assert!(request.headers.keys().all(|name| name != "x-api-key" && name != "anthropic-version"));
    let mut body = upstream.body(1);
    let [tool, messages] = ["tools", "messages"].map(|field| body[field].take());
    let expected = json!({
        "model": "simulator", "max_tokens": 1000, "stream": true,
        "stream_options": { "include_usage": true }, "stop": ["END"],
        "tools": null, "messages": null,
    });
    assert_eq!(body, expected);
    assert_eq!(tool[0]["function"]["name"], "read_file");
    assert_eq!(tool[0]["function"]["parameters"]["type"], "object");

    let history = session.history().await;
    let ids = [2, 3].map(|at| history[1]["message"]["content"][at]["id"].clone());
    let call = |id: &Value, arguments: &str| {
        json!({ "id": id, "type": "function",
        "function": { "name": "read_file", "arguments": arguments } })
    };
    let failure = &history[2]["message"]["content"][1]["content"];
    assert!(failure.as_str().unwrap().starts_with("Error"), "{failure}");
    let expected = json!([
        { "role": "system", "content": crate::support::SYSTEM },
        { "role": "user", "content": "What does a.txt say?" },
        { "role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [
            call(&ids[0], r#"{"path":"a.txt"}"#), call(&ids[1], r#"{"path":"none.txt"}"#) ] },
        { "role": "tool", "tool_call_id": ids[0], "content": "hello" },
        { "role": "tool", "tool_call_id": ids[1], "content": failure },
    ]);
    assert_eq!(messages, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn model_settings_are_translated_to_the_protocol() {
    let schema = json!({
        "type": "object", "properties": { "degrees": { "type": "integer" } },
        "required": ["degrees"], "additionalProperties": false,
    });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let settings = json!({ "effort": "max", "output_schema": schema,
                           "system": [text("Be brief."), text("Be kind.")] });
    let app = start(replies(&[says(r#"{"degrees": -4}"#)])).await;
    let run = app.session_with(settings).await.ask("How warm is it?").await;
    assert_eq!(run["output"], json!({ "degrees": -4 }));
    let sent = app.upstream().body(0);
    let format = json!({ "name": "output", "strict": true, "schema": schema });
    assert_eq!(sent["response_format"], json!({ "type": "json_schema", "json_schema": format }));
    assert_eq!(sent["reasoning_effort"], "high");
    let system = json!({ "role": "system", "content": "Be brief.\n\nBe kind." });
    assert_eq!(sent["messages"][0], system);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_shown_byte_for_byte_as_it_was_sent() {
    let reads = json!({ "content": [
        { "type": "text", "text": "I look." },
        { "type": "tool_use", "name": "read_file", "raw_input": r#"{"path":  "a.txt"}"# } ] });
    let app = start(replies(&[reads, says("It says hello.")])).await;
    app.write_file("a.txt", "hello");
    let session = app.session().await;
    let run = session.ask("What does it say?").await;
    for n in [1, 2] {
        let path = session.path(&format!("/runs/{}/requests/{n}", run["id"].as_str().unwrap()));
        let shown = app.get(&path).send().await.unwrap().text().await.unwrap();
        let sent = format!(r#","body":{}}}"#, app.upstream().text(n - 1));
        assert!(shown.ends_with(&sent), "{shown}\n{sent}");
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let dialect = json!({ "max_tokens_field": "max_tokens", "takes_images": true });
        assert_eq!(shown["form"]["chat_completions"], dialect);
        assert!(shown["attempts"][0]["request_id"].is_string(), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_can_be_required_and_forbidden() {
    let mut asks = calls("get_time", json!({}));
    asks["repeat"] = 9.into();
    asks["when_forbidden"] = "It is about noon.".into();
    let app = start(replies(&[asks])).await;
    let choice = json!({ "type": "tool", "name": "get_time" });
    let message = json!({ "content": "What time is it?", "limits": { "rounds": 2 },
                          "tool_choice": choice });
    let run = app.session().await.ask_with(message).await;
    assert_eq!((&run["output_text"], &run["limited"]), (&json!("It is about noon."), &json!(true)));
    let upstream = app.upstream();
    let choices: Vec<Value> = (0..3).map(|at| upstream.body(at)["tool_choice"].clone()).collect();
    let named = json!({ "type": "function", "function": { "name": "get_time" } });
    assert_eq!(choices, [named, Value::Null, json!("none")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn previews_add_up_to_the_stored_events() {
    let asks = json!({ "content": [
        { "type": "text", "text": "I will look at it now." },
        { "type": "tool_use", "name": "read_file", "input": { "path": "a.txt" } } ],
        "pace_ms": 20, "chunk": 5 });
    let app = start(replies(&[asks, says("Hello.")])).await;
    app.write_file("a.txt", "hello");
    let session = app.session().await;
    let events = session.stream("Go on").await.rest().await;
    for kind in ["agent.message", "agent.tool_use"] {
        let stored = events.iter().find(|event| event.name == kind).unwrap();
        let previewed: String = events
            .iter()
            .filter(|event| {
                event.name == "event_delta" && event.data["event_id"] == stored.data["id"]
            })
            .map(|event| &event.data["delta"])
            .map(|delta| delta["content"]["text"].as_str().or(delta["partial_json"].as_str()))
            .map(Option::unwrap)
            .collect();
        let whole = match kind {
            "agent.message" => stored.data["content"][0]["text"].as_str().unwrap().to_owned(),
            _ => stored.data["input"].to_string(),
        };
        assert_eq!(previewed, whole);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_counted_once() {
    let mut answer = says("Four.");
    answer["usage"] = json!({ "input_tokens": 20, "cache_read_input_tokens": 80,
        "output_tokens": 30, "output_tokens_details": { "thinking_tokens": 25 } });
    let app = start(replies(&[answer])).await;
    let run = app.session().await.ask("What is 2 + 2?").await;
    let expected = json!({ "input_tokens": 20, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 80, "output_tokens": 30, "thinking_tokens": 25 });
    assert_eq!(run["usage"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_call_is_reported_to_the_model() {
    let script = replies(&[
        calls_as(&[("call_1", "ring", json!({ "line": "a" }))]),
        says("It said: {{results}}"),
    ]);
    let app = TestApp::start_with(script, Setup { provider: Provider::OpenAi, ..asks() }).await;
    let session = app.session().await;
    let run = session.ask("Ring").await;
    assert_eq!(run["status"], "requires_action");
    session.deny("call_1", "Not at night.").await;
    let run = session.settled(&run).await;
    let answer = "It said: Error: The approver denied this call, and it did not run. Not at night.";
    assert_eq!(run["output_text"], answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_a_result_is_sent_in_a_user_message() {
    let camera = json!({ "name": "take_picture", "client": true, "description": "Takes one.",
                         "input_schema": { "type": "object" } });
    let script = json!({ "conversations": [
        { "when": "images of the result", "replies": [says("A very small picture.")] },
        { "replies": [calls_as(&[("call_1", "take_picture", json!({}))])] },
    ], "otherwise": "refuse" });
    let app = start(script).await;
    let session = app.session_with(json!({ "tools": [camera] })).await;
    let run = session.ask("What do you see?").await;
    let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let image = json!({ "type": "image",
        "source": { "type": "base64", "media_type": "image/png", "data": pixel } });
    let result = json!({ "tool_use_id": "call_1", "content": [
        { "type": "text", "text": "Taken." }, image ] });
    let path = session.path("/tool_results");
    let response = app.post(&path).json(&json!({ "results": [result] })).send().await.unwrap();
    assert!(response.status().is_success(), "{}", response.text().await.unwrap());
    assert_eq!(session.settled(&run).await["output_text"], "A very small picture.");
    let messages = app.upstream().body(1)["messages"].clone();
    let expected = json!([
        { "role": "tool", "tool_call_id": "call_1",
          "content": "Taken.\n[images: in the next message of the user]" },
        { "role": "user", "content": [
            { "type": "text", "text": "Images of the result of call_1:" },
            { "type": "image_url",
              "image_url": { "url": format!("data:image/png;base64,{pixel}") } } ] },
    ]);
    assert_eq!(Value::from(messages.as_array().unwrap()[3..].to_vec()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_in_its_stream_leaves_its_message_and_its_text() {
    let hangs = json!({ "content": [{ "type": "text", "text": "Well, let me see." }],
                        "hang_after": 3 });
    let script = json!({ "conversations": [
        { "when": "are you there", "replies": [says("Still here.")] },
        { "when": "go", "replies": [hangs] },
    ], "otherwise": "refuse" });
    let app = start(script).await;
    let session = app.session().await;
    let mut events = session.stream("go").await;
    let delta = events.until("event_delta").await;
    session.cancel(&json!({ "id": delta.data["run_id"] })).await;
    let settled = session.settled(&json!({ "id": delta.data["run_id"] })).await;
    assert_eq!(settled["status"], "cancelled");
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
    let upstream = app.upstream();
    let messages = &upstream.body(1)["messages"];
    let text = session.history().await[1]["message"]["content"][0]["text"].clone();
    assert!("Well, let me see.".starts_with(text.as_str().unwrap()), "{text}");
    let expected = json!([
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": text },
        { "role": "user", "content": "Are you there?" },
    ]);
    assert_eq!(Value::from(messages.as_array().unwrap()[1..].to_vec()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_change_to_another_protocol_and_back() {
    let thinks = json!({ "content": [
        { "type": "thinking", "thinking": "I had better look." },
        { "type": "tool_use", "name": "read_file", "input": { "path": "a.txt" } } ] });
    let reads = || replies(&[thinks.clone(), says("It says: {{result.0}}")]);
    let app = TestApp::start(reads()).await;
    app.write_file("a.txt", "hello");
    let session = app.session().await;
    session.ask("What does it say?").await;
    let id = session.id.clone();

    let app = app.restarted_with(reads(), setup_for(Provider::OpenAi)).await;
    let session = app.existing_session(&id);
    assert_eq!(session.ask("And now?").await["output_text"], "It says: hello");
    assert!(
        !app.upstream().text(0).contains("I had better look."),
        "thinking is not sent to another provider"
    );

    let app = app.restarted(reads()).await;
    let session = app.existing_session(&id);
    assert_eq!(session.ask("And again?").await["output_text"], "It says: hello");
    let sent = app.upstream().body(0);
    let stored: Vec<Value> =
        session.history().await.iter().map(|item| item["message"]["content"].clone()).collect();
    let sent: Vec<Value> =
        sent["messages"].as_array().unwrap().iter().map(|item| item["content"].clone()).collect();
    assert_eq!(stored[..sent.len()], sent, "each block is sent back unchanged");
}
