//! Feedback of users on replies.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Session, TestApp, problem, replies, says};

async fn asked(app: &TestApp) -> (Session<'_>, String) {
    let session = app.session().await;
    session.ask("Hi").await;
    let reply = session.history().await.pop().unwrap();
    assert_eq!(reply["type"], "assistant");
    assert!(reply.get("feedback").is_none());
    (session, reply["message"]["id"].as_str().unwrap().to_owned())
}

fn path(session: &Session<'_>, id: &str) -> String {
    session.app.url(&session.path(&format!("/messages/{id}/feedback")))
}

async fn put(session: &Session<'_>, id: &str, body: Value) -> Value {
    let request = session.app.client.put(path(session, id)).json(&body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn feedback_is_shown_in_the_history_and_exported_until_it_is_removed() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let (session, id) = asked(&app).await;
    put(&session, &id, json!({ "rating": "up" })).await;
    let feedback = put(&session, &id, json!({ "rating": "down", "text": "Wrong." })).await;
    assert_eq!((&feedback["rating"], &feedback["text"]), (&json!("down"), &json!("Wrong.")));
    let again = put(&session, &id, json!({ "rating": "down", "text": "Wrong." })).await;
    assert_eq!(again, feedback);
    assert_eq!(session.history().await.pop().unwrap()["feedback"], feedback);
    let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
    let line = export.lines().find(|line| line.contains("Hello.")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(line).unwrap()["feedback"], feedback);
    let import = app.post("/v1/sessions/import").header("content-type", "application/jsonl");
    assert_eq!(import.body(export).send().await.unwrap().status(), StatusCode::CREATED);

    for _ in 0..2 {
        let removed = app.client.delete(path(&session, &id)).send().await.unwrap();
        assert_eq!(removed.status(), StatusCode::NO_CONTENT);
    }
    assert!(session.history().await.pop().unwrap().get("feedback").is_none());
    let events = session.events().await;
    let events: Vec<Value> = events
        .iter()
        .filter(|event| event["type"] == "user.feedback")
        .map(|event| {
            json!([event["message_id"], event.get("rating"), event.get("text"), event["run_id"]])
        })
        .collect();
    assert_eq!(
        events,
        [
            json!([id, "up", null, null]),
            json!([id, "down", "Wrong.", null]),
            json!([id, null, null, null]),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_replies_of_the_session_have_feedback() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let (session, id) = asked(&app).await;
    let user = session.history().await[0]["message"]["id"].as_str().unwrap().to_owned();
    let other = app.session().await;
    let body = json!({ "rating": "up" });
    for path in [path(&session, &user), path(&session, "%00"), path(&other, &id)] {
        let request = app.client.put(&path).json(&body).send().await.unwrap();
        problem(request, 404, "message_not_found").await;
    }
    let long = "x".repeat(4001);
    for body in [json!({}), json!({ "rating": "ok" }), json!({ "rating": "up", "text": long })] {
        let request = app.client.put(path(&session, &id)).json(&body).send().await.unwrap();
        problem(request, 422, "validation_failed").await;
    }
}
