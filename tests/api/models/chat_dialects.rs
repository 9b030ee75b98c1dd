//! Servers that speak Chat Completions in their own way.

use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::provider::Provider;

use crate::support::{Program, Setup, TestApp, binary, data_dir, outcome, replies, says};

async fn start(script: Value) -> TestApp {
    TestApp::start_with(script, Setup { provider: Provider::OpenAi, ..Setup::default() }).await
}

/// A stream of these chunks, and its last event.
fn chunks(chunks: &[Value]) -> Value {
    let data = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    json!({ "raw_sse": format!("{}data: [DONE]\n\n", data.collect::<String>()) })
}

/// A chunk of the only choice.
fn chunk(delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({ "choices": [{ "delta": delta, "finish_reason": finish_reason }] })
}

/// A call as a chunk, with whatever marks it.
fn call(marks: &Value, arguments: &Value) -> Value {
    let mut call = json!({ "function": { "name": "read_file", "arguments": arguments } });
    for (mark, value) in marks.as_object().unwrap() {
        call[mark] = value.clone();
    }
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_run_however_they_are_written() {
    let path = |name: &str| json!({ "path": name }).to_string();
    let [a, b] = ["a.txt", "b.txt"].map(path);
    let whole = json!({ "path": "b.txt" });
    let table = [
        // Whole calls at once, all of them the first, and ended as if there were none.
        (
            vec![
                call(&json!({ "index": 0, "id": "call_x" }), &json!(a)),
                call(&json!({ "index": 0, "id": "call_y" }), &json!(b)),
            ],
            "stop",
        ),
        // Neither places nor ids.
        (vec![call(&json!({}), &json!(a)), call(&json!({}), &json!(b))], "tool_calls"),
        // One id for all, and an object for a text.
        (
            vec![
                call(&json!({ "index": 0, "id": "0" }), &json!(a)),
                call(&json!({ "index": 1, "id": "0" }), &whole),
            ],
            "tool_calls",
        ),
    ];
    for (asked, reason) in table {
        let thinks = json!({ "role": "assistant", "content": "", "reasoning_content": "Hm." });
        let reply = chunks(&[
            chunk(&thinks, None),
            chunk(&json!({ "tool_calls": asked }), None),
            chunk(&json!({}), Some(reason)),
        ]);
        let app = start(replies(&[reply, says("{{result.0}}, {{result.1}}")])).await;
        app.write_file("a.txt", "hello");
        app.write_file("b.txt", "there");
        let session = app.session().await;
        let run = session.ask("Read both").await;
        assert_eq!(run["output_text"], "hello, there", "{asked:?}");
        let history = session.history().await;
        let calls = history[1]["message"]["content"].as_array().unwrap();
        let inputs: Vec<&Value> = calls.iter().map(|call| &call["input"]["path"]).collect();
        assert_eq!(inputs, ["a.txt", "b.txt"]);
        assert_ne!(calls[0]["id"], calls[1]["id"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_come_again_in_every_round_are_replaced() {
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
async fn an_answer_without_counts_or_a_last_event_is_an_answer() {
    let text = [
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    ];
    let app = start(replies(&[json!({ "raw_sse": text.concat() })])).await;
    let run = app.session().await.ask("Hello").await;
    assert_eq!((&run["output_text"], &run["usage"]["input_tokens"]), (&json!("Hi"), &json!(0)));
}

/// Its counts may still come; a last event never does, and the connection stays open.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_end_its_stream_is_not_waited_for() {
    let [said, ended] = [chunk(&json!({ "content": "Hi" }), None), chunk(&json!({}), Some("stop"))];
    let counts = json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 1 } });
    for (events, input_tokens) in [(vec![&said, &ended], 0), (vec![&said, &ended, &counts], 7)] {
        let data = events.iter().map(|event| format!("data: {event}\n\n"));
        let text: String = data.collect();
        let reply = json!({ "raw_sse": text, "hang_after": events.len() });
        let setup = Setup {
            provider: Provider::OpenAi,
            model_idle_timeout: Some(Duration::from_mins(10)),
            ..Setup::default()
        };
        let app = TestApp::start_with(replies(&[reply]), setup).await;
        let run = app.session().await.ask("Hello").await;
        let told = (&run["output_text"], &run["usage"]["input_tokens"]);
        assert_eq!(told, (&json!("Hi"), &json!(input_tokens)));
        assert_eq!(app.upstream().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stream_says_of_its_failure_decides_whether_it_is_asked_again() {
    let failing = |error: Value| {
        let said = chunk(&json!({ "content": "WRONG" }), None);
        chunks(&[said, json!({ "error": error })])
    };
    let mut passing = says("Here I am.");
    passing["fail_first"] = json!([
        failing(json!({ "message": "busy", "code": 503 })),
        failing(json!({ "message": "busy", "type": "server_error", "code": null })),
        failing(json!("busy")),
        { "raw_sse": "data: {\"choices\":[{\"delta\":{\"content\":\"WRONG\"}}]}\n\ndata: [DONE]\n\n" },
    ]);
    let app = start(replies(&[passing])).await;
    let session = app.session().await;
    assert_eq!(session.ask("Hello").await["output_text"], "Here I am.");
    assert_eq!(app.upstream().len(), 5);
    assert!(!Value::from(session.history().await).to_string().contains("WRONG"));
    drop(app);

    let quota = json!({ "type": "insufficient_quota", "message": "no means left" });
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
async fn a_service_needs_a_key_only_for_the_first_server_and_a_model_in_any_case() {
    let local = ["--openai-base-url", "http://127.0.0.1:9/v1"];
    let table = [(vec!["--model", "gpt-5"], "OPENAI_API_KEY"), (local.to_vec(), "--model")];
    for (more, word) in table {
        let args = [vec!["serve", "--provider", "openai"], more].concat();
        let (status, _, stderr) = outcome(binary(&args)).await;
        assert_eq!(status, Some(1), "{stderr}");
        assert!(stderr.starts_with("twostep: ") && stderr.contains(word), "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demonstration_can_be_had_in_the_other_protocol() {
    let (data, folder) = (data_dir(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("notes.txt"), "milk and bread").unwrap();
    let (data_dir, folder) = (data.path().to_str().unwrap(), folder.path().to_str().unwrap());
    let mut command = binary(&["serve", "--offline", "--provider", "openai"]);
    command.args(["--bind", "127.0.0.1:0", "--data-dir", data_dir, "--shared-workspace", folder]);
    let program = Program::serve(command).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
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
        "default": true, "capabilities": {}, "lacks": Provider::OpenAi.lacks() });
    assert_eq!(models["data"], json!([simulator]));
}
