//! Traces as a collector receives them.

mod collector;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::machine::HUNG;
use crate::support::{Setup, TestApp, calls, replies, says};
use collector::{Collector, comparable, hex};

const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const ROUTE: &str = "/v1/sessions/{session_id}/messages";

fn setup_for(collector: &Collector) -> Setup {
    Setup { traces: Some(collector.url.clone()), ..Setup::default() }
}

fn script() -> Value {
    let input = json!({ "path": "canary-path" });
    replies(&[calls("read_file", input), says("canary-answer")])
}

/// The expected spans of a message whose second reply is the answer.
async fn expected(app: &TestApp, path: &str, run: &Value) -> Vec<Value> {
    let page: Value =
        app.get(&format!("{path}/messages")).send().await.unwrap().json().await.unwrap();
    let history = page["data"].as_array().unwrap();
    let events: Value =
        app.get(&format!("{path}/events?limit=200")).send().await.unwrap().json().await.unwrap();
    let ended = events["data"].as_array().unwrap().iter();
    let ended: Vec<&Value> =
        ended.filter(|event| event["type"] == "span.model_request_end").collect();
    let (run_id, session_id) = (&run["id"], path.rsplit('/').next().unwrap());
    let chat = |reply: usize, stop: &str| {
        let (usage, message) = (&ended[reply]["model_usage"], &history[1 + 2 * reply]["message"]);
        json!(["chat simulator", 3, "invoke_agent twostep", false, {
            "gen_ai.conversation.id": session_id,
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "simulator",
            "gen_ai.response.finish_reasons": [stop],
            "gen_ai.response.id": message["id"],
            "gen_ai.response.model": message["model"],
            "gen_ai.usage.cache_creation.input_tokens": 0,
            "gen_ai.usage.cache_read.input_tokens": 0,
            "gen_ai.usage.input_tokens": usage["input_tokens"],
            "gen_ai.usage.output_tokens": usage["output_tokens"],
        }])
    };
    vec![
        json!([format!("POST {ROUTE}"), 2, CALLER, false, {
            "client.address": "127.0.0.1",
            "http.request.method": "POST",
            "http.response.status_code": 200,
            "http.route": ROUTE,
            "url.path": format!("{path}/messages"),
        }]),
        json!(["invoke_agent twostep", 1, format!("POST {ROUTE}"), false, {
            "gen_ai.agent.name": "twostep",
            "gen_ai.conversation.id": session_id,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.request.model": "simulator",
            "twostep.run.attempt": 1,
            "twostep.run.id": run_id,
        }]),
        chat(0, "tool_use"),
        json!(["execute_tool read_file", 1, "invoke_agent twostep", true, {
            "error.type": "tool_error",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.call.id": history[1]["message"]["content"][0]["id"],
            "gen_ai.tool.name": "read_file",
            "gen_ai.tool.type": "function",
        }]),
        chat(1, "end_turn"),
    ]
}

/// Sends a message with the trace of a caller, and waits for its run.
async fn ask(app: &TestApp, sampled: &str) -> (String, Value) {
    let session = app.session().await;
    let post = session.message(&json!({ "content": "canary-prompt" }));
    let post = post.header("traceparent", format!("00-{ID}-{CALLER}-{sampled}"));
    let run: Value = post.header("prefer", "wait=30").send().await.unwrap().json().await.unwrap();
    assert_eq!(run["status"], "completed", "{run}");
    (session.path(""), run)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_has_the_request_of_a_message_and_the_calls_of_its_run() {
    let collector = Collector::start().await;
    let app = TestApp::start_with(script(), setup_for(&collector)).await;
    let (path, run) = ask(&app, "01").await;
    let spans = collector.trace(ID, 5).await;
    assert_eq!(comparable(&spans), expected(&app, &path, &run).await);
    assert!(!format!("{spans:?}").contains("canary"), "{spans:?}");
    // The parent of the model server's spans is the span of the request.
    let sent: Vec<String> = app
        .upstream()
        .requests
        .iter()
        .map(|request| request.headers["traceparent"].to_str().unwrap().to_owned())
        .collect();
    let chats = spans.iter().filter(|span| span.name == "chat simulator");
    let chats: Vec<String> =
        chats.map(|span| format!("00-{ID}-{}-01", hex(&span.span_id))).collect();
    assert_eq!(sent, chats);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_share_a_run_send_one_trace() {
    let collector = Collector::start().await;
    let setup = Setup { no_worker: true, ..setup_for(&collector) };
    let app = TestApp::start_with(script(), setup).await;
    let worker = app.second_service(Setup { no_api: true, ..setup_for(&collector) }).await;
    let (path, run) = ask(&app, "01").await;
    let spans = collector.trace(ID, 5).await;
    assert_eq!(comparable(&spans), expected(&app, &path, &run).await);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_its_caller_does_not_sample_is_not_sent() {
    let collector = Collector::start().await;
    let app = TestApp::start_with(script(), setup_for(&collector)).await;
    ask(&app, "00").await;
    app.stop().await;
    assert_eq!(comparable(&collector.trace(ID, 0).await), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_collector_delays_neither_runs_nor_the_stop() {
    // The system completes connections, but the test does not accept them.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let setup = Setup { traces: Some(url), ..Setup::default() };
    let app = TestApp::start_with(script(), setup).await;
    ask(&app, "01").await;
    // The collector never responds.
    let stopped = tokio::time::timeout(HUNG, app.stop()).await;
    stopped.expect("the service waits for the collector");
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_that_cannot_be_sent_are_counted() {
    let collector = Collector::start().await;
    let setup = setup_for(&collector);
    drop(collector);
    let app = TestApp::start_with(script(), setup).await;
    ask(&app, "01").await;
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let text = app.get("/metrics").send().await.unwrap().text().await.unwrap();
        let dropped =
            text.lines().find_map(|line| line.strip_prefix("twostep_spans_dropped_total "));
        // One more than the spans of the message: creating the session is another trace.
        if dropped.unwrap().parse::<u64>().unwrap() >= 6 {
            break;
        }
        assert!(Instant::now() < deadline, "{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
