//! Tools of the service with descriptions of a session or an agent.

use serde_json::{Value, json};

use crate::support::{TestApp, problem, replies, says};

const TEXT: &str = "Returns the time. Use it before every answer.";

/// The name and the description of each tool in a request to the model.
fn described(app: &TestApp, index: usize) -> Vec<(String, String)> {
    let body = app.upstream().body(index);
    let tools = body["tools"].as_array().unwrap().iter();
    let text = |tool: &Value, member: &str| tool[member].as_str().unwrap().to_owned();
    tools.map(|tool| (text(tool, "name"), text(tool, "description"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_an_agent_describe_tools_in_their_own_words() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let tools = json!(["read_file", { "name": "get_time", "description": TEXT }]);
    let put = app.client.put(app.url("/v1/agents/clock")).json(&json!({ "tools": tools }));
    assert_eq!(put.send().await.unwrap().status(), 201);
    for (index, body) in
        [json!({ "tools": tools }), json!({ "agent": "clock" })].into_iter().enumerate()
    {
        let session = app.session_with(body).await;
        assert_eq!(session.read().await["tools"], json!(["read_file", "get_time"]));
        assert_eq!(session.ask("Hello").await["output_text"], "Yes.");
        let [(read, usual), (time, own)] = &described(&app, index)[..] else { panic!() };
        assert_eq!([read, time, own], ["read_file", "get_time", TEXT]);
        assert!(usual.contains("file"), "{usual}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_session_keeps_its_descriptions() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let tools = json!(["read_file", { "name": "get_time", "description": TEXT }]);
    let session = app.session_with(json!({ "tools": tools })).await;
    assert_eq!(session.ask("Hello").await["output_text"], "Yes.");
    let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
    let import = app.post("/v1/sessions/import").header("content-type", "application/jsonl");
    let copy: Value = import.body(export).send().await.unwrap().json().await.unwrap();
    let copy = app.existing_session(copy["id"].as_str().unwrap());
    assert_eq!(copy.ask("Again").await["output_text"], "Yes.");
    assert_eq!(described(&app, 0), described(&app, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_description_is_refused_with_a_pointer() {
    let app = TestApp::start(replies(&[])).await;
    let tool = |description: &str| json!({ "name": "get_time", "description": description });
    for (tools, pointer) in [
        (json!([tool(" ")]), "/tools/0/description"),
        (json!([tool("a\0b")]), "/tools/0/description"),
        (json!(["read_file", tool(&"x".repeat(10_001))]), "/tools/1/description"),
        (json!([tool("a"), tool("b")]), "/tools/1/name"),
        (json!([{ "name": "no_such_tool", "description": "a" }]), "/tools"),
        (json!([{ "name": "get_time" }]), "/tools/0"),
    ] {
        let request = app.post("/v1/sessions").json(&json!({ "tools": tools }));
        let refused = problem(request.send().await.unwrap(), 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{tools}");
    }
}
