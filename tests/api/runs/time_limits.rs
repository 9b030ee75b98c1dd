//! The limit of seconds of a run while a request or a call is in progress, and models that only ping.

use std::time::{Duration, Instant};

use sandbox::Setting;
use serde_json::{Value, json};

use crate::support::{Session, Setup, TestApp, calls, replies, says};

/// An idle timeout that is much longer than the time between pings, also on a busy machine.
const IDLE: Duration = Duration::from_millis(1500);

/// A reply that begins, and then has only pings.
fn pings() -> Value {
    let content = json!([{ "type": "text", "text": "Let me think about this for a while." }]);
    json!({ "content": content, "hang_after": 2, "ping_ms": 50 })
}

/// A reply that a repeated request gets after this one.
fn after(first: &[Value], mut reply: Value) -> Value {
    reply["fail_first"] = first.into();
    reply
}

fn limited(seconds: u32) -> Value {
    json!({ "content": "Go", "limits": { "seconds": seconds } })
}

/// Whether each request of the session failed.
async fn failures(session: &Session<'_>) -> Vec<bool> {
    let events = session.events().await;
    let ends = events.iter().filter(|event| event["type"] == "span.model_request_end");
    ends.map(|end| end["is_error"].as_bool().unwrap()).collect()
}

/// The errors of the tries of all requests of a run.
async fn tries(session: &Session<'_>, run: &Value) -> Vec<Value> {
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    let page: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
    let requests = page["data"].as_array().unwrap().iter();
    let tries = requests.flat_map(|request| request["attempts"].as_array().unwrap());
    tries.map(|one| one["error"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_aborted_at_the_limit_of_its_run_and_the_run_answers_once_more() {
    let app = TestApp::start(replies(&[after(&[pings()], says("So far."))])).await;
    let session = app.session().await;
    let started = Instant::now();
    let run = session.ask_with(limited(1)).await;
    assert_eq!(
        json!([run["status"], run["output_text"], run["limited_by"]]),
        json!(["completed", "So far.", "seconds"])
    );
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(failures(&session).await, [true, false]);
    assert_eq!(tries(&session, &run).await, [json!("time_limit"), Value::Null]);
    let upstream = app.upstream();
    assert_eq!(upstream.body(1)["tool_choice"], json!({ "type": "none" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_fails_if_its_last_request_exceeds_the_limit_too() {
    let app = TestApp::start(replies(&[pings()])).await;
    let session = app.session().await;
    let run = session.ask_with(limited(1)).await;
    let message = "the model's reply was not complete within the run's limit of 1 s";
    let error = json!({ "type": "model_overloaded_error", "message": message,
                        "reason": "time_limit" });
    assert_eq!(json!([run["status"], run["error"]]), json!(["failed", error]));
    assert_eq!(failures(&session).await, [true, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_before_a_retry_ends_at_the_limit_of_the_run() {
    let busy = json!({ "status": 529, "headers": { "retry-after": "50" } });
    let app = TestApp::start(replies(&[after(&[busy], says("So far."))])).await;
    let session = app.session().await;
    let started = Instant::now();
    let run = session.ask_with(limited(1)).await;
    assert_eq!(json!([run["output_text"], run["limited_by"]]), json!(["So far.", "seconds"]));
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_alone_keep_a_request_alive_for_ten_idle_timeouts() {
    let setup = || Setup { model_idle_timeout: Some(IDLE), ..Setup::default() };
    let app = TestApp::start_with(replies(&[after(&[pings()], says("Here I am."))]), setup()).await;
    let session = app.session().await;
    let started = Instant::now();
    let run = session.ask("Where are you?").await;
    assert_eq!(run["output_text"], "Here I am.");
    assert_eq!(tries(&session, &run).await, [json!("only_pings"), Value::Null]);
    assert!(started.elapsed() >= 10 * IDLE);
}

/// The stream of a reply with a text of one word for each of these pieces, after pings.
fn stream(pings: usize, pieces: usize) -> String {
    let data = |event: Value| format!("data: {event}\n\n");
    let mut stream = data(json!({ "type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "simulator", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 1, "output_tokens": 1 } } }));
    stream.push_str(&"event: ping\ndata: {\"type\": \"ping\"}\n\n".repeat(pings));
    stream.push_str(&data(json!({ "type": "content_block_start", "index": 0,
                                  "content_block": { "type": "text", "text": "" } })));
    let piece = data(json!({ "type": "content_block_delta", "index": 0,
                             "delta": { "type": "text_delta", "text": "Well." } }));
    stream.push_str(&piece.repeat(pieces));
    for event in [
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" },
                "usage": { "output_tokens": 2 } }),
        json!({ "type": "message_stop" }),
    ] {
        stream.push_str(&data(event));
    }
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_during_a_long_pause_of_the_model_keep_its_request_alive() {
    let setup = Setup { model_idle_timeout: Some(IDLE), ..Setup::default() };
    let script = replies(&[json!({ "raw_sse": stream(40, 1), "pace_ms": 100 })]);
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    let started = Instant::now();
    let run = session.ask("Think").await;
    assert_eq!(run["output_text"], "Well.");
    assert_eq!(tries(&session, &run).await, [Value::Null]);
    assert!(started.elapsed() > 2 * IDLE, "the pause was longer than the idle timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_with_content_may_take_longer_than_ten_idle_timeouts() {
    let setup = Setup { model_idle_timeout: Some(IDLE), ..Setup::default() };
    let script = replies(&[json!({ "raw_sse": stream(0, 160), "pace_ms": 100 })]);
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    let started = Instant::now();
    let run = session.ask("Write").await;
    assert_eq!(run["output_text"], "Well.".repeat(160));
    assert_eq!(tries(&session, &run).await, [Value::Null]);
    assert!(started.elapsed() > 10 * IDLE, "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_stopped_at_the_limit_of_its_run() {
    let command = calls("Bash", json!({ "command": "echo begun; sleep 100", "timeout": 200_000 }));
    let script = replies(&[command, says("It takes too long.")]);
    let setup = Setup { bash: Setting::Basic, ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    let run = session.ask_with(limited(8)).await;
    assert_eq!(
        json!([run["output_text"], run["limited_by"]]),
        json!(["It takes too long.", "seconds"])
    );
    let history = session.history().await;
    let result = &history[2]["message"]["content"][0];
    let text = result["content"].as_str().unwrap();
    assert!(
        text.contains("Bash was stopped: the run reached its limit of 8 s")
            && text.contains("begun"),
        "{text}"
    );
    assert_eq!(result["is_error"], true);
}
