//! The todo list of a session, which the model writes.

use serde_json::{Value, json};

use crate::support::{TestApp, calls, problem, replies, says};

const MODIFIED: &str = "Todos have been modified successfully. Ensure that you continue to use \
    the todo list to track your progress. Please proceed with the current tasks if applicable";

fn todo(id: &str, status: &str) -> Value {
    json!({ "id": id, "content": format!("Do {id}"), "status": status })
}

fn writes(todos: &[Value]) -> Value {
    calls("TodoWrite", json!({ "todos": todos }))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_todo_list_can_be_read_and_every_change_is_an_event() {
    let first = [todo("a", "in_progress"), todo("b", "pending")];
    let second = [todo("b", "in_progress"), todo("a", "completed")];
    let script = replies(&[writes(&first), writes(&second), says("Done.")]);
    let app = TestApp::start(script).await;
    let session = app.session().await;
    let todos = async || -> Value {
        let response = app.get(&session.path("/todos")).send().await.unwrap();
        assert!(response.headers()["etag"].to_str().unwrap().starts_with("\"v"));
        response.json().await.unwrap()
    };
    assert_eq!(todos().await, json!({ "todos": [] }));
    assert_eq!(session.ask("Do a and b").await["output_text"], "Done.");
    assert_eq!(todos().await, json!({ "todos": second }));

    let events = session.events().await;
    let published: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "session.todos")
        .map(|event| &event["todos"])
        .collect();
    assert_eq!(published, [&json!(first), &json!(second)]);
    let history = session.history().await;
    assert_eq!(history[2]["message"]["content"][0]["content"], MODIFIED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_todo_list_with_an_unknown_status_is_refused_and_the_previous_list_stays() {
    let old = [todo("a", "pending")];
    let script = replies(&[writes(&old), writes(&[todo("a", "begun")]), says("{{result.0}}")]);
    let app = TestApp::start(script).await;
    let session = app.session().await;
    assert_eq!(
        session.ask("Do a").await["output_text"],
        "<tool_use_error>invalid input for TodoWrite: \"begun\" is not one of \"pending\", \
         \"in_progress\" or \"completed\" at /todos/0/status</tool_use_error>"
    );
    let response = app.get(&session.path("/todos")).send().await.unwrap();
    assert_eq!(response.json::<Value>().await.unwrap(), json!({ "todos": old }));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_todo_list_of_a_session_that_does_not_exist_is_not_found() {
    let app = TestApp::start(replies(&[])).await;
    let response = app.get("/v1/sessions/ses_1/todos").send().await.unwrap();
    problem(response, 404, "session_not_found").await;
}
