//! Deferred tools: the model finds their definitions with `ToolSearch`.

use reqwest::Response;
use serde_json::{Value, json};
use twostep::domain::provider::Provider;

use crate::support::{Session, Setup, TestApp, calls, problem, replies, says};

/// A model that supports tool search. The simulated model is not known to support it.
const NATIVE: &str = "claude-sonnet-4-6";

/// A script that searches for `get_time`, calls it, and answers; and answers every later message.
fn finds_time() -> Value {
    let found = [
        calls("ToolSearch", json!({ "query": "what is the current date" })),
        calls("get_time", json!({})),
        says("Late."),
    ];
    json!({ "conversations": [{ "when": "When", "replies": found }, { "replies": [says("Yes.")] }],
            "otherwise": "refuse" })
}

fn settings(model: Option<&str>) -> Value {
    let mut settings = json!({ "tools": ["read_file", "get_time"], "deferred_tools": ["get_*"] });
    if let Some(model) = model {
        settings["model"] = model.into();
    }
    settings
}

/// The names of the tools of a request; those that are marked as deferred begin with `-`.
fn tools(app: &TestApp, index: usize) -> Vec<String> {
    let body = app.upstream().body(index);
    let name = |tool: &Value| match tool["name"].as_str().or(tool["function"]["name"].as_str()) {
        Some(name) if tool["defer_loading"] == true => format!("-{name}"),
        name => name.unwrap_or_default().to_owned(),
    };
    body["tools"].as_array().into_iter().flatten().map(name).collect()
}

/// The levels of the reported prefix changes, in the order of the requests.
async fn levels(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let ends = events.iter().filter(|event| event["type"] == "span.model_request_end");
    ends.map(|event| event["prefix_changed"]["level"].clone()).collect()
}

/// Asserts that the records of a run's requests show the bodies that were sent, from this one on.
async fn assert_recorded(session: &Session<'_>, run: &Value, from: usize) {
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    let list: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
    for (index, request) in list["data"].as_array().unwrap().iter().enumerate() {
        let path = format!("{path}/{}", request["n"]);
        let whole: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
        assert_eq!(whole["body"], session.app.upstream().body(from + index), "{whole}");
    }
}

/// The pointer and the message of the first error of a refused request.
async fn refused(response: Response) -> (String, String) {
    let problem = problem(response, 422, "validation_failed").await;
    let text = |name: &str| problem["errors"][0][name].as_str().unwrap().to_owned();
    (text("pointer"), text("message"))
}

fn references() -> Value {
    json!([{ "type": "tool_reference", "tool_name": "get_time" }])
}

/// The first event with a result.
async fn found_event(session: &Session<'_>) -> Value {
    let events = session.events().await;
    events.into_iter().find(|event| event["type"] == "agent.tool_result").unwrap()
}

