//! Concurrent messages with images: together they do not exceed the limit of their session.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::time::{Instant, sleep};

use crate::support::media::image_at;
use crate::support::{Session, TestApp, hangs_first, problem, replies, says};

fn images(count: usize) -> Value {
    let mut content = vec![json!({ "type": "text", "text": "Look." })];
    content.extend(vec![image_at("https://a.b"); count]);
    json!({ "content": content })
}

/// Posts these messages concurrently. Returns the number of accepted ones.
async fn count_accepted(session: &Session<'_>, messages: &[Value]) -> usize {
    let posts = messages.iter().map(async |message| {
        let response = session.message(message).send().await.unwrap();
        if response.status() == 202 {
            return 1;
        }
        problem(response, 422, "validation_failed").await;
        0
    });
    join_all(posts).await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_concurrent_messages_are_counted_together() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    assert_eq!(
        count_accepted(&session, &vec![images(30); 8]).await,
        3,
        "at most 100 images are allowed"
    );
    session.ask("Are you done?").await;
    let history = Value::from(session.history().await).to_string();
    assert_eq!(history.matches("https://a.b").count(), 90);
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_concurrent_messages_that_interrupt_are_counted_together() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    session.stream("Hang").await.until("span.model_request_start").await;
    let mut message = images(30);
    message["on_busy"] = json!("interrupt");
    assert_eq!(
        count_accepted(&session, &vec![message; 8]).await,
        3,
        "at most 100 images are allowed"
    );
    session.ask("Are you done?").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_images_of_a_concurrently_repeated_message_are_counted_once() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    let mut message = images(60);
    message["id"] = json!("the-same");
    let pool = app.database.pool(2);
    let mut lock = pool.begin().await.unwrap();
    sqlx::query("SELECT FROM sessions FOR UPDATE").execute(&mut *lock).await.unwrap();
    let release = async {
        wait_for_blocked_requests(&pool).await;
        lock.rollback().await.unwrap();
    };
    let messages = vec![message; 2];
    let (accepted, ()) = tokio::join!(count_accepted(&session, &messages), release);
    assert_eq!(accepted, 2, "both responses name the same run");
    assert_eq!(session.ask("Are you done?").await["status"], "completed");
    assert_eq!(app.upstream().len(), 2);
}

/// Counting takes long, so it happens without the lock of the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_above_the_limit_is_refused_although_its_session_is_locked() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    session.ask_with(images(60)).await;
    let mut lock = app.database.pool(1).begin().await.unwrap();
    sqlx::query("SELECT FROM sessions FOR UPDATE").execute(&mut *lock).await.unwrap();
    assert_eq!(count_accepted(&session, &[images(60)]).await, 0);
    lock.rollback().await.unwrap();
}

/// Waits until two requests wait for the lock of their session.
async fn wait_for_blocked_requests(pool: &PgPool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(pool).await.unwrap() < 2 {
        assert!(Instant::now() < deadline, "the requests do not wait for the lock");
        sleep(Duration::from_millis(10)).await;
    }
}
