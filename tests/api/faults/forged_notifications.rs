//! Notifications that are not true. Every user of the database can send them.

use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::ids::WorkerId;

use crate::support::{Received, TestApp, durable, replies, says};

/// Tells all processes something in the name of one that does not exist.
async fn tell(app: &TestApp, message: &Value) {
    let batch = json!({ "from": WorkerId::new(), "n": 1, "m": [message] });
    sqlx::query("SELECT pg_notify('twostep', $1)")
        .bind(batch.to_string())
        .execute(&app.database.pool(1))
        .await
        .unwrap();
}

/// Waits until the service listens.
async fn listens(app: &TestApp) {
    let pool = app.database.pool(1);
    let listening = "SELECT EXISTS (SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN%')";
    while !sqlx::query_scalar::<_, bool>(listening).fetch_one(&pool).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_were_never_stored_hide_none_that_are() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    listens(&app).await;
    let session = app.session().await;
    let mut stream = session.open(&session.path("/events/stream"), None).await;
    tell(&app, &json!({ "t": "stored", "session": session.id, "seq": 1_000, "ended": [] })).await;
    // Nothing says when it has been heard.
    tokio::time::sleep(Duration::from_millis(300)).await;
    session.ask("Hello").await;
    let mut received: Vec<Received> = Vec::new();
    while received.last().is_none_or(|one| one.name != "session.status_idle") {
        let next = tokio::time::timeout(Duration::from_secs(5), stream.next()).await;
        received.push(next.expect("events were withheld").unwrap());
    }
    assert_eq!(durable(&received), session.events().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_nobody_asked_for_stops_nothing() {
    let slow = json!({ "content": [{ "type": "text", "text": "One two three four five six." }],
                       "chunk": 4, "pace_ms": 200 });
    let app = TestApp::start(replies(&[slow])).await;
    listens(&app).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Count" })).await;
    session.reached(&run, "span.model_request_start").await;
    tell(&app, &json!({ "t": "cancel", "run": run["id"] })).await;
    assert_eq!(session.settled(&run).await["status"], "completed");
}
