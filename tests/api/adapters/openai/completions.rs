//! Completions and their chunks.

use serde_json::{Value, json};

use super::{assistant, chunks, complete, post, runs, session_of, text, user};
use crate::support::{TestApp, asks, calls, calls_as, keys_needed, replies, says};

fn lookup() -> Value {
    json!({ "content": [
        { "type": "text", "text": "I look it up." },
        { "type": "tool_use", "id": "toolu_1", "name": "lookup", "input": { "word": "a" } },
    ] })
}

fn tools() -> Value {
    let parameters = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
    let function =
        json!({ "name": "lookup", "description": "Looks up.", "parameters": parameters });
    json!([{ "type": "function", "function": function }])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_is_the_answer_of_the_agent() {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), says("It is late.")])).await;
    let messages = [json!({ "role": "system", "content": "Be brief." }), user("What time is it?")];
    let completion = complete(&app, &messages, json!({ "temperature": 0.5, "user": "u1" })).await;
    let choice = json!({ "index": 0, "finish_reason": "stop", "logprobs": null, "message":
        { "role": "assistant", "content": "It is late.", "refusal": null } });
    assert_eq!(completion["choices"], json!([choice]));
    assert_eq!(
        (&completion["object"], &completion["model"]),
        (&json!("chat.completion"), &json!("default"))
    );
    let session = completion["session"].as_str().unwrap();
    let run = &runs(&app, session).await[0];
    assert_eq!(completion["id"], format!("chatcmpl-{}", run["id"].as_str().unwrap()));
    let usage = &completion["usage"];
    assert!(usage["prompt_tokens"].as_u64().unwrap() > 0, "{usage}");
    assert_eq!(usage["completion_tokens"], run["usage"]["output_tokens"]);
    let created: Value =
        app.get(&format!("/v1/sessions/{session}")).send().await.unwrap().json().await.unwrap();
    assert_eq!((&created["system"], &created["user"]), (&json!("Be brief."), &json!("u1")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_chunks_comments_usage_and_an_end() {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), says("It is late.")])).await;
    let others = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let response = post(&app, &[user("Time?")], others).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    assert!(session_of(&response).starts_with("ses_"));
    let stream = response.text().await.unwrap();
    assert!(stream.contains("\n: get_time\n"), "{stream}");
    let chunks = chunks(&stream);
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    assert_eq!(said(&stream), "It is late.");
    let [.., last, usage] = &chunks[..] else { panic!("{stream}") };
    let end = json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }]);
    assert_eq!(last["choices"], end);
    assert_eq!(usage["choices"], json!([]));
    assert!(usage["usage"]["total_tokens"].as_u64().unwrap() > 0, "{usage}");
    assert!(chunks.iter().all(|chunk| chunk["id"] == usage["id"]));
}

