//! Requests whose stream ends without a complete reply: what they used counts for the run, the
//! session, the tenant and its budgets.

use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::budget::Budget;
use twostep::domain::ids::TenantId;
use twostep::domain::price::Price;
use twostep::domain::provider::Provider;
use twostep::store::budgets::{Period, list, set};

use crate::support::{Session, Setup, TestApp, calls, calls_as, replies, says};

/// One micro-dollar for a token of input, two for a token of output.
const PRICE: Price = Price {
    input: 1_000_000,
    output: 2_000_000,
    cache_write: 1_000_000,
    cache_write_1h: None,
    cache_read: 1_000_000,
    web_search: 0,
    long: None,
};

fn priced(provider: Provider) -> Setup {
    Setup { provider, prices: [("simulator".to_owned(), PRICE)].into(), ..Setup::default() }
}

/// A reply with these input tokens whose stream sends a part of the text and then nothing.
fn hangs(input: i64) -> Value {
    json!({ "content": [{ "type": "text", "text": "Half of a long answer." }], "chunk": 6,
            "hang_after": 5, "usage": { "input_tokens": input } })
}

/// A reply with this usage.
fn answer(input: i64, output: i64) -> Value {
    let mut answer = says("The whole answer.");
    answer["usage"] = json!({ "input_tokens": input, "output_tokens": output });
    answer
}

