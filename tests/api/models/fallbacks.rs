//! Fallback models: they answer while the model of a session is unavailable.

use std::sync::Arc;

use serde_json::{Value, json};
use twostep::domain::model::{Capabilities, Effort, Known, Models, ProviderModels, ThinkingKind};
use twostep::domain::price::Price;
use twostep::domain::provider::Provider;
use twostep::service::ModelRules;

use crate::support::model_server::NamedProvider;
use crate::support::{Session, Setup, TestApp, calls, problem, replies, says};

const FALLBACK: &str = "second/simulator-2";

/// A failure that asks for an immediate retry.
fn soon(status: u16) -> Value {
    json!({ "status": status, "headers": { "retry-after-ms": "5" } })
}

fn setup(second: &NamedProvider) -> Setup {
    let plain = Capabilities {
        effort: Some(vec![Effort::Low]),
        thinking: Some(vec![ThinkingKind::Disabled]),
        ..Capabilities::default()
    };
    let short = Capabilities { max_tokens: Some(50), ..Capabilities::default() };
    let known: Known = [("plain".to_owned(), plain), ("short".to_owned(), short)].into();
    let protocol = second.server.server.provider();
    let named = [("second".to_owned(), ProviderModels::new(protocol, known))].into();
    let default = ProviderModels::new(Provider::Anthropic, Known::new());
    let models = Arc::new(Models::of(default, named));
    let price = |output| Price { output, ..Price::default() };
    Setup {
        model_rules: ModelRules { models, ..ModelRules::default() },
        providers: vec![second.server.clone()],
        prices: [
            ("simulator".to_owned(), price(1_000_000)),
            (FALLBACK.to_owned(), price(9_000_000)),
        ]
        .into(),
        ..Setup::default()
    }
}

async fn second(protocol: Provider, script: &Value) -> NamedProvider {
    NamedProvider::start("second", protocol, script).await
}

async fn start(script: Value, second: &NamedProvider) -> TestApp {
    TestApp::start_with(script, setup(second)).await
}

/// The model, the error and the index of the fallback of each request of a run.
async fn requests(session: &Session<'_>, run: &Value) -> Vec<(Value, Value, Value)> {
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    let page: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
    let facts = |request: &Value| {
        (
            request["model"].clone(),
            request["error"]["reason"].clone(),
            request["form"]["fallback"].clone(),
        )
    };
    page["data"].as_array().unwrap().iter().map(facts).collect()
}

