//! Tools that ask the model: plain requests of the run that they work for.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::price::Price;
use twostep::domain::tool::{ToolClass, ToolTiming};
use twostep::tools::{Output, ToolContext, ToolError, Typed, TypedTool};

use crate::support::{Session, Setup, TestApp, asked, calls, calls_as, says};

const KNIGHTFALL: &str = "1. Bane breaks Batman\n2. Batman 1993 crossover";

/// A script in which questions of `paraphrase_query` get one reply, and messages these.
fn script(to_questions: &Value, replies: &[Value]) -> Value {
    json!({ "conversations": [
        { "when": "<query>", "replies": [to_questions] },
        { "replies": replies },
    ], "otherwise": "refuse" })
}

fn paraphrases(query: &str) -> Value {
    calls("paraphrase_query", json!({ "query": query }))
}

fn used(input: i64, output: i64) -> Value {
    json!({ "input_tokens": input, "output_tokens": output })
}

/// The requests of a run, as they are listed.
async fn requests(session: &Session<'_>, run: &Value) -> Vec<Value> {
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    let page: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}

/// What the model read of the calls of the first round.
async fn results(session: &Session<'_>) -> Vec<Value> {
    let history = session.history().await;
    let blocks = history[2]["message"]["content"].as_array().unwrap();
    blocks.iter().map(|block| json!([block["is_error"], block["content"]])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_one_text_without_tools_and_its_usage_is_the_runs() {
    let (mut asks, mut said, mut answers) =
        (paraphrases("Batman Knightfall"), says(KNIGHTFALL), says("Here it is."));
    asks["usage"] = used(100, 10);
    said["usage"] = used(40, 20);
    answers["usage"] = used(200, 5);
    let price = Price { input: 1_000_000, output: 3_000_000, ..Price::default() };
    let prices = [("simulator".to_owned(), price)].into();
    let setup = Setup { prices, ..Setup::default() };
    let app = TestApp::start_with(script(&said, &[asks, answers]), setup).await;
    let session = app.session().await;
    let run = session.ask("Find Knightfall").await;
    assert_eq!(run["output_text"], "Here it is.");
    let found = r#"{"query":"Batman Knightfall","paraphrases":["Bane breaks Batman","Batman 1993 crossover"]}"#;
    assert_eq!(results(&session).await, [json!([null, found])]);

    let question = app.upstream().body(1);
    let members: Vec<&String> = question.as_object().unwrap().keys().collect();
    assert_eq!(members, ["model", "max_tokens", "stream", "messages"]);
    assert_eq!((&question["model"], &question["max_tokens"]), (&json!("simulator"), &json!(300)));
    assert_eq!(question["messages"].as_array().unwrap().len(), 1);

    assert_eq!(run["model_requests"], 3);
    let usage = json!([run["usage"]["input_tokens"], run["usage"]["output_tokens"], run["cost"]]);
    assert_eq!(usage, json!([340, 35, 340 + 3 * 35]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_on_view_among_the_requests_and_in_the_stream() {
    let call = calls_as(&[("toolu_1", "paraphrase_query", json!({ "query": "Batman" }))]);
    let app = TestApp::start(script(&says(KNIGHTFALL), &[call, says("Done.")])).await;
    let session = app.session().await;
    let run = session.ask("Find Knightfall").await;
    let requests = requests(&session, &run).await;
    let shown: Vec<Value> = requests
        .iter()
        .map(|request| json!([request["message_seq"], request["form"]["question"]["tool_use_id"]]))
        .collect();
    assert_eq!(shown, [json!([1, null]), json!([0, "toolu_1"]), json!([3, null])]);
    let path = session.path(&format!("/runs/{}/requests/2", run["id"].as_str().unwrap()));
    let shown = app.get(&path).send().await.unwrap().text().await.unwrap();
    assert!(shown.ends_with(&format!(r#","body":{}}}"#, app.upstream().text(1))), "{shown}");

    let events = session.events().await;
    let starts = events.iter().filter(|event| event["type"] == "span.model_request_start");
    let askers: Vec<&Value> = starts.map(|event| &event["tool_use_id"]).collect();
    assert_eq!(askers, [&Value::Null, &json!("toolu_1"), &Value::Null]);
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((count("span.model_request_end"), count("agent.message")), (3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_round_ask_one_after_the_other_and_each_reads_its_own_answer() {
    let query = |query: &str| json!({ "query": query });
    let both = calls_as(&[
        ("toolu_1", "paraphrase_query", query("first")),
        ("toolu_2", "paraphrase_query", query("second")),
    ]);
    let said =
        |text: &str| json!({ "content": [{ "type": "text", "text": text }], "delay_ms": 50 });
    let script = json!({ "conversations": [
        { "when": "<query>\nfirst", "replies": [said("one")] },
        { "when": "<query>\nsecond", "replies": [said("two")] },
        { "replies": [both, says("Done.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    let session = app.session().await;
    assert_eq!(session.ask("Find both").await["output_text"], "Done.");
    let result =
        |query, said| json!([null, format!(r#"{{"query":"{query}","paraphrases":["{said}"]}}"#)]);
    assert_eq!(results(&session).await, [result("first", "one"), result("second", "two")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_the_model_refuses_is_a_result_that_says_so() {
    let refused = json!({ "status": 400, "error": { "type": "invalid_request_error", "message": "not today" } });
    let declined = json!({ "content": [], "stop_reason": "refusal" });
    let app =
        TestApp::start(script(&refused, &[paraphrases("Batman"), says("Without, then.")])).await;
    let session = app.session().await;
    let run = session.ask("Find Knightfall").await;
    assert_eq!(json!([run["status"], run["output_text"]]), json!(["completed", "Without, then."]));
    let [result] = &results(&session).await[..] else { panic!("one call has one result") };
    assert_eq!(result[0], true);
    assert!(result[1].as_str().unwrap().starts_with("Error: fetch failed: "), "{result}");
    let failed = &requests(&session, &run).await[1];
    assert_eq!((&failed["stop_reason"], failed["error"].is_object()), (&Value::Null, true));
    let app = app
        .restarted_after_refusals(script(&declined, &[paraphrases("Batman"), says("Without.")]))
        .await;
    let session = app.session().await;
    assert_eq!(session.ask("Find it again").await["output_text"], "Without.");
    let expected = json!([true, "Error: the model declined to answer"]);
    assert_eq!(results(&session).await, [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_ends_with_its_run() {
    let mut silent = says("Never.");
    silent["delay_ms"] = 20_000.into();
    let app = TestApp::start(script(&silent, &[paraphrases("Batman"), says("Unsaid.")])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Find Knightfall" })).await;
    asked(&app, 2).await;
    session.cancel(&run).await;
    let settled = session.settled(&run).await;
    assert_eq!(settled["status"], "cancelled");
    let stopped = &requests(&session, &run).await[1];
    assert_eq!(stopped["form"]["question"]["max_tokens"], 300);
    assert_eq!((stopped.get("stop_reason"), stopped.get("error")), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tools_ask_counts_towards_the_limits_of_the_run_whoever_drives_it() {
    let mut said = says(KNIGHTFALL);
    said["usage"] = used(400, 100);
    let mut asks = paraphrases("Batman");
    asks["usage"] = used(10, 10);
    let mut more = calls("get_time", json!({}));
    more["when_forbidden"] = "Enough.".into();
    let app = TestApp::start(script(&said, &[asks, more])).await;
    let session = app.session().await;
    let message = json!({ "content": "Find Knightfall", "limits": { "tokens": 500 } });
    let run = session.ask_with(message).await;
    assert_eq!(json!([run["limited_by"], run["output_text"]]), json!(["tokens", "Enough."]));
}

/// A tool that gives up before the model has answered.
#[derive(Debug)]
struct Hasty;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

impl TypedTool for Hasty {
    const NAME: &'static str = "hasty";
    const DESCRIPTION: &'static str = "Asks, and does not wait.";
    const CLASS: ToolClass = ToolClass::Effect;
    const TIMING: ToolTiming = ToolTiming::Variable;
    type Input = Nothing;

    async fn run(&self, context: &ToolContext, _input: Nothing) -> Result<Output, ToolError> {
        let asking = context.ask_model(Some("Be slow."), "Take your time.".to_owned(), 50);
        match tokio::time::timeout(Duration::from_millis(500), asking).await {
            Ok(said) => said.map(Output::from),
            Err(_) => Ok(Output::from("gave up".to_owned())),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_waits_no_longer_ends_its_question_and_the_run_goes_on() {
    let mut silent = says("Never.");
    silent["delay_ms"] = 20_000.into();
    let script = json!({ "conversations": [
        { "when": "Take your time.", "replies": [silent] },
        { "replies": [calls("hasty", json!({})), says("Done.")] },
    ], "otherwise": "refuse" });
    let setup = Setup { tools: vec![Arc::new(Typed(Hasty))], ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    let run = session.ask("Go").await;
    assert_eq!(run["output_text"], "Done.");
    assert_eq!(results(&session).await, [json!([null, "gave up"])]);
    assert_eq!(app.upstream().body(1)["system"], "Be slow.");
    assert_eq!(requests(&session, &run).await.len(), 3);
}
