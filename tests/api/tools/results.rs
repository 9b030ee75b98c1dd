//! Results of tool calls: all in one message, exactly one per call, also after failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::time::timeout;
use twostep::domain::tool::{ToolClass, ToolTiming};
use twostep::tools::{Output, ToolContext, ToolError, Typed, TypedTool};

use crate::support::machine::HUNG;
use crate::support::{Setup, TestApp, calls, replies, says};

/// A tool that sleeps, panics or fails as its input demands, and counts its calls.
#[derive(Debug, Default)]
struct Slow {
    calls: Arc<AtomicUsize>,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Input {
    name: String,
    #[serde(default = "default_milliseconds")]
    milliseconds: u64,
    #[serde(default)]
    outcome: String,
}

fn default_milliseconds() -> u64 {
    300
}

impl TypedTool for Slow {
    const NAME: &'static str = "slow";
    const DESCRIPTION: &'static str = "Answers after a while.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    type Input = Input;

    async fn run(&self, _context: &ToolContext, input: Input) -> Result<Output, ToolError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(input.milliseconds)).await;
        match input.outcome.as_str() {
            "panic" => panic!("as requested"),
            "fail" => Err(ToolError::Failed("the source is empty".to_owned())),
            _ => Output::json(&json!({ "name": input.name, "milliseconds": input.milliseconds })),
        }
    }
}

/// A tool whose call returns when three calls are in progress.
#[derive(Debug)]
struct Meeting {
    all: Arc<Barrier>,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

impl TypedTool for Meeting {
    const NAME: &'static str = "meet";
    const DESCRIPTION: &'static str = "Waits for two other calls.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Variable;
    type Input = Nothing;