/// The text of the found definition, for models without tool search.
fn is_definition(text: &Value) -> bool {
    let text = text.as_str().unwrap();
    text.starts_with("get_time: Returns the current date") && text.contains("\nInput schema: {")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_with_tool_search_gets_references_and_an_unchanged_prefix() {
    let app = TestApp::start(finds_time()).await;
    let session = app.session_with(settings(Some(NATIVE))).await;
    let shown = session.read().await;
    assert_eq!(shown["tools"], json!(["read_file", "get_time", "ToolSearch"]));
    assert_eq!(shown["deferred_tools"], json!(["get_time"]));
    let run = session.ask("When").await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Late.")));
    // The deferred tools follow the others, of which the last one has the cache breakpoint.
    for request in 0..3 {
        assert_eq!(tools(&app, request), ["read_file", "ToolSearch", "-get_time"]);
    }
    let first = app.upstream().body(0);
    let search = &first["tools"][1];
    assert_eq!(search["cache_control"]["type"], "ephemeral");
    assert!(search["description"].as_str().unwrap().ends_with("The deferred tools:\n- get_time"));
    let history = session.history().await;
    assert_eq!(history[2]["message"]["content"][0]["content"], references());
    assert_eq!(app.upstream().body(1)["messages"][2]["content"][0]["content"], references());
    let result = found_event(&session).await;
    assert_eq!(result["content"][0]["text"], "Found, and ready to be called:\n- get_time");
    assert_eq!(levels(&session).await, [json!(null), json!(null), json!(null)]);
    assert_recorded(&session, &run, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_models_get_the_found_definitions_at_the_end_of_the_tools() {
    let app = TestApp::start(finds_time()).await;
    let session = app.session_with(settings(None)).await;
    let run = session.ask("When").await;
    assert_eq!(run["output_text"], "Late.");
    let expected: [&[&str]; 3] = [
        &["read_file", "ToolSearch"],
        &["read_file", "ToolSearch", "get_time"],
        &["read_file", "ToolSearch", "get_time"],
    ];
    for (request, expected) in expected.into_iter().enumerate() {
        assert_eq!(tools(&app, request), expected);
    }
    let text = &app.upstream().body(1)["messages"][2]["content"][0]["content"][0]["text"];
    assert!(is_definition(text), "{text}");
    // The stored history is the same for all models.
    assert_eq!(session.history().await[2]["message"]["content"][0]["content"], references());
    assert_eq!(levels(&session).await, [json!(null), json!("tools"), json!(null)]);
    assert_recorded(&session, &run, 0).await;
    // Another process derives the same tools from the history.
    let id = session.id.clone();
    let app = app.restarted(finds_time()).await;
    let session = app.existing_session(&id);
    let door = json!({ "name": "open_door", "input_schema": { "type": "object" }, "client": true });
    let run = session.ask_with(json!({ "content": "Again", "tools": [door] })).await;
    assert_eq!(run["output_text"], "Yes.");
    assert_eq!(tools(&app, 0), ["read_file", "ToolSearch", "open_door", "get_time"]);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_protocols_of_openai_get_the_found_definitions_at_the_end_of_the_tools() {
    for (provider, place) in
        [(Provider::OpenAi, "/messages/3/content"), (Provider::OpenAiResponses, "/input/2/output")]
    {
        let setup = Setup { provider, ..Setup::default() };
        let app = TestApp::start_with(finds_time(), setup).await;
        // The members of the client follow the tools.
        let mut settings = settings(None);
        settings["extra_body"] = json!({ "prompt_cache_key": "k" });
        let session = app.session_with(settings).await;
        let run = session.ask("When").await;
        assert_eq!(run["output_text"], "Late.");
        assert_eq!(tools(&app, 0), ["read_file", "ToolSearch"]);
        assert_eq!(tools(&app, 2), ["read_file", "ToolSearch", "get_time"]);
        let body = app.upstream().body(2);
        let text = body.pointer(place).unwrap();
        assert!(is_definition(text), "{text}");
        assert_eq!(body["prompt_cache_key"], "k");
        assert_recorded(&session, &run, 0).await;
        app.end_refused(&[]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_changes_between_models_with_and_without_tool_search() {
    let app = TestApp::start(finds_time()).await;
    let session = app.session_with(settings(Some(NATIVE))).await;
    session.ask("When").await;
    for (model, expected) in [
        ("simulator", &["read_file", "ToolSearch", "get_time"][..]),
        ("claude-haiku-4-5", &["read_file", "ToolSearch", "-get_time"]),
    ] {
        let run = session.ask_with(json!({ "content": "And now?", "model": model })).await;
        assert_eq!(run["output_text"], "Yes.", "{run}");
        let last = app.upstream().len() - 1;
        assert_eq!(tools(&app, last), expected);
        assert_recorded(&session, &run, last).await;
        let result = &app.upstream().body(last)["messages"][2]["content"][0]["content"];
        assert_eq!(*result == references(), model != "simulator", "{result}");
    }
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_an_import_and_a_summary_keep_a_valid_history() {
    let mut script = finds_time();
    let summary = json!({ "content": [{ "type": "compaction", "content": "They spoke." }] });
    script["compaction"] = json!([summary]);
    for model in [NATIVE, "simulator"] {
        let app = TestApp::start(script.clone()).await;
        let mut settings = settings(Some(model));
        settings["context"] = json!({ "compact_at": 4000 });
        let session = app.session_with(settings).await;
        session.ask("When").await;
        let fork = app.post(&session.path("/forks")).json(&json!({})).send().await.unwrap();
        assert_eq!(fork.status(), 201);
        let fork: Value = fork.json().await.unwrap();
        let fork = app.existing_session(fork["id"].as_str().unwrap());
        assert_eq!(fork.ask("Further").await["output_text"], "Yes.");
        // A fork that ends at the search answers it with the references, and so does a fork of it.
        let mut source = session.id.clone();
        for _ in 0..2 {
            let forks = format!("/v1/sessions/{source}/forks");
            let fork = app.post(&forks).json(&json!({ "before": 3 })).send().await.unwrap();
            let fork: Value = fork.json().await.unwrap();
            let fork = app.existing_session(fork["id"].as_str().unwrap());
            let history = fork.history().await;
            assert_eq!(history[2]["message"]["content"][0]["content"], references());
            let text = "Found, and ready to be called:\n- get_time";
            assert_eq!(found_event(&fork).await["content"][0]["text"], text);
            source.clone_from(&fork.id);
        }
        let found = if model == NATIVE { "-get_time" } else { "get_time" };
        assert_eq!(tools(&app, 3), ["read_file", "ToolSearch", found]);

        let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
        let import = |body: String| {
            let request = app.post("/v1/sessions/import");
            request.header("content-type", "application/jsonl").body(body).send()
        };
        let imported: Value = import(export.clone()).await.unwrap().json().await.unwrap();
        let imported = app.existing_session(imported["id"].as_str().unwrap());
        assert_eq!(imported.ask("Once more").await["output_text"], "Yes.");
        assert_eq!(tools(&app, 4), ["read_file", "ToolSearch", found]);
        let other = export.replace(r#""tool_name":"get_time""#, r#""tool_name":"none""#);
        let refused = refused(import(other).await.unwrap()).await;
        assert!(refused.1.contains("is no deferred tool of the session"), "{refused:?}");

        // The references are summarized, and the model has to search again.
        let run = session.ask(&format!("More {}", "x".repeat(14_000))).await;
        assert_eq!(run["output_text"], "Yes.");
        let last = app.upstream().len() - 1;
        assert_eq!(app.upstream().body(last)["messages"].as_array().unwrap().len(), 2);
        let expected = if model == NATIVE { vec![found.to_owned()] } else { vec![] };
        assert_eq!(tools(&app, last)[2..], expected);
        app.end_refused(&[]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_tool_that_was_not_found_can_be_called() {
    let script = replies(&[
        calls("get_time", json!({ "timezone": 5 })),
        calls("get_time", json!({})),
        says("Late."),
    ]);
    let app = TestApp::start(script).await;
    let session = app.session_with(settings(Some(NATIVE))).await;
    assert_eq!(session.ask("When?").await["output_text"], "Late.");
    let history = session.history().await;
    let result = &history[2]["message"]["content"][0];
    let text = result["content"].as_str().unwrap();
    let hint =
        "\nThe tool is deferred: load its definition with ToolSearch, as \"select:get_time\".";
    assert!(result["is_error"] == true && text.ends_with(hint), "{text}");
    assert_eq!(history[4]["message"]["content"][0].get("is_error"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_runs_all_tools_does_not_run_the_search() {
    let script = replies(&[
        calls("ToolSearch", json!({ "query": "select:get_time" })),
        says("It says: {{results}}"),
    ]);
    let app = TestApp::start(script).await;
    let mut settings = settings(Some(NATIVE));
    settings["dispatch"] = "client".into();
    let session = app.session_with(settings).await;
    assert_eq!(session.read().await["client_tools"], json!(["read_file", "get_time"]));
    assert_eq!(session.ask("Go").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agents_have_the_search_if_one_of_their_tools_is_deferred() {
    let task = |name: &str| {
        calls("Task", json!({ "description": "a", "prompt": "Do it", "subagent_type": name }))
    };
    let script = json!({ "conversations": [
        { "when": "Do it", "replies": [says("Done.")] },
        { "replies": [task("reader"), task("clock"), says("Both.")] },
    ] });
    let app = TestApp::start(script).await;
    let agent =
        |name: &str, tool: &str| json!({ "name": name, "description": "b", "tools": [tool] });
    let mut settings = settings(None);
    settings["tools"] = json!(["read_file", "get_time", "get_current_user", "Task"]);
    settings["sub_agents"] = json!([agent("reader", "read_file"), agent("clock", "get_time")]);
    let session = app.session_with(settings).await;
    assert_eq!(session.ask("Start").await["output_text"], "Both.");
    assert_eq!(tools(&app, 1), ["read_file"]);
    assert_eq!(tools(&app, 3), ["ToolSearch"]);
    let listed = app.upstream().body(3)["tools"][0]["description"].clone();
    assert!(listed.as_str().unwrap().ends_with("tools:\n- get_time"), "{listed}");
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_deferred_tools_are_refused() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let search =
        json!({ "name": "ToolSearch", "input_schema": { "type": "object" }, "client": true });
    let forced = json!({ "type": "tool", "name": "get_time" });
    for (members, pointer, message) in [
        (
            json!({ "deferred_tools": ["mcp__*"] }),
            "/deferred_tools/0",
            "matches no tool of the session",
        ),
        (json!({ "deferred_tools": ["get_time", ""] }), "/deferred_tools/1", "is empty"),
        (json!({ "deferred_tools": ["ToolSearch"] }), "/deferred_tools/0", {
            "matches no tool of the session"
        }),
        (
            json!({ "tools": ["get_time", search], "deferred_tools": ["get_time"] }),
            "/deferred_tools",
            "needs the name ToolSearch, which a tool of the client has",
        ),
        (
            json!({ "tools": ["get_time", "Task"], "deferred_tools": ["get_time"], "sub_agents": [
                { "name": "clock", "description": "a", "tools": ["get_time", "ToolSearch"] }] }),
            "/sub_agents/0/tools/1",
            "is a tool that each sub-agent with deferred tools has",
        ),
        (json!({ "tools": ["ToolSearch"] }), "/tools", {
            "names ToolSearch, which a session has if it has `deferred_tools`"
        }),
        (
            json!({ "deferred_tools": ["get_time"], "tool_choice": forced }),
            "/tool_choice",
            "the tool get_time is deferred: the model calls it when it has found it, and cannot be \
             forced to",
        ),
    ] {
        let response = app.post("/v1/sessions").json(&members).send().await.unwrap();
        assert_eq!(refused(response).await, (pointer.to_owned(), message.to_owned()));
    }
    let plain = app.session_with(json!({ "deferred_tools": [] })).await;
    assert!(plain.read().await.get("deferred_tools").is_none());
    let agent = json!({ "tools": ["get_time"], "deferred_tools": ["*"] });
    let put = app.client.put(app.url("/v1/agents/clock")).json(&agent).send().await.unwrap();
    assert!(put.status().is_success());
    let session = app.session_with(json!({ "agent": "clock" })).await;
    assert_eq!(session.read().await["deferred_tools"], json!(["get_time"]));
}