/// The types of the blocks of the assistant in a request.
fn kinds(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap().iter();
    let replies = messages.filter(|message| message["role"] == "assistant");
    let blocks = replies.flat_map(|message| message["content"].as_array().unwrap());
    blocks.map(|block| block["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_model_answers_while_the_model_is_overloaded_and_the_next_run_asks_the_model() {
    for (status, provider) in
        [(529, Provider::OpenAi), (503, Provider::OpenAi), (429, Provider::OpenAiResponses)]
    {
        let second = second(provider, &replies(&[says("Second.")])).await;
        let app = start(replies(&[soon(status)]), &second).await;
        let session = app.session_with(json!({ "fallback_models": [FALLBACK] })).await;
        assert_eq!(session.read().await["fallback_models"], json!([FALLBACK]));
        let run = session.ask("Hi").await;
        assert_eq!(run["output_text"], "Second.", "{status}: {run}");
        assert_eq!((app.upstream().len(), second.upstream().len()), (3, 1), "{status}");
        let asked = requests(&session, &run).await;
        assert_eq!(asked.len(), 2);
        assert_eq!((&asked[0].0, &asked[0].2), (&json!("simulator"), &Value::Null));
        assert!(asked[0].1.is_string(), "{asked:?}");
        assert_eq!(asked[1], (json!(FALLBACK), Value::Null, json!(0)));

        // The reply, the events and the usage name the model that answered.
        let history = session.history().await;
        assert_eq!(history[1]["message"]["model"], "simulator-2");
        let events = session.events().await;
        let starts = events.iter().filter(|event| event["type"] == "span.model_request_start");
        let starts: Vec<&Value> = starts.map(|event| &event["model"]).collect();
        assert_eq!(starts, ["simulator", FALLBACK]);
        let output = run["usage"]["output_tokens"].as_i64().unwrap();
        assert_eq!(run["cost"], output * 9, "the price of the fallback");
        let path = session.path(&format!("/runs/{}/requests/2", run["id"].as_str().unwrap()));
        let record: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
        assert_eq!(record["body"], second.upstream().body(0));

        app.play(&replies(&[says("First.")]));
        assert_eq!(session.ask("Again").await["output_text"], "First.");
        assert_eq!(second.upstream().len(), 1);
        let text = app.get("/metrics").send().await.unwrap().text().await.unwrap();
        assert!(text.contains("\ntwostep_model_fallbacks_total 1\n"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_circuit_breaker_sends_runs_to_the_fallback_model() {
    let second = second(Provider::Anthropic, &replies(&[says("Second.")])).await;
    let app = start(replies(&[soon(529)]), &second).await;
    for number in 0..6 {
        let session = app.session_with(json!({ "fallback_models": [FALLBACK] })).await;
        let run = session.ask(&format!("Hi {number}")).await;
        assert_eq!(run["output_text"], "Second.");
    }
    // Ten failures open the circuit. After that a run sends a probe, or no request at all.
    assert!((10..15).contains(&app.upstream().len()), "{}", app.upstream().len());
    assert_eq!(second.upstream().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_run_stays_with_the_fallback_and_no_model_gets_the_thinking_of_another() {
    let thought = |text: &str, next: Value| {
        let mut blocks = vec![json!({ "type": "thinking", "thinking": text })];
        blocks.extend(next["content"].as_array().unwrap().iter().cloned());
        json!({ "content": blocks })
    };
    let reads = || calls("read_file", json!({ "path": "a.txt" }));
    let script = replies(&[thought("One", reads()), soon(529)]);
    let of_second =
        replies(&[says("unused"), thought("Two", reads()), thought("Three", says("Second."))]);
    let second = second(Provider::Anthropic, &of_second).await;
    let app = start(script, &second).await;
    app.write_file("a.txt", "hello");
    let settings = json!({ "tools": ["read_file"], "thinking": { "type": "adaptive" },
                           "fallback_models": [FALLBACK] });
    let session = app.session_with(settings).await;
    let run = session.ask("What does a.txt say?").await;
    assert_eq!(run["output_text"], "Second.", "{run}");
    assert_eq!((app.upstream().len(), second.upstream().len()), (1 + 3, 2));
    let upstream = second.upstream();
    assert_eq!(kinds(&upstream.body(0)), ["tool_use"], "not the thinking of the first model");
    assert_eq!(kinds(&upstream.body(1)), ["tool_use", "thinking", "tool_use"], "its own thinking");

    app.play(&replies(&[thought("Four", says("First."))]));
    assert_eq!(session.ask("Again").await["output_text"], "First.");
    let body = app.upstream().body(4);
    assert_eq!(kinds(&body), ["tool_use", "tool_use", "text"], "not the thinking of the fallback");
    app.play(&replies(&[thought("Five", says("Still first."))]));
    assert_eq!(session.ask("And again").await["output_text"], "Still first.");
    let body = app.upstream().body(5);
    assert_eq!(kinds(&body), ["tool_use", "tool_use", "text", "thinking", "text"]);
    let dropped = session.events().await;
    let dropped =
        dropped.iter().filter(|event| event["sent_history"]["change"] == "thinking_dropped");
    assert_eq!(dropped.count(), 3, "before the fallback, and after each of its replies");
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_models_of_a_chain_are_asked_in_their_order_until_one_answers() {
    let second = second(Provider::Anthropic, &replies(&[says("Third.")])).await;
    let script = json!({ "conversations": [{ "replies": [soon(529)] }], "otherwise": "refuse" });
    let app = start(script, &second).await;
    let chain = json!({ "fallback_models": ["simulator-b", FALLBACK] });
    let session = app.session_with(chain.clone()).await;
    let run = session.ask("Hi").await;
    assert_eq!(run["output_text"], "Third.");
    let models: Vec<Value> = requests(&session, &run).await.into_iter().map(|it| it.0).collect();
    assert_eq!(models, ["simulator", "simulator-b", FALLBACK]);

    // The last model has all its tries, and its error is that of the run.
    second.play(&replies(&[soon(503)]));
    let session = app.session_with(chain).await;
    let before = second.upstream().len();
    let run = session.ask("Hi").await;
    assert_eq!(run["status"], "failed");
    assert_eq!(run["stop_reason"]["type"], "retries_exhausted");
    assert_eq!(second.upstream().len() - before, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_request_itself_is_not_sent_to_the_fallback_model() {
    let second = second(Provider::Anthropic, &replies(&[says("Second.")])).await;
    let app = start(replies(&[json!({ "status": 400 })]), &second).await;
    let session = app.session_with(json!({ "fallback_models": [FALLBACK] })).await;
    assert_eq!(session.ask("Hi").await["status"], "failed");
    assert_eq!((app.upstream().len(), second.upstream().len()), (1, 0));
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_a_fallback_model_does_not_accept_are_left_out_of_its_requests() {
    let second = second(Provider::Anthropic, &replies(&[says("Second.")])).await;
    let app = start(replies(&[soon(529)]), &second).await;
    let settings = |fallback: &str| {
        json!({ "thinking": { "type": "adaptive" }, "effort": "high", "max_tokens": 100,
                "fallback_models": [fallback] })
    };
    // The name of a model that the simulator does not know is refused by it.
    let session = app.session_with(settings("second/plain")).await;
    let run = session.ask("Hi").await;
    assert_eq!(run["status"], "failed");
    let body = second.upstream().body(0);
    assert_eq!(body["model"], "plain");
    assert!(body.get("thinking").is_none() && body.get("output_config").is_none(), "{body}");
    let session = app.session_with(settings("second/short")).await;
    session.ask("Hi").await;
    let body = second.upstream().body(1);
    assert_eq!((&body["max_tokens"], &body["thinking"]["type"]), (&json!(50), &json!("adaptive")));
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_is_checked_when_it_is_set_and_agents_supply_it() {
    let second = second(Provider::Anthropic, &replies(&[])).await;
    let app = start(replies(&[]), &second).await;
    let names = |names: &[&str]| json!({ "fallback_models": names });
    let unpriced = json!({ "fallback_models": ["simulator-9"], "limits": { "cost": 5 } });
    for (body, pointer, message) in [
        (names(&["a", "b", "c", "d"]), "/fallback_models", "more than 3"),
        (names(&["a", "sceond/b"]), "/fallback_models/1", "second"),
        (names(&["a", "a"]), "/fallback_models/1", "earlier model"),
        (names(&["simulator"]), "/fallback_models/0", "earlier model"),
        (names(&[""]), "/fallback_models/0", "1 to 200"),
        (unpriced, "/fallback_models/0", "no price"),
    ] {
        let response = app.post("/v1/sessions").json(&body).send().await.unwrap();
        let refused = problem(response, 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{body}");
        let text = refused["errors"][0]["message"].as_str().unwrap();
        assert!(text.contains(message), "{text}");
    }
    let agent = app.client.put(app.url("/v1/agents/careful")).json(&names(&[FALLBACK]));
    assert!(agent.send().await.unwrap().status().is_success());
    let session = app.session_with(json!({ "agent": "careful" })).await;
    assert_eq!(session.read().await["fallback_models"], json!([FALLBACK]));
    let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
    let header: Value = serde_json::from_str(export.lines().next().unwrap()).unwrap();
    assert_eq!(header["settings"]["fallback_models"], json!([FALLBACK]));
}