    async fn run(&self, _context: &ToolContext, _input: Nothing) -> Result<Output, ToolError> {
        match timeout(HUNG, self.all.wait()).await {
            Ok(_) => Ok(Output::from("All are here.".to_owned())),
            Err(_) => Err(ToolError::Failed("the other calls do not run".to_owned())),
        }
    }
}

fn with_slow() -> (Setup, Arc<AtomicUsize>) {
    let slow = Slow::default();
    let count = Arc::clone(&slow.calls);
    (Setup { tools: vec![Arc::new(Typed(slow))], ..Setup::default() }, count)
}

fn round_of_calls(inputs: &[Value]) -> Value {
    let blocks: Vec<Value> = inputs
        .iter()
        .map(|input| json!({ "type": "tool_use", "name": "slow", "input": input }))
        .collect();
    json!({ "content": blocks })
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_parallel_calls_are_in_one_message_in_the_order_of_the_calls() {
    let (setup, _) = with_slow();
    let inputs: Vec<Value> = (0..5_u64)
        .map(|n| json!({ "name": format!("n{n}"), "milliseconds": 50 * (5 - n) }))
        .collect();
    let app =
        TestApp::start_with(replies(&[round_of_calls(&inputs), says("All five.")]), setup).await;
    let session = app.session().await;
    assert_eq!(session.ask("Do five things").await["output_text"], "All five.");
    let history = session.history().await;
    let calls = history[1]["message"]["content"].as_array().unwrap().clone();
    let results = history[2]["message"]["content"].as_array().unwrap().clone();
    assert_eq!(history.len(), 4);
    assert_eq!(history[2]["type"], "user");
    let ids = |blocks: &[Value], key: &str| -> Vec<Value> {
        blocks.iter().map(|block| block[key].clone()).collect()
    };
    assert_eq!(ids(&calls, "id"), ids(&results, "tool_use_id"));
    assert!(results.iter().all(|block| block["type"] == "tool_result"));
    assert_eq!(results[0]["content"], r#"{"name":"n0","milliseconds":250}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_pure_calls_run_at_the_same_time() {
    let meeting = Meeting { all: Arc::new(Barrier::new(3)) };
    let setup = Setup { tools: vec![Arc::new(Typed(meeting))], ..Setup::default() };
    let call = json!({ "type": "tool_use", "name": "meet", "input": {} });
    let round = json!({ "content": [call, call, call] });
    let app = TestApp::start_with(replies(&[round, says("Done.")]), setup).await;
    let session = app.session().await;
    let events = session.stream("Read three things").await.rest().await;
    let results: Vec<&Value> =
        events.iter().filter(|one| one.name == "agent.tool_result").map(|one| &one.data).collect();
    assert_eq!(results.len(), 3);
    assert!(results.iter().all(|result| result["is_error"] != true), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_panics_or_hangs_does_not_affect_other_calls() {
    let (setup, _) = with_slow();
    let inputs = [
        json!({ "name": "a", "milliseconds": 1 }),
        json!({ "name": "b", "milliseconds": 1, "outcome": "panic" }),
        json!({ "name": "c", "milliseconds": 60_000 }),
        json!({ "name": "d", "milliseconds": 1, "outcome": "fail" }),
        json!({ "name": "e", "milliseconds": 1 }),
    ];
    let app =
        TestApp::start_with(replies(&[round_of_calls(&inputs), says("Two worked.")]), setup).await;
    let session = app.session().await;
    let run = session.ask("Do what you can").await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Two worked.")));
    let history = session.history().await;
    let results: Vec<(Value, Value)> = history[2]["message"]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| (block["is_error"].clone(), block["content"].clone()))
        .collect();
    let ok = |name: &str| (Value::Null, json!(format!(r#"{{"name":"{name}","milliseconds":1}}"#)));
    let error = |text: &str| (json!(true), json!(text));
    assert_eq!(
        results,
        [
            ok("a"),
            error("Error: slow stopped because of an internal error"),
            error("Error: slow timed out after 2 s"),
            error("Error: the source is empty"),
            ok("e"),
        ]
    );
    assert_eq!(session.ask("And again?").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_an_unknown_tool_is_an_error_result_and_the_run_continues() {
    let app = TestApp::start(replies(&[calls("x", json!({})), says("I have no x.")])).await;
    let session = app.session().await;
    assert_eq!(session.ask("Use x").await["output_text"], "I have no x.");
    let result = session.history().await[2]["message"]["content"][0].clone();
    assert_eq!(result["content"], r#"{"error":"Unknown tool: 'x'"}"#);
    assert_eq!(result["is_error"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_input_never_reaches_the_tool() {
    let (setup, count) = with_slow();
    let broken = json!({ "content": [
        { "type": "tool_use", "name": "slow", "raw_input": "{\"name\": " },
    ], "stop_reason": "tool_use" });
    let script =
        replies(&[calls("slow", json!({ "milliseconds": 1 })), broken, says("I give up.")]);
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    assert_eq!(session.ask("Try").await["output_text"], "I give up.");
    let history = session.history().await;
    let texts =
        [2, 4].map(|index: usize| history[index]["message"]["content"][0]["content"].clone());
    assert_eq!(
        texts,
        [
            "Error: invalid input for slow: \"name\" is a required property",
            "Error: the input for slow is not valid JSON",
        ]
    );
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_omitted_field_reaches_the_tool_with_its_default() {
    let (setup, _) = with_slow();
    let script = replies(&[calls("slow", json!({ "name": "n" })), says("Fine.")]);
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    session.ask("Be slow").await;
    let result = session.history().await[2]["message"]["content"][0]["content"].clone();
    assert_eq!(result, r#"{"name":"n","milliseconds":300}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_with_effects_and_reads_run_in_order() {
    let block =
        |name: &str, input: Value| json!({ "type": "tool_use", "name": name, "input": input });
    let round = json!({ "content": [
        block("write_file", json!({ "path": "a.txt", "content": "first" })),
        block("read_file", json!({ "path": "a.txt" })),
        block("write_file", json!({ "path": "a.txt", "content": "second" })),
        block("read_file", json!({ "path": "a.txt" })),
    ]});
    let app = TestApp::start(replies(&[round, says("Written twice.")])).await;
    let session = app.session().await;
    assert_eq!(session.ask("Write twice").await["output_text"], "Written twice.");
    let results: Vec<Value> = session.history().await[2]["message"]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["content"].clone())
        .collect();
    assert_eq!(results, ["Written successfully.", "first", "Written successfully.", "second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nul_in_a_message_is_refused_and_a_nul_in_a_file_breaks_nothing() {
    let script = replies(&[calls("read_file", json!({ "path": "nul.bin" })), says("Binary.")]);
    let app = TestApp::start(script).await;
    app.write_file("nul.bin", "a\0b");
    let session = app.session().await;
    let response = session.message(&json!({ "content": "a\0b" })).send().await.unwrap();
    let problem = crate::support::problem(response, 422, "validation_failed").await;
    assert_eq!(problem["errors"], json!([{ "pointer": "/content", "message": "has a NUL" }]));
    assert_eq!(session.ask("What is in nul.bin?").await["output_text"], "Binary.");
    assert_eq!(session.ask("Again?").await["status"], "completed");
}

/// A random round: one to four calls that succeed or fail in different ways.
fn round() -> impl Strategy<Value = Vec<Value>> {
    let call = prop_oneof![
        Just(("slow", json!({ "name": "x", "milliseconds": 0 }))),
        Just(("slow", json!({ "name": "x", "milliseconds": 0, "outcome": "fail" }))),
        Just(("slow", json!({ "name": "x", "milliseconds": 0, "outcome": "panic" }))),
        Just(("slow", json!({ "wrong": true }))),
        Just(("nowhere", json!({}))),
        Just(("write_file", json!({ "path": "w.txt", "content": "w" }))),
    ];
    prop::collection::vec(call, 1..5).prop_map(|calls| {
        calls
            .into_iter()
            .map(|(name, input)| json!({ "type": "tool_use", "name": name, "input": input }))
            .collect()
    })
}

#[test]
fn in_random_conversations_every_call_has_exactly_one_result() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let app = runtime.block_on(async {
        let (setup, _) = with_slow();
        TestApp::start_with(replies(&[says("unused")]), setup).await
    });
    let mut runner = TestRunner::new(Config { cases: 24, ..Config::default() });
    let conversations = prop::collection::vec(round(), 0..6);
    runner
        .run(&conversations, |rounds| {
            let mut script: Vec<Value> =
                rounds.iter().map(|blocks| json!({ "content": blocks })).collect();
            script.push(says("Done."));
            app.play(&replies(&script));
            runtime.block_on(async {
                let session = app.session_with(json!({ "system": uuid::Uuid::now_v7() })).await;
                let run = session.ask("Go").await;
                prop_assert_eq!(&run["output_text"], "Done.");
                prop_assert_eq!(&run["model_requests"], rounds.len() + 1);
                Ok(())
            })
        })
        .unwrap();
    // The simulator would refuse a request with a missing or duplicate result. The invariants check
    // the rest.
    runtime.block_on(async {
        // The sessions have the same first message and different histories.
        app.end_refused(&[]);
    });
}
