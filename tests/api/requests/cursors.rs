//! Cursors that name no position of a list, and positions of streams that a session has not reached.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::support::{TestApp, problem, replies, says};

async fn refused(request: RequestBuilder) -> Value {
    let problem = problem(request.send().await.unwrap(), 400, "invalid_cursor").await;
    let errors = problem["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{problem}");
    let name = ["parameter", "header"].iter().find_map(|kind| errors[0][kind].as_str()).unwrap();
    let message = errors[0]["message"].as_str().unwrap();
    assert_eq!(problem["detail"], format!("the cursor is not valid: {name} {message}"));
    errors[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_the_session_has_not_reached_is_refused_everywhere() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    let message = json!({ "content": "Hi", "id": "first" });
    let run = session.ask_with(message.clone()).await;
    let newest = session.read().await["last_seq"].as_i64().unwrap();
    let run_path = format!("/runs/{}", run["id"].as_str().unwrap());
    let requests = format!("{run_path}/requests");
    let run_stream = format!("{run_path}/stream");
    for (path, last) in [
        ("/events", newest),
        ("/runs", newest),
        ("/usage", newest),
        ("/messages", 2),
        (requests.as_str(), 1),
        ("/events/stream", newest),
        (run_stream.as_str(), newest),
    ] {
        for cursor in [-1, last + 1, 99_999] {
            let request = app.get(&session.path(&format!("{path}?after={cursor}")));
            let error = refused(request).await;
            assert_eq!(error["parameter"], "after", "{path} {cursor}");
            let message = error["message"].as_str().unwrap();
            assert!(message.starts_with(&format!("is {cursor}; ")), "{path}: {message}");
        }
        let request = app.get(&session.path(&format!("{path}?after=0")));
        assert_eq!(request.send().await.unwrap().status(), 200, "{path}");
    }
    for path in ["/events", "/runs", "/messages", requests.as_str()] {
        for cursor in ["-1", "x", "1.5"] {
            let request = app.get(&session.path(&format!("{path}?before={cursor}")));
            assert_eq!(refused(request).await["parameter"], "before", "{path} {cursor}");
        }
        // Older items may be read from anywhere: this is the newest page.
        let newest = app.get(&session.path(&format!("{path}?before=99999"))).send().await.unwrap();
        let newest: Value = newest.json().await.unwrap();
        assert!(!newest["data"].as_array().unwrap().is_empty(), "{path}");
        let empty = app.get(&session.path(&format!("{path}?before=1"))).send().await.unwrap();
        assert_eq!(empty.json::<Value>().await.unwrap()["data"], json!([]), "{path}");
    }
    for path in ["/events/stream", run_stream.as_str()] {
        for seen in ["-1", "99999", "x"] {
            let request = app.get(&session.path(path)).header("last-event-id", seen);
            assert_eq!(refused(request).await["header"], "Last-Event-ID", "{path} {seen}");
        }
    }
    let again = session.message(&message);
    let again = again.header("accept", "text/event-stream").header("last-event-id", "99999");
    assert_eq!(refused(again).await["header"], "Last-Event-ID");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_another_list_is_refused_with_the_name_of_its_parameter() {
    let app = TestApp::start(json!({})).await;
    let session = app.session().await;
    for path in ["/v1/sessions".to_owned(), session.path("/forks")] {
        for parameter in ["after", "before"] {
            let error = refused(app.get(&format!("{path}?{parameter}=7"))).await;
            let message = "is \"7\", which is not a cursor of this list";
            let expected = json!({ "pointer": "", "parameter": parameter, "message": message });
            assert_eq!(error, expected, "{path}");
        }
    }
    let usage = refused(app.get("/v1/usage?group_by=session&after=7")).await;
    assert_eq!(usage["parameter"], "after");
}
