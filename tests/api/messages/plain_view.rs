//! The plain view of the history, without tags for the model.

use serde_json::{Value, json};

use crate::support::{TestApp, calls, problem, replies, says};

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
    plain[2]["message"]["content"][0]["content"] = json!(text);
    assert_eq!(view("?view=plain").await, plain);
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
