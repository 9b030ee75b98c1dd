//! Forged notifications. Every user of the database can send them.

use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::ids::WorkerId;

use crate::support::{Received, TestApp, durable, replies, says};

/// Sends a message to all processes in the name of a process that does not exist.
async fn forge(app: &TestApp, message: &Value) {
    let batch = json!({ "from": WorkerId::new(), "n": 1, "m": [message] });
    sqlx::query("SELECT pg_notify('twostep', $1)")
        .bind(batch.to_string())
        .execute(&app.database.pool(1))
        .await
        .unwrap();
}

/// Waits until the service listens for notifications.
async fn wait_for_listener(app: &TestApp) {
    let pool = app.database.pool(1);
    let listening = "SELECT EXISTS (SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN%')";
    while !sqlx::query_scalar::<_, bool>(listening).fetch_one(&pool).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_of_missing_events_does_not_hide_stored_events() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    wait_for_listener(&app).await;
    let session = app.session().await;
    let mut stream = session.open(&session.path("/events/stream"), None).await;
    forge(&app, &json!({ "t": "stored", "session": session.id, "seq": 1_000, "ended": [] })).await;
    // The service does not show when it has processed a notification.
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
async fn a_forged_cancellation_stops_no_run() {
    let slow = json!({ "content": [{ "type": "text", "text": "One two three four five six." }],
                       "chunk": 4, "pace_ms": 200 });
    let app = TestApp::start(replies(&[slow])).await;
    wait_for_listener(&app).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Count" })).await;
    session.reached(&run, "span.model_request_start").await;
    forge(&app, &json!({ "t": "cancel", "run": run["id"] })).await;
    assert_eq!(session.settled(&run).await["status"], "completed");
}