/// A script that answers a message `go` with `reply`, and all other messages with text.
fn first(reply: &Value) -> Value {
    json!({ "conversations": [
        { "when": "go", "replies": [reply] }, { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" })
}

/// Posts `go` and waits until a preview of the answer is streamed.
async fn begun(session: &Session<'_>) -> Value {
    let mut stream = session.stream("go").await;
    let delta = stream.until("event_delta").await;
    json!({ "id": delta.data["run_id"] })
}

async fn get(app: &TestApp, path: &str) -> Value {
    app.get(path).send().await.unwrap().json().await.unwrap()
}

/// The records of a run's requests.
async fn requests(session: &Session<'_>, run: &Value) -> Vec<Value> {
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    get(session.app, &path).await["data"].as_array().unwrap().clone()
}

/// Input and output tokens.
fn tokens(usage: &Value) -> (i64, i64) {
    (usage["input_tokens"].as_i64().unwrap(), usage["output_tokens"].as_i64().unwrap())
}

/// The estimated tokens of the text that a cancelled run has kept.
async fn estimated_output(session: &Session<'_>) -> i64 {
    let history = session.history().await;
    let text = history[1]["message"]["content"][0]["text"].as_str().unwrap();
    i64::try_from(text.chars().count().div_ceil(4)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_answer_costs_what_was_reported_and_an_estimate_of_the_rest() {
    for provider in [Provider::Anthropic, Provider::OpenAi, Provider::OpenAiResponses] {
        let app = TestApp::start_with(first(&hangs(1000)), priced(provider)).await;
        let mut conn = app.database.pool(1).acquire().await.unwrap();
        let budget = Budget { tokens: Some(1_000_000), cost: None };
        set(&mut conn, TenantId::DEFAULT, Period::Total, budget).await.unwrap();
        let session = app.session_with(json!({ "tools": [] })).await;
        let run = begun(&session).await;
        session.cancel(&run).await;
        let run = session.settled(&run).await;

        // The servers of the other protocols report the input at the end.
        let bytes = i64::try_from(app.upstream().text(0).len()).unwrap();
        let input = if provider == Provider::Anthropic { 1000 } else { (bytes + 3) / 4 };
        let output = estimated_output(&session).await;
        assert!(output > 0);
        let spent = (input, output);
        let cost = input + 2 * output;
        assert_eq!((tokens(&run["usage"]), &run["cost"]), (spent, &json!(cost)), "{provider:?}");
        assert_eq!(run.get("model_requests").and_then(Value::as_i64).unwrap_or(0), 0);
        let requests = requests(&session, &run).await;
        let [request] = &requests[..] else { panic!("{requests:?}") };
        let shown = json!([
            request["usage_estimated"],
            request.get("stop_reason"),
            request.get("error"),
            request["cost"]
        ]);
        assert_eq!(shown, json!([true, null, null, cost]));
        assert_eq!(tokens(&request["usage"]), spent);
        let events = session.events().await;
        let end = events.iter().find(|event| event["type"] == "span.model_request_end").unwrap();
        assert_eq!(tokens(&end["model_usage"]), spent);
        assert_eq!((&end["usage_estimated"], &end["is_error"]), (&json!(true), &json!(true)));
        let sum = events.iter().find(|event| event["type"] == "session.usage").unwrap();
        assert_eq!((tokens(&sum["usage"]), &sum["cost"]), (spent, &json!(cost)));
        let whole = get(&app, &session.path("")).await;
        assert_eq!((tokens(&whole["usage"]), &whole["cost"]), (spent, &json!(cost)));
        let total = get(&app, "/v1/usage").await["total"].clone();
        assert_eq!((tokens(&total["usage"]), &total["cost"]), (spent, &json!(cost)));
        let budgets = list(&mut conn, TenantId::DEFAULT).await.unwrap();
        assert_eq!(budgets[0].tokens, input + output, "the reservation becomes usage");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_another_message_interrupts_costs_what_it_used() {
    let app = TestApp::start_with(first(&hangs(1000)), priced(Provider::Anthropic)).await;
    let session = app.session().await;
    let run = begun(&session).await;
    let message = json!({ "content": "Stop. Are you there?", "on_busy": "interrupt" });
    assert_eq!(session.ask_with(message).await["output_text"], "Still here.");
    let run = session.run(&run).await;
    assert_eq!(tokens(&run["usage"]), (1000, estimated_output(&session).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_that_breaks_in_the_middle_counts_next_to_the_one_that_answers() {
    let broken = |way: &str, at: u32| {
        let mut reply = json!({ "content": [{ "type": "text", "text": "WRONG text" }],
            "chunk": 4, "usage": { "input_tokens": 100 } });
        reply[way] = at.into();
        reply
    };
    for way in ["cut_after", "error_after", "hang_after"] {
        let mut reply = answer(100, 7);
        reply["fail_first"] = json!([broken(way, 5)]);
        let idle = Some(Duration::from_millis(500)).filter(|_| way == "hang_after");
        let setup = Setup { model_idle_timeout: idle, ..priced(Provider::Anthropic) };
        let app = TestApp::start_with(replies(&[reply]), setup).await;
        let session = app.session().await;
        let run = session.ask("Hello").await;
        // Eight characters of the first try.
        let spent = (200, 2 + 7);
        assert_eq!((tokens(&run["usage"]), &run["cost"]), (spent, &json!(218)), "{way}");
        assert_eq!(run["model_requests"], 1);
        let requests = requests(&session, &run).await;
        let [request] = &requests[..] else { panic!("{requests:?}") };
        assert_eq!(request["attempts"].as_array().unwrap().len(), 2);
        assert_eq!((tokens(&request["usage"]), &request["usage_estimated"]), (spent, &json!(true)));
        let history = session.history().await;
        assert_eq!(tokens(&history[1]["message"]["usage"]), spent, "{way}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complete_reply_is_not_marked_as_estimated() {
    let app = TestApp::start_with(replies(&[answer(100, 7)]), priced(Provider::Anthropic)).await;
    let session = app.session().await;
    let run = session.ask("Hello").await;
    let requests = requests(&session, &run).await;
    assert_eq!(tokens(&requests[0]["usage"]), (100, 7));
    assert_eq!(requests[0].get("usage_estimated"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_tried_again_only_if_the_budget_covers_its_broken_tries_as_well() {
    let mut reply = answer(100, 7);
    reply["fail_first"] = json!([{ "content": [{ "type": "text", "text": "WRONG text" }],
        "chunk": 4, "cut_after": 5, "usage": { "input_tokens": 5000 } }]);
    let app = TestApp::start_with(replies(&[reply]), priced(Provider::Anthropic)).await;
    let body = json!({ "tools": [], "budget": { "tokens": 6000 } });
    let session = app.session_with(body).await;
    let run = session.ask("Hello").await;
    assert_eq!(
        (&run["status"], &run["error"]["type"]),
        (&json!("failed"), &json!("budget_exceeded"))
    );
    assert_eq!(tokens(&run["usage"]), (5000, 2));
    assert_eq!(app.upstream().len(), 1, "the request is not sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_a_shutdown_stops_counts_next_to_that_of_the_next_worker() {
    let app = TestApp::start_with(replies(&[hangs(1000)]), priced(Provider::Anthropic)).await;
    let session = app.session().await;
    let run = begun(&session).await;
    let id = session.id.clone();
    drop(session);
    let next = app.restarted_with(replies(&[answer(100, 7)]), priced(Provider::Anthropic)).await;
    let session = next.existing_session(&id);
    let run = session.settled(&run).await;
    assert_eq!(run["output_text"], "The whole answer.");
    let (input, output) = tokens(&run["usage"]);
    assert_eq!(input, 1100);
    assert!(output > 7, "the output of the stopped request is estimated: {output}");
    let requests = requests(&session, &run).await;
    let marks: Vec<&Value> = requests.iter().map(|request| &request["usage_estimated"]).collect();
    assert_eq!(marks, [&json!(true), &Value::Null]);
    assert_eq!(run["model_requests"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_request_of_a_tool_counts_and_has_no_message() {
    let mut call = calls("paraphrase_query", json!({ "query": "Batman" }));
    call["usage"] = json!({ "input_tokens": 50, "output_tokens": 5 });
    let script = json!({ "conversations": [
        { "when": "<query>", "replies": [hangs(1000)] },
        { "when": "go", "replies": [call] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, priced(Provider::Anthropic)).await;
    let mut delay = Duration::from_millis(10);
    // A reply to a tool has no previews, so the moment after its beginning is found by trying.
    let (session, run, output) = loop {
        let session = app.session().await;
        let sent = app.upstream().len();
        let run = session.post(json!({ "content": format!("go {delay:?}") })).await;
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        while app.upstream().len() < sent + 2 {
            assert!(tokio::time::Instant::now() < deadline, "the tool sent no request");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(delay).await;
        session.cancel(&run).await;
        let run = session.settled(&run).await;
        let (input, output) = tokens(&run["usage"]);
        if input == 1050 {
            break (session, run, output);
        }
        assert_eq!(input, 50, "the beginning of the reply was not received");
        delay *= 2;
        assert!(delay < Duration::from_mins(1), "a stopped request of a tool costs nothing");
    };
    assert!(output > 5, "{output}");
    let requests = requests(&session, &run).await;
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1]["usage_estimated"], true);
    let history = session.history().await;
    let roles: Vec<&Value> = history.iter().map(|item| &item["type"]).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "a text for a tool is no message");
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_breaks_off_counts_and_the_run_continues_without_it() {
    let summary = json!({ "content": [{ "type": "compaction", "content": "They talked." }],
                          "cut_after": 3 });
    let script = json!({ "conversations": [{ "replies": [answer(100, 7)] }],
                         "compaction": [summary] });
    let app = TestApp::start_with(script, priced(Provider::Anthropic)).await;
    let settings = json!({ "tools": [], "context": { "compact_at": 2000 } });
    let session = app.session_with(settings).await;
    let long = |word: &str| format!("{word}. {}", "x".repeat(4000));
    session.ask(&long("One")).await;
    let run = session.ask(&long("Two")).await;
    assert_eq!(run["output_text"], "The whole answer.");
    let requests = requests(&session, &run).await;
    let [summary, reply] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(summary["usage_estimated"], true);
    // The input of a summary is reported with its end.
    let (bytes, (input, _)) = (summary["body_bytes"].as_i64().unwrap(), tokens(&summary["usage"]));
    assert_eq!(input, (bytes + 3) / 4);
    assert_eq!(tokens(&reply["usage"]), (100, 7));
    assert_eq!(run["usage"]["input_tokens"], input + 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_with_an_invalid_call_cost_what_arrived_of_them() {
    let mut reply = calls_as(&[("toolu_1", "no name", json!({}))]);
    reply["usage"] = json!({ "input_tokens": 100, "output_tokens": 20 });
    let tries = [reply.clone(), reply.clone(), reply];
    let app = TestApp::start_with(replies(&tries), priced(Provider::Anthropic)).await;
    let session = app.session().await;
    let run = session.ask("Hello").await;
    // The stream is closed at the call, before the server reports the output.
    assert_eq!(tokens(&run["usage"]), (3 * 100, 3));
    assert_eq!((&run["status"], &run["cost"]), (&json!("failed"), &json!(3 * 102)));
}
