//! Tool choices of messages, sessions and agents, and whether a reply may have several calls.

use serde_json::{Value, json};
use twostep::domain::provider::Provider;

use crate::support::{Setup, TestApp, calls, calls_as, problem, replies, says};

/// A script whose first reply has two calls.
fn two_calls() -> Value {
    let time = json!({ "timezone": "UTC" });
    let both = calls_as(&[("toolu_1", "get_time", time.clone()), ("toolu_2", "get_time", time)]);
    replies(&[both, says("Noon."), says("Still noon.")])
}

/// The tool choice of each request to the model.
fn choices(app: &TestApp) -> Vec<Value> {
    let upstream = app.upstream();
    (0..upstream.len()).map(|at| upstream.body(at)["tool_choice"].clone()).collect()
}

/// The number of calls of a run.
fn call_count(run: &Value) -> usize {
    run["tool_log"].as_array().map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_disables_parallel_calls_gets_one_call_per_reply() {
    let auto = json!({ "type": "auto", "disable_parallel_tool_use": true });
    for choice in [
        auto.clone(),
        json!({ "type": "any", "disable_parallel_tool_use": true }),
        json!({ "type": "tool", "name": "get_time", "disable_parallel_tool_use": true }),
    ] {
        let app = TestApp::start(two_calls()).await;
        let message = json!({ "content": "What time is it?", "tool_choice": choice });
        let run = app.session().await.ask_with(message).await;
        assert_eq!((run["output_text"].as_str(), call_count(&run)), (Some("Noon."), 1));
        // A choice is for the first round, and this member for all.
        assert_eq!(choices(&app), [choice, auto.clone()]);
    }
    let app = TestApp::start(two_calls()).await;
    let message = json!({ "content": "What time is it?",
                          "tool_choice": { "type": "auto", "disable_parallel_tool_use": false } });
    let run = app.session().await.ask_with(message).await;
    assert_eq!((call_count(&run), choices(&app)), (2, vec![Value::Null, Value::Null]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_choice_of_a_session_is_for_messages_without_one() {
    let app = TestApp::start(two_calls()).await;
    let forced = json!({ "type": "tool", "name": "get_time", "disable_parallel_tool_use": true });
    let session = app.session_with(json!({ "tool_choice": forced })).await;
    assert_eq!(session.read().await["tool_choice"], forced);
    let run = session.ask("What time is it?").await;
    assert_eq!((run["output_text"].as_str(), call_count(&run)), (Some("Noon."), 1));
    let message = json!({ "content": "Again", "tool_choice": { "type": "none" } });
    let _ = session.ask_with(message).await;
    let auto = json!({ "type": "auto", "disable_parallel_tool_use": true });
    assert_eq!(choices(&app), [forced, auto, json!({ "type": "none" })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_can_force_a_call() {
    let app = TestApp::start(two_calls()).await;
    let forced = json!({ "type": "any" });
    let put = |body: Value| app.client.put(app.url("/v1/agents/clock")).json(&body);
    let stored = put(json!({ "tools": ["get_time"], "tool_choice": forced })).send().await.unwrap();
    assert_eq!(stored.status(), 201);
    let session = app.session_with(json!({ "agent": "clock" })).await;
    assert_eq!(session.ask("What time is it?").await["output_text"], "Noon.");
    assert_eq!(choices(&app), [forced, Value::Null]);
    for (body, pointer) in [
        (json!({ "tools": [], "tool_choice": { "type": "any" } }), "/tool_choice"),
        (json!({ "tool_choice": { "type": "tool", "name": "no_such_tool" } }), "/tool_choice"),
        (json!({ "tool_choice": { "type": "auto", "junk": 1 } }), "/tool_choice/junk"),
    ] {
        let refused = problem(put(body).send().await.unwrap(), 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], pointer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_forces_a_call_is_refused_for_a_model_that_would_refuse_it() {
    let app = TestApp::start(two_calls()).await;
    let body = json!({ "model": "claude-sonnet-5-5", "tool_choice": { "type": "any" } });
    let response = app.post("/v1/sessions").json(&body).send().await.unwrap();
    let refused = problem(response, 422, "validation_failed").await;
    assert_eq!(
        refused["errors"][0],
        json!({ "pointer": "/tool_choice",
                "message": "the model claude-sonnet-5-5 refuses a forced tool choice" })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_tools_sends_no_choice() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let choice = json!({ "type": "auto", "disable_parallel_tool_use": true });
    let session = app.session_with(json!({ "tools": [], "tool_choice": choice })).await;
    assert_eq!(session.ask("Hello").await["output_text"], "Hello.");
    let message = json!({ "content": "Again", "tool_choice": { "type": "none" } });
    assert_eq!(session.ask_with(message).await["output_text"], "Hello.");
    assert_eq!(choices(&app), [Value::Null, Value::Null]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_is_not_forced_to_call_a_tool() {
    let task = calls("Task", json!({ "description": "About birds", "prompt": "ducks" }));
    let script = json!({ "conversations": [
        { "when": "all birds", "replies": [task, says("Three.")] },
        { "when": "ducks", "replies": [says("Three ducks.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    let forced = json!({ "type": "any", "disable_parallel_tool_use": true });
    let settings = json!({ "tools": ["Task", "get_time"], "tool_choice": forced });
    let session = app.session_with(settings).await;
    assert_eq!(session.ask("all birds").await["output_text"], "Three.");
    let auto = json!({ "type": "auto", "disable_parallel_tool_use": true });
    assert_eq!(choices(&app), [forced, auto.clone(), auto]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_protocols_of_openai_disable_parallel_calls_by_a_member_of_their_own() {
    for provider in [Provider::OpenAi, Provider::OpenAiResponses] {
        let setup = Setup { provider, ..Setup::default() };
        let app = TestApp::start_with(two_calls(), setup).await;
        let choice = json!({ "type": "any", "disable_parallel_tool_use": true });
        let message = json!({ "content": "What time is it?", "tool_choice": choice });
        let run = app.session().await.ask_with(message).await;
        assert_eq!((run["output_text"].as_str(), call_count(&run)), (Some("Noon."), 1));
        let upstream = app.upstream();
        let parallel: Vec<Value> =
            (0..2).map(|at| upstream.body(at)["parallel_tool_calls"].clone()).collect();
        assert_eq!(choices(&app), [json!("required"), Value::Null]);
        assert_eq!(parallel, [json!(false), json!(false)]);
    }
}
