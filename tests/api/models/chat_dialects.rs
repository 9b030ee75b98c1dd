//! Servers that deviate from the Chat Completions protocol.

use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::provider::Provider;

use crate::support::{
    Program, Setup, TestApp, binary, client_with, data_dir, outcome, replies, says,
};

async fn start(script: Value) -> TestApp {
    TestApp::start_with(script, Setup { provider: Provider::OpenAi, ..Setup::default() }).await
}

/// A stream of these chunks and the last event.
fn chunks(chunks: &[Value]) -> Value {
    let data = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    json!({ "raw_sse": format!("{}data: [DONE]\n\n", data.collect::<String>()) })
}

/// A chunk of the only choice.
fn chunk(delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({ "choices": [{ "delta": delta, "finish_reason": finish_reason }] })
}

/// A tool call of a chunk, with these members that identify it.
fn call(members: &Value, arguments: &Value) -> Value {
    let mut call = json!({ "function": { "name": "read_file", "arguments": arguments } });
    for (member, value) in members.as_object().unwrap() {
        call[member] = value.clone();
    }
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_run_in_every_dialect() {
    let path = |name: &str| json!({ "path": name }).to_string();
    let [a, b] = ["a.txt", "b.txt"].map(path);
    let whole = json!({ "path": "b.txt" });
    let table = [
        // Complete calls in one chunk, all with index 0, and the finish reason of a text.
        (
            vec![
                call(&json!({ "index": 0, "id": "call_x" }), &json!(a)),
                call(&json!({ "index": 0, "id": "call_y" }), &json!(b)),
            ],
            "stop",
        ),
        // Neither indexes nor ids.
        (vec![call(&json!({}), &json!(a)), call(&json!({}), &json!(b))], "tool_calls"),
        // One id for all calls, and arguments as an object instead of a string.
        (
            vec![
                call(&json!({ "index": 0, "id": "0" }), &json!(a)),
                call(&json!({ "index": 1, "id": "0" }), &whole),
            ],
            "tool_calls",
        ),
    ];
    for (tool_calls, reason) in table {
        let thinks = json!({ "role": "assistant", "content": "", "reasoning_content": "Hm." });
        let reply = chunks(&[
            chunk(&thinks, None),
            chunk(&json!({ "tool_calls": tool_calls }), None),
            chunk(&json!({}), Some(reason)),
        ]);
        let app = start(replies(&[reply, says("{{result.0}}, {{result.1}}")])).await;
        app.write_file("a.txt", "hello");
        app.write_file("b.txt", "there");
        let session = app.session().await;
        let run = session.ask("Read both").await;
        assert_eq!(run["output_text"], "hello, there", "{tool_calls:?}");
        let history = session.history().await;
        let blocks = history[1]["message"]["content"].as_array().unwrap();
        assert_eq!(blocks[0]["thinking"], "Hm.");
        let calls = &blocks[1..];
        let inputs: Vec<&Value> = calls.iter().map(|call| &call["input"]["path"]).collect();
        assert_eq!(inputs, ["a.txt", "b.txt"]);
        assert_ne!(calls[0]["id"], calls[1]["id"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_repeat_in_every_round_are_replaced() {
    let asks = chunks(&[
        chunk(
            &json!({ "tool_calls": [call(&json!({ "index": 0, "id": "call_0" }), &json!("{}"))] }),
            None,
        ),
        chunk(&json!({}), Some("tool_calls")),
    ]);
    let app = start(replies(&[asks.clone(), asks, says("Enough.")])).await;
    let session = app.session().await;
    assert_eq!(session.ask("Read").await["output_text"], "Enough.");
    let history = session.history().await;
    let id = |at: usize| history[at]["message"]["content"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(id(1), "call_0");
    assert!(id(3) != "call_0" && id(3).starts_with("call_"), "{}", id(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_usage_or_a_last_event_is_accepted() {
    let text = [
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    ];
    let app = start(replies(&[json!({ "raw_sse": text.concat() })])).await;
    let run = app.session().await.ask("Hello").await;
    assert_eq!((&run["output_text"], &run["usage"]["input_tokens"]), (&json!("Hi"), &json!(0)));
}

/// Servers and gateways that cannot stream answer as if the request had not asked for a stream.
#[tokio::test(flavor = "multi_thread")]
async fn one_json_object_instead_of_a_stream_is_an_answer() {
    let choice = json!({ "index": 0, "finish_reason": "stop",
                         "message": { "role": "assistant", "content": "Hi" } });
    let completion = json!({ "object": "chat.completion", "choices": [choice],
                             "usage": { "prompt_tokens": 7, "completion_tokens": 1 } });
    let message = json!({ "type": "message", "id": "msg_1", "role": "assistant", "model": "simulator",
                          "content": [{ "type": "text", "text": "Hi" }],
                          "stop_reason": "end_turn", "stop_sequence": null,
                          "usage": { "input_tokens": 7, "output_tokens": 1 } });
    for (provider, body) in [(Provider::OpenAi, completion), (Provider::Anthropic, message)] {
        let headers = json!({ "content-type": "application/json" });
        let script = replies(&[json!({ "raw_sse": body.to_string(), "headers": headers })]);
        let app = TestApp::start_with(script, Setup { provider, ..Setup::default() }).await;
        let run = app.session().await.ask("Hello").await;
        let usage = &run["usage"];
        assert_eq!(run["output_text"], "Hi", "{provider:?}: {run}");
        assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(7), &json!(1)));
    }
}

/// The usage may still arrive. The last event never does, and the connection stays open.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_does_not_wait_for_the_end_of_the_stream() {
    let [text, finish] =
        [chunk(&json!({ "content": "Hi" }), None), chunk(&json!({}), Some("stop"))];
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 1 } });
    for (events, input_tokens) in [(vec![&text, &finish], 0), (vec![&text, &finish, &usage], 7)] {
        let data = events.iter().map(|event| format!("data: {event}\n\n"));
        let stream: String = data.collect();
        let reply = json!({ "raw_sse": stream, "hang_after": events.len() });
        let setup = Setup {
            provider: Provider::OpenAi,
            model_idle_timeout: Some(Duration::from_mins(10)),
            ..Setup::default()
        };
        let app = TestApp::start_with(replies(&[reply]), setup).await;
        let run = app.session().await.ask("Hello").await;
        let result = (&run["output_text"], &run["usage"]["input_tokens"]);
        assert_eq!(result, (&json!("Hi"), &json!(input_tokens)));
        assert_eq!(app.upstream().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_inside_the_stream_decides_whether_the_request_is_retried() {
    let failing = |error: Value| {
        let text = chunk(&json!({ "content": "WRONG" }), None);
        chunks(&[text, json!({ "error": error })])
    };
    let mut recovering = says("Here I am.");
    recovering["fail_first"] = json!([
        failing(json!({ "message": "busy", "code": 503 })),
        failing(json!({ "message": "busy", "type": "server_error", "code": null })),
        failing(json!("busy")),
        { "raw_sse": "data: {\"choices\":[{\"delta\":{\"content\":\"WRONG\"}}]}\n\n" },
    ]);
    let app = start(replies(&[recovering])).await;
    let session = app.session().await;
    assert_eq!(session.ask("Hello").await["output_text"], "Here I am.");
    assert_eq!(app.upstream().len(), 5);
    assert!(!Value::from(session.history().await).to_string().contains("WRONG"));
    drop(app);

    let quota = json!({ "type": "insufficient_quota", "message": "quota exceeded" });
    let table = [
        (json!({ "status": 429, "error": quota }), "billing_error"),
        (failing(quota.clone()), "billing_error"),
        (
            failing(json!({ "message": "too long", "type": "invalid_request_error" })),
            "model_request_failed_error",
        ),
    ];
    for (reply, kind) in table {
        let app = start(replies(std::slice::from_ref(&reply))).await;
        let run = app.session().await.ask("Hello").await;
        assert_eq!((&run["status"], &run["error"]["type"]), (&json!("failed"), &json!(kind)));
        assert_eq!(app.upstream().len(), 1, "{reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_required_only_for_the_default_server_and_a_model_for_every_server() {
    let local = ["--openai-base-url", "http://127.0.0.1:9/v1"];
    let table = [(vec!["--model", "gpt-5"], "OPENAI_API_KEY"), (local.to_vec(), "--model")];
    for (more, missing) in table {
        let args = [vec!["serve", "--provider", "openai"], more].concat();
        let (status, _, stderr) = outcome(binary(&args)).await;
        assert_eq!(status, Some(1), "{stderr}");
        assert!(stderr.starts_with("twostep: ") && stderr.contains(missing), "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offline_mode_can_use_chat_completions() {
    let (data, folder) = (data_dir(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("notes.txt"), "milk and bread").unwrap();
    let (data_dir, folder) = (data.path().to_str().unwrap(), folder.path().to_str().unwrap());
    let mut command = binary(&["serve", "--offline", "--provider", "openai"]);
    command.args(["--bind", "127.0.0.1:0", "--data-dir", data_dir, "--shared-workspace", folder]);
    let program = Program::serve(command).await;
    let client = client_with(None);
    let url = format!("{}/v1/sessions", program.url);
    let session: Value = client.post(&url).send().await.unwrap().json().await.unwrap();
    let url = format!("{url}/{}/messages", session["id"].as_str().unwrap());
    let message = json!({ "content": "Read notes.txt and explain it" });
    let post = client.post(url).header("prefer", "wait=30").json(&message);
    let run: Value = post.send().await.unwrap().json().await.unwrap();
    let answer = run["output_text"].as_str().unwrap();
    assert!(answer.contains("milk and bread"), "{run}");
    let url = format!("{}/v1/models", program.url);
    let models: Value = client.get(url).send().await.unwrap().json().await.unwrap();
    let simulator = json!({ "type": "model", "id": "simulator", "provider": "openai",
        "default": true, "capabilities": {}, "inputs": ["text"], "lacks": Provider::OpenAi.lacks() });
    assert_eq!(models["data"], json!([simulator]));
}
