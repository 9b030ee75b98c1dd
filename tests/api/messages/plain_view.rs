//! The plain view of the history, without tags for the model.

use serde_json::{Value, json};

use crate::support::{TestApp, calls, calls_as, problem, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn the_plain_view_shows_errors_without_their_tags() {
    let script = replies(&[calls("TodoWrite", json!({ "todos": 1 })), says("It failed.")]);
    let app = TestApp::start(script).await;
    let session = app.session().await;
    session.ask("Fail").await;
    let view = async |query: &str| -> Vec<Value> {
        let path = session.path(&format!("/messages{query}"));
        let page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
        page["data"].as_array().unwrap().clone()
    };
    let raw = view("").await;
    let text = r#"invalid input for TodoWrite: 1 is not of type "array" at /todos"#;
    let tagged = format!("<tool_use_error>{text}</tool_use_error>");
    assert_eq!(raw[2]["message"]["content"][0]["content"], tagged);
    assert_eq!(view("?view=raw").await, raw);
    let mut plain = raw;
    let result = &mut plain[2]["message"]["content"][0];
    result["content"] = json!(text);
    result["error_type"] = json!("VALIDATION_ERROR");
    result["handling"] = json!("FAIL");
    assert_eq!(view("?view=plain").await, plain);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plain_view_has_one_form_for_the_results_of_all_calls() {
    let door = json!({ "name": "open_door", "description": "Opens a door.", "client": true,
                       "input_schema": { "type": "object" } });
    let script = replies(&[
        calls("get_time", json!({})),
        calls_as(&[("toolu_door", "open_door", json!({}))]),
        says("Done."),
    ]);
    let app = TestApp::start(script).await;
    let session = app.session_with(json!({ "tools": [door, "get_time"] })).await;
    let run = session.ask("Go").await;
    let result = json!([{ "tool_use_id": "toolu_door", "is_error": true,
                          "content": "Error: the door timed out" }]);
    session.accepted(session.submit_results(&result)).await;
    let run = session.settled(&run).await;

    let page: Value =
        app.get(&session.path("/messages?view=plain")).send().await.unwrap().json().await.unwrap();
    let results: Vec<&Value> = page["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["message"]["content"].as_array())
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .collect();
    let [time, door] = results.as_slice() else { panic!("{results:?}") };
    let verdict = |result: &Value| {
        ["is_error", "error_type", "handling"].map(|member| result[member].clone())
    };
    assert_eq!(verdict(time), [json!(false), Value::Null, json!("SUCCESS")]);
    assert!(time["tool_use_id"].is_string() && time["content"].is_string(), "{time}");
    let failure = [json!(true), json!("TIMEOUT"), json!("RETRY_WITH_FALLBACK")];
    assert_eq!(verdict(door), failure);
    assert_eq!(
        (&door["tool_use_id"], &door["content"]),
        (&json!("toolu_door"), &json!("Error: the door timed out"))
    );

    let event = session.events().await.into_iter();
    let event = event.rev().find(|event| event["type"] == "user.custom_tool_result").unwrap();
    assert_eq!(verdict(&event), failure);
    assert_eq!(run["tool_log"][1]["error_type"], "TIMEOUT");
    assert_eq!(run["tool_log"][0].get("error_type"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_view_is_refused() {
    let app = TestApp::start(replies(&[])).await;
    let session = app.session().await;
    for view in ["", "rendered", "Plain"] {
        let path = session.path(&format!("/messages?view={view}"));
        let response = app.get(&path).send().await.unwrap();
        problem(response, 400, "invalid_query").await;
    }
}
