//! Sampling: tools that ask the model, with requests of the same run.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::price::Price;
use twostep::domain::tool::{ToolClass, ToolTiming};
use twostep::tools::{Output, ToolContext, ToolError, Typed, TypedTool};

use crate::support::{Session, Setup, TestApp, asked, calls, calls_as, says};

const KNIGHTFALL: &str = "1. Bane breaks Batman\n2. Batman 1993 crossover";

/// A script with one reply to the questions of `paraphrase_query` and `replies` to messages.
fn script(reply_to_question: &Value, replies: &[Value]) -> Value {
    json!({ "conversations": [
        { "when": "<query>", "replies": [reply_to_question] },
        { "replies": replies },
    ], "otherwise": "refuse" })
}

fn call_paraphrase_query(query: &str) -> Value {
    calls("paraphrase_query", json!({ "query": query }))
}

fn usage(input: i64, output: i64) -> Value {
    json!({ "input_tokens": input, "output_tokens": output })
}

/// The model requests of a run, as the API lists them.
async fn requests(session: &Session<'_>, run: &Value) -> Vec<Value> {
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    let page: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}

/// `is_error` and content of each result of the first round.
async fn results(session: &Session<'_>) -> Vec<Value> {
    let history = session.history().await;
    let blocks = history[2]["message"]["content"].as_array().unwrap();
    blocks.iter().map(|block| json!([block["is_error"], block["content"]])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_a_request_of_one_text_whose_usage_counts_for_the_run() {
    let (mut call, mut reply, mut answer) =
        (call_paraphrase_query("Batman Knightfall"), says(KNIGHTFALL), says("Here it is."));
    call["usage"] = usage(100, 10);
    reply["usage"] = usage(40, 20);
    answer["usage"] = usage(200, 5);
    let price = Price { input: 1_000_000, output: 3_000_000, ..Price::default() };
    let prices = [("simulator".to_owned(), price)].into();
    let setup = Setup { prices, ..Setup::default() };
    let app = TestApp::start_with(script(&reply, &[call, answer]), setup).await;
    let session = app.session().await;
    let run = session.ask("Find Knightfall").await;
    assert_eq!(run["output_text"], "Here it is.");
    let expected = r#"{"query":"Batman Knightfall","paraphrases":["Bane breaks Batman","Batman 1993 crossover"]}"#;
    assert_eq!(results(&session).await, [json!([null, expected])]);

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
async fn a_question_is_listed_among_the_requests_and_has_events() {
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
    let tool_use_ids: Vec<&Value> = starts.map(|event| &event["tool_use_id"]).collect();
    assert_eq!(tool_use_ids, [&Value::Null, &json!("toolu_1"), &Value::Null]);
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((count("span.model_request_end"), count("agent.message")), (3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_round_ask_in_sequence_and_each_gets_its_own_answer() {
    let query = |query: &str| json!({ "query": query });
    let both = calls_as(&[
        ("toolu_1", "paraphrase_query", query("first")),
        ("toolu_2", "paraphrase_query", query("second")),
    ]);
    let reply =
        |text: &str| json!({ "content": [{ "type": "text", "text": text }], "delay_ms": 50 });
    let script = json!({ "conversations": [
        { "when": "<query>\nfirst", "replies": [reply("one")] },
        { "when": "<query>\nsecond", "replies": [reply("two")] },
        { "replies": [both, says("Done.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    let session = app.session().await;
    assert_eq!(session.ask("Find both").await["output_text"], "Done.");
    let result =
        |query, text| json!([null, format!(r#"{{"query":"{query}","paraphrases":["{text}"]}}"#)]);
    assert_eq!(results(&session).await, [result("first", "one"), result("second", "two")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_the_model_refuses_is_an_error_result() {
    let refused = json!({ "status": 400, "error": { "type": "invalid_request_error", "message": "not today" } });
    let declined = json!({ "content": [], "stop_reason": "refusal" });
    let app = TestApp::start(script(
        &refused,
        &[call_paraphrase_query("Batman"), says("Without, then.")],
    ))
    .await;
    let session = app.session().await;
    let run = session.ask("Find Knightfall").await;
    assert_eq!(json!([run["status"], run["output_text"]]), json!(["completed", "Without, then."]));
    let [result] = &results(&session).await[..] else { panic!("one call has one result") };
    assert_eq!(result[0], true);
    assert!(result[1].as_str().unwrap().starts_with("Error: fetch failed: "), "{result}");
    let failed = &requests(&session, &run).await[1];
    assert_eq!((&failed["stop_reason"], failed["error"].is_object()), (&Value::Null, true));
    let app = app
        .restarted_after_refusals(script(
            &declined,
            &[call_paraphrase_query("Batman"), says("Without.")],
        ))
        .await;
    let session = app.session().await;
    assert_eq!(session.ask("Find it again").await["output_text"], "Without.");
    let expected = json!([true, "Error: the model declined to answer"]);
    assert_eq!(results(&session).await, [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_run_cancels_its_question() {
    let mut silent = says("Never.");
    silent["delay_ms"] = 20_000.into();
    let app =
        TestApp::start(script(&silent, &[call_paraphrase_query("Batman"), says("Unsaid.")])).await;
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
async fn usage_of_questions_counts_towards_the_limits_of_the_run() {
    let mut reply = says(KNIGHTFALL);
    reply["usage"] = usage(400, 100);
    let mut call = call_paraphrase_query("Batman");
    call["usage"] = usage(10, 10);
    let mut more = calls("get_time", json!({}));
    more["when_forbidden"] = "Enough.".into();
    let app = TestApp::start(script(&reply, &[call, more])).await;
    let session = app.session().await;
    let message = json!({ "content": "Find Knightfall", "limits": { "tokens": 500 } });
    let run = session.ask_with(message).await;
    assert_eq!(json!([run["limited_by"], run["output_text"]]), json!(["tokens", "Enough."]));
}

/// A tool that gives up before the model answers.
#[derive(Debug)]
struct Impatient;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct NoInput {}

impl TypedTool for Impatient {
    const NAME: &'static str = "impatient";
    const DESCRIPTION: &'static str = "Asks, and does not wait.";
    const CLASS: ToolClass = ToolClass::Effect;
    const TIMING: ToolTiming = ToolTiming::Variable;
    type Input = NoInput;

    async fn run(&self, context: &ToolContext, _input: NoInput) -> Result<Output, ToolError> {
        let question = context.ask_model(Some("Be slow."), "Take your time.".to_owned(), 50);
        match tokio::time::timeout(Duration::from_millis(500), question).await {
            Ok(answer) => answer.map(Output::from),
            Err(_) => Ok(Output::from("gave up".to_owned())),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_stops_waiting_cancels_its_question_and_the_run_continues() {
    let mut silent = says("Never.");
    silent["delay_ms"] = 20_000.into();
    let script = json!({ "conversations": [
        { "when": "Take your time.", "replies": [silent] },
        { "replies": [calls("impatient", json!({})), says("Done.")] },
    ], "otherwise": "refuse" });
    let setup = Setup { tools: vec![Arc::new(Typed(Impatient))], ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    let run = session.ask("Go").await;
    assert_eq!(run["output_text"], "Done.");
    assert_eq!(results(&session).await, [json!([null, "gave up"])]);
    assert_eq!(app.upstream().body(1)["system"], "Be slow.");
    assert_eq!(requests(&session, &run).await.len(), 3);
}
