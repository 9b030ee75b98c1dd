//! The model, the effort and the thinking setting change within a session: from the next run on, or for
//! the run of one message.

use std::sync::Arc;

use serde_json::{Value, json};
use twostep::domain::model::{Capabilities, Models};
use twostep::domain::price::{Price, Prices};
use twostep::domain::provider::Provider;
use twostep::service::ModelRules;

use crate::support::media::pixel;
use crate::support::{
    Session, Setup, TestApp, calls_as, hangs_first, pending, problem, replies, says,
};

/// A script whose replies think before they answer.
fn thinks() -> Value {
    replies(&[json!({ "content": [
        { "type": "thinking", "thinking": "Hm." },
        { "type": "text", "text": "I see." },
    ] })])
}

async fn patch(session: &Session<'_>, body: &Value) -> Value {
    let app = session.app;
    let request = app.client.patch(app.url(&session.path(""))).json(body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200, "{body}");
    response.json().await.unwrap()
}

/// The pointer and the message of the first error of a refused patch.
async fn refused_patch(session: &Session<'_>, body: &Value) -> (String, String) {
    let app = session.app;
    let request = app.client.patch(app.url(&session.path(""))).json(body);
    first_error(problem(request.send().await.unwrap(), 422, "validation_failed").await)
}

async fn refused_message(session: &Session<'_>, body: &Value) -> (String, String) {
    let response = session.message(body).send().await.unwrap();
    first_error(problem(response, 422, "validation_failed").await)
}

#[expect(clippy::needless_pass_by_value, reason = "callers have no other use for it")]
fn first_error(problem: Value) -> (String, String) {
    let text = |name: &str| problem["errors"][0][name].as_str().unwrap().to_owned();
    (text("pointer"), text("message"))
}

/// The members of a request that follow from the model settings.
fn sent(app: &TestApp, index: usize) -> Value {
    let body = app.upstream().body(index);
    json!([body["model"], body["output_config"]["effort"], body["thinking"]["type"]])
}

fn kinds_of(message: &Value) -> Vec<&str> {
    let blocks = message["content"].as_array().unwrap();
    blocks.iter().map(|block| block["type"].as_str().unwrap()).collect()
}

/// The levels of the reported prefix changes, in the order of the requests.
async fn levels(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let ends = events.iter().filter(|event| event["type"] == "span.model_request_end");
    ends.map(|event| event["prefix_changed"]["level"].clone()).collect()
}

/// The members of `session.updated` events, without those that all events have.
async fn updates(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let updated = events.into_iter().filter(|event| event["type"] == "session.updated");
    let bare = |mut event: Value| {
        for name in ["type", "id", "seq", "session_id", "run_id", "created_at", "processed_at"] {
            event.as_object_mut().unwrap().remove(name);
        }
        event
    };
    updated.map(bare).collect()
}

