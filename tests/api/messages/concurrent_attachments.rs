//! Messages with images that come at the same moment: together they stay below the limit of their
//! session.

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

/// How many of these messages were accepted, all posted at once.
async fn accepted(session: &Session<'_>, messages: &[Value]) -> usize {
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
async fn messages_at_the_same_moment_are_counted_one_after_the_other() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    assert_eq!(accepted(&session, &vec![images(30); 8]).await, 3, "100 images are the most");
    session.ask("Are you done?").await;
    let history = Value::from(session.history().await).to_string();
    assert_eq!(history.matches("https://a.b").count(), 90);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_interrupt_at_the_same_moment_are_counted_too() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    session.stream("Hang").await.until("span.model_request_start").await;
    let mut message = images(30);
    message["on_busy"] = json!("interrupt");
    assert_eq!(accepted(&session, &vec![message; 8]).await, 3, "100 images are the most");
    session.ask("Are you done?").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_repeated_at_the_same_moment_is_counted_once() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    let mut message = images(60);
    message["id"] = json!("the-same");
    let pool = app.database.pool(2);
    let mut lock = pool.begin().await.unwrap();
    sqlx::query("SELECT FROM sessions FOR UPDATE").execute(&mut *lock).await.unwrap();
    let let_go = async {
        both_wait(&pool).await;
        lock.rollback().await.unwrap();
    };
    let messages = vec![message; 2];
    let (accepted, ()) = tokio::join!(accepted(&session, &messages), let_go);
    assert_eq!(accepted, 2, "both get the one run");
    assert_eq!(session.ask("Are you done?").await["status"], "completed");
    assert_eq!(app.upstream().len(), 2);
}

/// Counting takes long, so nobody else waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_one_too_many_is_refused_while_its_session_is_locked() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    session.ask_with(images(60)).await;
    let mut lock = app.database.pool(1).begin().await.unwrap();
    sqlx::query("SELECT FROM sessions FOR UPDATE").execute(&mut *lock).await.unwrap();
    assert_eq!(accepted(&session, &[images(60)]).await, 0);
    lock.rollback().await.unwrap();
}

/// Waits until two posts have found no earlier run of theirs, and wait for their session.
async fn both_wait(pool: &PgPool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(pool).await.unwrap() < 2 {
        assert!(Instant::now() < deadline, "they do not wait");
        sleep(Duration::from_millis(10)).await;
    }
}
