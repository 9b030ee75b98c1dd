//! Forks: sessions that share the beginning of their history with another session and continue
//! independently.

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

/// A request that forks a session.
fn request(session: &Session<'_>, body: &Value) -> RequestBuilder {
    session.app.post(&session.path("/forks")).json(body)
}

async fn send(session: &Session<'_>, body: &Value) -> Response {
    request(session, body).send().await.unwrap()
}

/// Forks a session and returns the resource of the fork.
async fn create_fork(session: &Session<'_>, body: &Value) -> Value {
    let response = send(session, body).await;
    let status = response.status();
    let fork: Value = response.json().await.unwrap();
    assert_eq!(status, 201, "{fork}");
    fork
}

/// Forks a session.
async fn fork<'a>(session: &Session<'a>, body: &Value) -> Session<'a> {
    let fork = create_fork(session, body).await;
    session.app.existing_session(fork["id"].as_str().unwrap())
}

/// The messages of a session without their `session_id`.
async fn messages(session: &Session<'_>) -> Vec<Value> {
    let mut items = session.history().await;
    for item in &mut items {
        let session_id = item.as_object_mut().unwrap().shift_remove("session_id").unwrap();
        assert_eq!(session_id, session.id.as_str());
    }
    items
}

/// Waits until at least this number of statements wait for a lock.
async fn wait_for_lock_waits(pool: &PgPool, count: i64) {
    let deadline = Instant::now() + Duration::from_mins(1);
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(pool).await.unwrap() < count {
        assert!(Instant::now() < deadline, "fewer than {count} statements wait for a lock");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The number of messages that are stored for this session, without inherited ones.
async fn stored(session: &Session<'_>) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM messages WHERE session_id = $1")
        .bind(session.uuid())
        .fetch_one(&session.app.database.pool(1))
        .await
        .unwrap()
}

/// The texts and results in the last request to the model.
fn last_request_texts(app: &TestApp) -> Vec<String> {
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