/// Asserts that the records of a run's requests show the bodies that were sent from this one on.
async fn assert_recorded(session: &Session<'_>, run: &Value, model: &str, from: usize) {
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    let list: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
    for (index, request) in list["data"].as_array().unwrap().iter().enumerate() {
        assert_eq!(request["model"], model, "{request}");
        let path = format!("{path}/{}", request["n"]);
        let whole: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
        assert_eq!(whole["body"], session.app.upstream().body(from + index), "{whole}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_another_model_effort_and_thinking_from_the_next_run_on() {
    let app = TestApp::start(thinks()).await;
    let session = app.session_with(json!({ "model": "claude-opus-4-8", "effort": "high" })).await;
    let first = session.ask("Hello").await;
    assert_eq!(sent(&app, 0), json!(["claude-opus-4-8", "high", null]));
    let change = json!({ "model": "claude-sonnet-5-5", "effort": "low",
                         "thinking": { "type": "adaptive" } });
    let shown = patch(&session, &change).await;
    for name in ["model", "effort", "thinking"] {
        assert_eq!(shown[name], change[name], "{shown}");
    }
    assert_eq!(updates(&session).await, [change]);
    // Nothing changes: no event.
    patch(&session, &json!({ "effort": "low" })).await;

    let second = session.ask("Again").await;
    assert_eq!(sent(&app, 1), json!(["claude-sonnet-5-5", "low", "adaptive"]));
    let body = app.upstream().body(1);
    assert_eq!(kinds_of(&body["messages"][1]), ["text"], "the thinking of the other model");
    patch(&session, &json!({ "effort": null })).await;
    session.ask("Once more").await;
    patch(&session, &json!({ "thinking": null })).await;
    session.ask("And again").await;
    assert_eq!(sent(&app, 2), json!(["claude-sonnet-5-5", null, "adaptive"]));
    assert_eq!(sent(&app, 3), json!(["claude-sonnet-5-5", null, null]));
    let body = app.upstream().body(3);
    let kinds: Vec<_> = [1, 3, 5].map(|at| kinds_of(&body["messages"][at])).into();
    assert_eq!(kinds, [vec!["text"], vec!["thinking", "text"], vec!["thinking", "text"]]);
    let dropped = json!({ "sent_history": { "change": "thinking_dropped", "up_to": 3 } });
    let others = [json!({ "effort": null }), json!({ "thinking": null })];
    assert_eq!(updates(&session).await[1..], [&[dropped][..], &others].concat());
    assert_eq!(json!(levels(&session).await), json!([null, "model", "effort", "thinking"]));
    assert_recorded(&session, &first, "claude-opus-4-8", 0).await;
    assert_recorded(&session, &second, "claude-sonnet-5-5", 1).await;
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_a_model_of_its_own_and_is_charged_its_price() {
    let price = |input| Price { input, output: 0, cache_write: input, ..Price::default() };
    let prices: Prices = [("claude-opus-4-8", 1_000_000), ("claude-haiku-4-5", 3_000_000)]
        .map(|(name, input)| (name.to_owned(), Price { cache_read: input, ..price(input) }))
        .into();
    let setup = Setup { prices, ..Setup::default() };
    let app = TestApp::start_with(thinks(), setup).await;
    let settings = json!({ "model": "claude-opus-4-8", "max_tokens": 4000,
                           "budget": { "cost": 100_000_000 } });
    let session = app.session_with(settings).await;
    session.ask("Hello").await;
    let message = json!({ "content": "Again", "model": "claude-haiku-4-5",
                          "thinking": { "type": "enabled", "budget_tokens": 1024 } });
    let run = session.ask_with(message).await;
    session.ask("Once more").await;
    let models: Vec<Value> = (0..3).map(|at| app.upstream().body(at)["model"].clone()).collect();
    let expected = ["claude-opus-4-8", "claude-haiku-4-5", "claude-opus-4-8"];
    assert_eq!(json!(models), json!(expected));
    assert_eq!(sent(&app, 1)[2], "enabled");
    let events = session.events().await;
    let started = events.iter().filter(|event| event["type"] == "span.model_request_start");
    let started: Vec<&Value> = started.map(|event| &event["model"]).collect();
    assert_eq!(json!(started), json!(expected));
    assert_eq!(json!(levels(&session).await), json!([null, "model", "model"]));
    // Each model receives its own thinking only.
    let kinds = |at: usize, message: usize| {
        let body = app.upstream().body(at);
        json!(kinds_of(&body["messages"][message]))
    };
    assert_eq!(
        [kinds(1, 1), kinds(2, 1), kinds(2, 3)],
        [json!(["text"]), json!(["text"]), json!(["text"])]
    );
    assert_recorded(&session, &run, "claude-haiku-4-5", 1).await;
    let used = &run["usage"];
    let prompt: i64 = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]
        .iter()
        .filter_map(|name| used[name].as_i64())
        .sum();
    assert_eq!(run["cost"].as_i64(), Some(3 * prompt), "{run}");
    assert_eq!(session.read().await["model"], "claude-opus-4-8");
    app.end_refused(&[]);
}

/// Another model or another setting of thinking within a tool loop is refused by the API.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_keeps_its_model_also_in_another_process() {
    let script = || {
        let call = calls_as(&[("toolu_1", "open_door", json!({}))]);
        let thinking = json!({ "type": "thinking", "thinking": "Hm." });
        let call = json!({ "content": [thinking, call["content"][0]] });
        json!({ "conversations": [
            { "when": "again", "replies": [says("It still is.")] },
            { "replies": [call, says("It is open.")] },
        ], "otherwise": "refuse" })
    };
    let app = TestApp::start(script()).await;
    let door = json!({ "name": "open_door", "description": "Opens a door.", "client": true,
                       "input_schema": { "type": "object" } });
    let settings = json!({ "model": "claude-opus-4-8", "tools": [door],
                           "thinking": { "type": "adaptive" } });
    let session = app.session_with(settings).await;
    let id = session.id.clone();
    let run = session.ask("Open it").await;
    assert_eq!(pending(&run), ["toolu_1"]);
    let change = json!({ "model": "claude-haiku-5-5", "thinking": { "type": "disabled" } });
    patch(&session, &change).await;
    let app = app.restarted(script()).await;
    let session = app.existing_session(&id);
    let results = json!([{ "tool_use_id": "toolu_1", "content": "done" }]);
    session.accepted(session.submit_results(&results)).await;
    let run = session.settled(&run).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("It is open.")));
    assert_eq!(sent(&app, 0), json!(["claude-opus-4-8", null, "adaptive"]));
    let run = session.ask("Open it again").await;
    assert_eq!(run["output_text"], "It still is.");
    assert_eq!(sent(&app, 1), json!(["claude-haiku-5-5", null, "disabled"]));
    assert_eq!(kinds_of(&app.upstream().body(1)["messages"][1]), ["tool_use"]);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_model_is_reported_by_a_process_that_has_sent_no_request() {
    let app = TestApp::start(thinks()).await;
    let session = app.session_with(json!({ "model": "claude-opus-4-8" })).await;
    let id = session.id.clone();
    session.ask("Hello").await;
    patch(&session, &json!({ "model": "claude-sonnet-5-5" })).await;
    let app = app.restarted(thinks()).await;
    let session = app.existing_session(&id);
    session.ask("Again").await;
    assert_eq!(json!(levels(&session).await), json!([null, "model"]));
    assert_eq!(kinds_of(&app.upstream().body(0)["messages"][1]), ["text"]);
    // A fork continues with the model, and so does a session from an export.
    let fork = app.post(&session.path("/forks")).json(&json!({})).send().await.unwrap();
    let fork: Value = fork.json().await.unwrap();
    assert_eq!(fork["model"], "claude-sonnet-5-5", "{fork}");
    let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
    let header: Value = serde_json::from_str(export.lines().next().unwrap()).unwrap();
    assert!(header.to_string().contains(r#""model":"claude-sonnet-5-5""#), "{header}");
    app.end_refused(&[]);
}

/// A service with a model `small` that lacks structured outputs and images, and without prices for the
/// other models.
async fn with_small_model() -> TestApp {
    let unable = Capabilities {
        structured_outputs: Some(false),
        image_input: Some(false),
        max_tokens: Some(1000),
        ..Capabilities::default()
    };
    let known = [("small".to_owned(), unable)].into();
    let models = Arc::new(Models::new(Provider::Anthropic, known));
    let model_rules = ModelRules { models, ..ModelRules::default() };
    let prices = [("simulator".to_owned(), Price::default())].into();
    let setup = Setup { prices, model_rules, ..Setup::default() };
    TestApp::start_with(replies(&[says("{}")]), setup).await
}

/// Settings of a session, a change that its new model does not accept, and the pointer and a word of the
/// refusal.
fn refused_changes() -> Vec<(Value, Value, &'static str, &'static str)> {
    let schema = json!({ "type": "object", "additionalProperties": false });
    vec![
        (json!({}), json!({ "model": "" }), "/model", "is empty"),
        (json!({}), json!({ "effort": "loud" }), "/effort", "loud"),
        (json!({}), json!({ "thinking": [] }), "/thinking", "is not an object"),
        (
            json!({ "effort": "high" }),
            json!({ "model": "claude-haiku-4-5" }),
            "/effort",
            "claude-haiku-4-5",
        ),
        (
            json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } }),
            json!({ "model": "claude-sonnet-5-5" }),
            "/thinking/type",
            "claude-sonnet-5-5",
        ),
        (
            json!({ "model": "claude-opus-5-5" }),
            json!({ "thinking": { "type": "disabled" } }),
            "/thinking/type",
            "claude-opus-5-5",
        ),
        (
            json!({ "temperature": 0.5 }),
            json!({ "model": "claude-sonnet-5-5" }),
            "/temperature",
            "claude-sonnet-5-5",
        ),
        (
            json!({ "tool_choice": { "type": "any" } }),
            json!({ "model": "claude-sonnet-5-5" }),
            "/tool_choice",
            "claude-sonnet-5-5",
        ),
        (json!({ "max_tokens": 2000 }), json!({ "model": "small" }), "/max_tokens", "small"),
        (
            json!({ "max_tokens": 1000, "output_schema": schema }),
            json!({ "model": "small" }),
            "/output_schema",
            "small",
        ),
        (
            json!({ "model": "claude-sonnet-4-6", "max_tokens": 4000, "tools": ["Task"],
                    "sub_agents": [{ "name": "small", "description": "d", "max_tokens": 1500 }] }),
            json!({ "thinking": { "type": "enabled", "budget_tokens": 2000 } }),
            "/sub_agents/0/thinking/budget_tokens",
            "less than max_tokens",
        ),
        (
            json!({ "budget": { "cost": 1000 } }),
            json!({ "model": "claude-opus-5-5" }),
            "/budget/cost",
            "claude-opus-5-5",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_model_does_not_accept_is_refused_with_its_name() {
    let app = with_small_model().await;
    for (settings, change, pointer, words) in refused_changes() {
        let session = app.session_with(settings.clone()).await;
        let refused = refused_patch(&session, &change).await;
        assert!(
            refused.0 == pointer && refused.1.contains(words),
            "{settings} {change} {refused:?}"
        );
        let mut message = change.clone();
        message["content"] = json!("Hello");
        assert_eq!(refused_message(&session, &message).await, refused, "{message}");
        assert_eq!(updates(&session).await, [Value::Null; 0]);
    }
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_read_the_images_of_the_history_is_refused() {
    let app = with_small_model().await;
    let session = app.session_with(json!({ "max_tokens": 1000 })).await;
    let content = json!([pixel(), { "type": "text", "text": "What is it?" }]);
    session.ask_with(json!({ "content": content })).await;
    let change = json!({ "model": "small" });
    let (pointer, message) = refused_patch(&session, &change).await;
    assert!(pointer == "/model" && message.contains("an image"), "{pointer} {message}");
    let message = json!({ "content": "And now?", "model": "small" });
    assert_eq!(refused_message(&session, &message).await.0, "/model");
    assert_eq!(app.upstream().len(), 1);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_message_must_accept_the_model_too() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let first = session.post(json!({ "content": "hang" })).await;
    let queued = session.post(json!({ "content": "Hello", "temperature": 0.5 })).await;
    let (pointer, message) =
        refused_patch(&session, &json!({ "model": "claude-sonnet-5-5" })).await;
    let expected = "is refused by a queued message: its temperature is not supported by \
                    claude-sonnet-5-5";
    assert_eq!((&*pointer, &*message), ("/model", expected));
    patch(&session, &json!({ "model": "claude-sonnet-4-6" })).await;
    session.cancel(&first).await;
    assert_eq!(session.settled(&queued).await["output_text"], "You said Hello.");
    assert_eq!(sent(&app, 1)[0], "claude-sonnet-4-6", "from the next run on");
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_tools_have_the_version_that_the_model_accepts() {
    let server_tools = vec!["web_search".parse().unwrap()];
    let model_rules = ModelRules { server_tools, ..ModelRules::default() };
    let app = TestApp::start_with(thinks(), Setup { model_rules, ..Setup::default() }).await;
    let tools = json!(["get_time", "web_search"]);
    let session = app.session_with(json!({ "model": "claude-opus-4-8", "tools": tools })).await;
    session.ask("Hello").await;
    session.ask_with(json!({ "content": "Again", "model": "claude-haiku-4-5" })).await;
    session.ask("Once more").await;
    let version = |at: usize| app.upstream().body(at)["tools"][1]["type"].clone();
    let expected = ["web_search_20260318", "web_search_20250305", "web_search_20260318"];
    assert_eq!([version(0), version(1), version(2)], expected);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_message_with_a_model_starts_one_run() {
    let app = TestApp::start(thinks()).await;
    let session = app.session().await;
    let message = json!({ "id": "m1", "content": "Hello", "model": "claude-haiku-4-5" });
    let run = session.ask_with(message.clone()).await;
    // Another model of the session is no other message.
    patch(&session, &json!({ "model": "claude-opus-4-8" })).await;
    assert_eq!(session.ask_with(message).await["id"], run["id"]);
    let other = json!({ "id": "m1", "content": "Hello", "model": "claude-opus-4-8" });
    problem(session.message(&other).send().await.unwrap(), 422, "idempotency_key_reused").await;
    assert_eq!(app.upstream().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_in_another_process_applies_to_the_next_run() {
    let app = TestApp::start(thinks()).await;
    let session = app.session_with(json!({ "model": "claude-opus-4-8" })).await;
    session.ask("Hello").await;
    let second = app.second_service(Setup { no_worker: true, ..Setup::default() }).await;
    let request = second.patch(&session.path("")).json(&json!({ "model": "claude-sonnet-5-5" }));
    assert_eq!(request.send().await.unwrap().status(), 200);
    second.stop().await;
    for text in ["Again", "Once more"] {
        // What this process has sent before it knew of the change is no part of the run.
        let run = session.ask(text).await;
        let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
        let list: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
        let models: Vec<&Value> =
            list["data"].as_array().unwrap().iter().map(|request| &request["model"]).collect();
        assert_eq!(json!(models), json!(["claude-sonnet-5-5"]));
        assert_eq!(sent(&app, app.upstream().len() - 1)[0], "claude-sonnet-5-5");
    }
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_have_the_conversation_is_refused() {
    let short = Capabilities { max_input_tokens: Some(1000), ..Capabilities::default() };
    let models = Arc::new(Models::new(Provider::Anthropic, [("short".to_owned(), short)].into()));
    let model_rules = ModelRules { models, compact_at: Some(2000), ..ModelRules::default() };
    let summary = json!({ "content": [{ "type": "compaction", "content": "They said yes." }] });
    let script =
        json!({ "conversations": [{ "replies": [says("Yes.")] }], "compaction": [summary] });
    let app = TestApp::start_with(script, Setup { model_rules, ..Setup::default() }).await;
    let session = app.session_with(json!({ "model": "claude-opus-4-8", "tools": [] })).await;
    let long = "x".repeat(4400);
    session.ask(&long).await;
    let refused = refused_patch(&session, &json!({ "model": "short" })).await;
    assert!(refused.0 == "/model" && refused.1.contains("at most 1000"), "{refused:?}");
    session.ask(&long).await;
    let refused = refused_patch(&session, &json!({ "model": "claude-haiku-4-5" })).await;
    assert!(refused.0 == "/model" && refused.1.contains("a summary"), "{refused:?}");
    let shown = patch(&session, &json!({ "model": "claude-sonnet-5-5" })).await;
    assert_eq!(shown["context"]["compact_at"], 2000, "the default of the other model");
    assert_eq!(session.ask("And now?").await["status"], "completed");
    let body = app.upstream().body(app.upstream().len() - 1);
    assert_eq!(body["messages"][0]["content"][0]["type"], "compaction");
    app.end_refused(&[]);
}

/// A run that was stopped in its tool loop leaves results at the end of the history.
#[tokio::test(flavor = "multi_thread")]
async fn thinking_can_be_disabled_after_a_run_was_stopped_in_its_tool_loop() {
    let call = json!({ "type": "tool_use", "name": "open_door", "id": "toolu_1", "input": {} });
    let thinking = json!({ "type": "thinking", "thinking": "Hm." });
    let app = TestApp::start(json!({ "conversations": [
        { "when": "again", "replies": [says("It still is.")] },
        { "replies": [{ "content": [thinking, call] }] },
    ], "otherwise": "refuse" }))
    .await;
    let door = json!({ "name": "open_door", "description": "Opens a door.", "client": true,
                       "input_schema": { "type": "object" } });
    let settings = json!({ "model": "claude-opus-4-8", "tools": [door],
                           "thinking": { "type": "adaptive" } });
    let session = app.session_with(settings).await;
    let run = session.ask("Open it").await;
    session.cancel(&run).await;
    session.settled(&run).await;
    patch(&session, &json!({ "thinking": { "type": "disabled" } })).await;
    let run = session.ask("Open it again").await;
    assert_eq!(
        (&run["status"], &run["output_text"]),
        (&json!("completed"), &json!("It still is."))
    );
    app.end_refused(&["messages.1.content.0: When thinking is disabled, an `assistant` message in \
                       the final position cannot contain `thinking`. To use thinking blocks, enable \
                       `thinking` in your request."]);
}
