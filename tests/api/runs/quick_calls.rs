//! Quick calls without effects: their results are stored in one step with the reply that requests
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use twostep::domain::tool::{ToolClass, ToolTiming};
use twostep::tools::{Output, ToolContext, ToolError, Typed, TypedTool};

use crate::support::{Setup, TestApp, calls, replies, says};

/// A tool that waits until it is released.
#[derive(Debug)]
struct Gate {
    calls: Arc<AtomicU32>,
    release: Arc<Semaphore>,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

impl TypedTool for Gate {
    const NAME: &'static str = "gate";
    const DESCRIPTION: &'static str = "Waits until it is released.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Fast;
    type Input = Nothing;

    async fn run(&self, _context: &ToolContext, _input: Nothing) -> Result<Output, ToolError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.release.acquire().await.unwrap().forget();
        Output::json(&json!("released"))
    }
}

/// The steps of the only run after its message was accepted.
async fn steps(app: &TestApp) -> i32 {
    let steps = "SELECT steps FROM runs";
    sqlx::query_scalar(steps).fetch_one(&app.database.pool(1)).await.unwrap()
}

/// States and executions of all calls.
async fn ledger(app: &TestApp) -> Vec<(String, i32)> {
    let rows = "SELECT state, executions FROM tool_calls ORDER BY message_seq, position";
    sqlx::query_as(rows).fetch_all(&app.database.pool(1)).await.unwrap()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_and_the_results_of_its_quick_calls_are_one_step() {
    let call = |id: &str, name: &str, input: &Value| json!({ "type": "tool_use", "id": id, "name": name, "input": input });
    let reads = json!({ "content": [
        call("toolu_b", "read_file", &json!({ "path": "a.txt" })),
        call("toolu_a", "read_file", &json!({ "path": "absent.txt" })),
    ]});
    let app = TestApp::start(replies(&[reads, says("It says hello.")])).await;
    app.write_file("a.txt", "hello");
    let session = app.session().await;
    let run = session.ask("Read both").await;
    assert_eq!(run["output_text"], "It says hello.");
    assert_eq!(steps(&app).await, 2);
    assert_eq!(ledger(&app).await, [("done".to_owned(), 1), ("failed".to_owned(), 1)]);
    let rows = "SELECT count(*) FROM tool_calls
         WHERE message_seq = 2 AND started_at <= finished_at AND result IS NOT NULL";
    let rows: i64 = sqlx::query_scalar(rows).fetch_one(&app.database.pool(1)).await.unwrap();
    assert_eq!(rows, 2);

    let events = session.events().await;
    let expected = [
        "user.message",
        "session.status_running",
        "span.model_request_start",
        "agent.tool_use",
        "agent.tool_use",
        "span.model_request_end",
        "agent.tool_result",
        "agent.tool_result",
        "span.model_request_start",
        "agent.message",
        "span.model_request_end",
        "session.usage",
        "session.status_idle",
    ];
    assert_eq!(kinds(&events), expected);
    let upstream = app.upstream();
    assert_eq!(upstream.roles(1), ["user", "assistant", "user"]);
    assert!(upstream.text(1).contains("hello"), "the model receives the file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_longer_is_shown_before_it_ends_and_is_executed_once() {
    let (calls_of_gate, release) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
    let gate = Gate { calls: Arc::clone(&calls_of_gate), release: Arc::clone(&release) };
    let setup = Setup { tools: vec![Arc::new(Typed(gate))], ..Setup::default() };
    let script = replies(&[calls("gate", json!({})), says("It is open.")]);
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    let mut stream = session.stream("Open the gate").await;
    stream.until("agent.tool_use").await;
    assert_eq!(ledger(&app).await, [("planned".to_owned(), 0)]);
    release.add_permits(1);
    stream.until("session.status_idle").await;
    assert_eq!(ledger(&app).await, [("done".to_owned(), 1)]);
    assert_eq!(calls_of_gate.load(Ordering::Relaxed), 1);
    assert_eq!(steps(&app).await, 3);
    let took = "SELECT finished_at - started_at >= interval '25 ms' FROM tool_calls";
    let took: bool = sqlx::query_scalar(took).fetch_one(&app.database.pool(1)).await.unwrap();
    assert!(took, "the ledger has the duration of the call");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quick_call_beside_one_with_effects_waits_until_the_reply_is_stored() {
    let mixed = json!({ "content": [
        { "type": "tool_use", "name": "get_time", "input": {} },
        { "type": "tool_use", "name": "write_file",
          "input": { "path": "a.txt", "content": "new" } },
    ]});
    let app = TestApp::start(replies(&[mixed, says("Written.")])).await;
    let session = app.session_with(json!({ "permission_mode": "bypass" })).await;
    let run = session.ask("Write it").await;
    assert_eq!(run["output_text"], "Written.");
    // The reply; the time; the start of the change; the results; the answer.
    assert_eq!(steps(&app).await, 5);
    assert_eq!(ledger(&app).await, [("done".to_owned(), 1), ("done".to_owned(), 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quick_call_that_needs_an_approval_is_not_executed_with_its_reply() {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), says("Noon.")])).await;
    let rules = json!([{ "tool": "get_time", "decision": "ask" }]);
    let session = app.session_with(json!({ "permissions": rules })).await;
    let run = session.post(json!({ "content": "What time is it?" })).await;
    session.reached(&run, "session.status_idle").await;
    assert_eq!(ledger(&app).await, [("planned".to_owned(), 0)]);
    session.cancel(&run).await;
}