/// The text of a document or of a stream.
fn said(body: &str) -> String {
    if let Ok(completion) = serde_json::from_str(body) {
        return text(&completion).to_owned();
    }
    let delta = |chunk: &Value| {
        chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()
    };
    chunks(body).iter().map(delta).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_the_client_is_called_and_its_result_continues_the_run() {
    for (is_stream, header) in [(false, None), (true, None), (true, Some("chat-1"))] {
        let app = TestApp::start(replies(&[lookup(), says("It said {{results}}.")])).await;
        let send = async |messages: &[Value]| {
            let others = json!({ "tools": tools(), "stream": is_stream });
            let mut request = post(&app, messages, others);
            if let Some(header) = header {
                request = request.header("x-openwebui-chat-id", header);
            }
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 200);
            (session_of(&response), response.text().await.unwrap())
        };
        let function = json!({ "name": "lookup", "arguments": r#"{"word":"a"}"# });
        let call = json!({ "id": "toolu_1", "type": "function", "function": function });
        let (session, asked) = send(&[user("Look")]).await;
        if is_stream {
            let mut indexed = call.clone();
            indexed["index"] = json!(0);
            let chunks = chunks(&asked);
            let with_calls = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"]);
            let found: Vec<&Value> = with_calls.filter(|calls| !calls.is_null()).collect();
            assert_eq!(found, [&json!([indexed])]);
            assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
        } else {
            let completion: Value = serde_json::from_str(&asked).unwrap();
            assert_eq!(completion["choices"][0]["message"]["tool_calls"], json!([call]));
            assert_eq!(completion["choices"][0]["finish_reason"], "tool_calls");
        }
        let mut reply = assistant("I look it up.");
        reply["tool_calls"] = json!([call]);
        let result = json!({ "role": "tool", "tool_call_id": "toolu_1", "content": "a letter" });
        let messages = [user("Look"), reply, result];
        let (same, answered) = send(&messages).await;
        assert_eq!(same, session);
        assert_eq!(said(&answered), "It said a letter.");
        // The same result again has the same answer.
        let (_, again) = send(&messages).await;
        assert_eq!(said(&again), "It said a letter.");
        assert_eq!(runs(&app, &session).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_needs_an_approval_ends_the_answer_with_a_notice() {
    let ring = calls_as(&[("toolu_1", "ring", json!({ "line": "one" }))]);
    let app = TestApp::start_with(replies(&[ring, says("Hello.")]), asks()).await;
    let named = json!({ "metadata": { "session_id": "chat-1" } });
    let completion = complete(&app, &[user("Ring")], named.clone()).await;
    let session = completion["session"].as_str().unwrap();
    let notice =
        format!("ring waits for an approval: POST /v1/sessions/{session}/approvals/toolu_1");
    assert_eq!(text(&completion), notice);
    assert_eq!(completion["choices"][0]["finish_reason"], "stop");
    app.play(&replies(&[says("Hello.")]));
    let next = complete(&app, &[user("Never mind")], named).await;
    assert_eq!((text(&next), &next["session"]), ("Hello.", &completion["session"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_is_an_error_that_is_not_repeated() {
    let error = json!({ "type": "invalid_request_error", "message": "no such thing" });
    let app = TestApp::start(replies(&[json!({ "status": 400, "error": error })])).await;
    let response = post(&app, &[user("Hi")], json!({})).send().await.unwrap();
    assert_eq!(response.status(), 502);
    assert_eq!(response.headers()["x-should-retry"], "false");
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"]["code"], "run_failed");
    let stream = post(&app, &[user("Hi")], json!({ "stream": true })).send().await.unwrap();
    let chunks = chunks(&stream.text().await.unwrap());
    let message = chunks.last().unwrap()["error"]["message"].as_str().unwrap();
    assert!(message.contains("invalid_request_error"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_has_an_error_of_the_protocol_and_leaves_no_session() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), keys_needed()).await;
    let refusal = async |messages: Value, others: Value| {
        let messages = messages.as_array().unwrap().clone();
        let response = post(&app, &messages, others).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/json");
        let status = response.status().as_u16();
        let body: Value = response.json().await.unwrap();
        (status, body["error"]["code"].clone(), body["error"]["param"].clone())
    };
    let hi = json!([user("Hi")]);
    let invalid = |pointer: &str| (422, json!("validation_failed"), json!(pointer));
    assert_eq!(refusal(json!([]), json!({})).await, invalid("/messages"));
    assert_eq!(refusal(json!([assistant("Hi")]), json!({})).await, invalid("/messages"));
    assert_eq!(refusal(hi.clone(), json!({ "n": 2 })).await, invalid("/n"));
    let audio = json!([{ "role": "user", "content": [{ "type": "input_audio" }] }]);
    assert_eq!(refusal(audio, json!({})).await, invalid("/messages/0/content/0"));
    let unknown = refusal(hi.clone(), json!({ "model": "unknown" })).await;
    assert_eq!((unknown.0, unknown.1), (404, json!("model_not_found")));
    let anonymous = crate::support::client_with(None).post(app.url("/openai/v1/chat/completions"));
    let anonymous = anonymous.json(&json!({})).send().await.unwrap();
    assert_eq!(anonymous.status(), 401);
    let body: Value = anonymous.json().await.unwrap();
    assert_eq!(body["error"]["type"], "authentication_error");
    let page: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    assert_eq!(page["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_models() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let agent = app.client.put(app.url("/v1/agents/ringer")).json(&json!({}));
    assert_eq!(agent.send().await.unwrap().status(), 201);
    let models = app.get("/openai/v1/models").send().await.unwrap();
    let models: Value = models.json().await.unwrap();
    let ids: Vec<&Value> = models["data"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!((&models["object"], ids[0]), (&json!("list"), &json!("default")));
    assert!(ids.contains(&&json!("ringer")), "{models}");
    for (name, expected) in [("ringer", 200), ("default", 200), ("unknown", 404)] {
        let path = format!("/openai/v1/models/{name}");
        assert_eq!(app.get(&path).send().await.unwrap().status(), expected, "{name}");
    }
    let completion = complete(&app, &[user("Hi")], json!({ "model": "ringer" })).await;
    assert_eq!(completion["model"], "ringer");
    let path = format!("/v1/sessions/{}", completion["session"].as_str().unwrap());
    let session: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    assert!(session["agent"].to_string().contains("ringer"), "{session}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_reaches_the_model() {
    let app = TestApp::start(replies(&[says("Nice.")])).await;
    let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let url = format!("data:image/png;base64,{pixel}");
    let parts = json!([{ "type": "text", "text": "Look" },
                       { "type": "image_url", "image_url": { "url": url } }]);
    complete(&app, &[json!({ "role": "user", "content": parts })], json!({})).await;
    assert!(app.upstream().text(0).contains(pixel));
}
