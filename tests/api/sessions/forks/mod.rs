//! Forks: sessions that have the beginning of their history from another one, and go on by
//! themselves.

mod deletion;
mod files;
mod fork_points;
mod inherited;
mod locks;
mod nested_forks;
mod runs;

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::time::{Duration, Instant, sleep};

use crate::support::{Session, TestApp};

/// A fork of a session, to be sent.
fn request(session: &Session<'_>, body: &Value) -> RequestBuilder {
    session.app.post(&session.path("/forks")).json(body)
}

async fn send(session: &Session<'_>, body: &Value) -> Response {
    request(session, body).send().await.unwrap()
}

/// Forks a session, and gives what the answer says of the fork.
async fn told(session: &Session<'_>, body: &Value) -> Value {
    let response = send(session, body).await;
    let status = response.status();
    let fork: Value = response.json().await.unwrap();
    assert_eq!(status, 201, "{fork}");
    fork
}

/// Forks a session.
async fn fork<'a>(session: &Session<'a>, body: &Value) -> Session<'a> {
    let fork = told(session, body).await;
    session.app.existing_session(fork["id"].as_str().unwrap())
}

/// The messages of a session, without what says which session that is.
async fn messages(session: &Session<'_>) -> Vec<Value> {
    let mut items = session.history().await;
    for item in &mut items {
        let of = item.as_object_mut().unwrap().shift_remove("session_id").unwrap();
        assert_eq!(of, session.id.as_str());
    }
    items
}

/// Waits until so many statements wait for a row.
async fn until_waiting(pool: &PgPool, count: i64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(pool).await.unwrap() < count {
        assert!(Instant::now() < deadline, "they do not wait");
        sleep(Duration::from_millis(10)).await;
    }
}

/// How many messages are stored for a session itself.
async fn stored(session: &Session<'_>) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM messages WHERE session_id = $1")
        .bind(session.uuid())
        .fetch_one(&session.app.database.pool(1))
        .await
        .unwrap()
}

/// What the last request to the model said, a text or a result a line.
fn last_said(app: &TestApp) -> Vec<String> {
    let upstream = app.upstream();
    let body = upstream.body(upstream.len() - 1);
    let messages = body["messages"].as_array().unwrap().iter();
    let blocks = messages.flat_map(|message| message["content"].as_array().unwrap());
    let texts = blocks.filter_map(|block| {
        let text = block["text"].as_str().or_else(|| block["content"].as_str());
        text.map(str::to_owned)
    });
    texts.collect()
}

fn seq(number: usize) -> Value {
    json!(number)
}
