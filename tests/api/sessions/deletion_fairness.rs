//! Deletions of small sessions do not wait for deletions of large ones, of any tenant.

use std::time::Duration;

use futures::future::join_all;
use sqlx::{Executor as _, PgConnection, PgPool};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::support::{TestApp, replies, says};

/// The title of the sessions whose deletion the test delays.
const LARGE: &str = "large";
const LOCK: &str = "SELECT pg_advisory_lock(1)";

/// Makes deletions of large sessions wait near their end until the returned connection is closed.
async fn delay_large_deletions(pool: &PgPool) -> PgConnection {
    let mut holder = pool.acquire().await.unwrap().detach();
    holder.execute(LOCK).await.unwrap();
    pool.execute(
        "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$",
    )
    .await
    .unwrap();
    pool.execute(
        "CREATE TRIGGER hold AFTER DELETE ON sessions FOR EACH ROW WHEN (OLD.title = 'large')
         EXECUTE FUNCTION hold()",
    )
    .await
    .unwrap();
    holder
}

/// Waits until this number of deletions wait for the lock.
async fn wait_for_delayed(pool: &PgPool, count: i64) {
    let query = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event = 'advisory'";
    let deadline = Instant::now() + Duration::from_mins(1);
    while sqlx::query_scalar::<_, i64>(query).fetch_one(pool).await.unwrap() != count {
        assert!(Instant::now() < deadline, "the number of waiting deletions is not {count}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_sessions_are_deleted_while_deletions_of_large_ones_wait() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let pool = app.database.pool(3);
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        for (title, sessions) in [(LARGE, &mut large), ("small", &mut small)] {
            let session = app.session_with(serde_json::json!({ "title": title })).await;
            // All deletions add their usage to the sums of the same day.
            session.ask("Good morning").await;
            sessions.push(session);
        }
    }
    pool.execute("UPDATE sessions SET last_seq = 10000 WHERE title = 'large'").await.unwrap();
    let holder = delay_large_deletions(&pool).await;

    let delete = |path: String| app.client.delete(app.url(&path)).send();
    let tasks = TaskTracker::new();
    let deletions: Vec<_> =
        large.iter().map(|session| tasks.spawn(delete(session.path("")))).collect();
    wait_for_delayed(&pool, 2).await;
    for session in &small {
        let deletion = timeout(Duration::from_secs(5), delete(session.path(""))).await;
        assert_eq!(deletion.expect("the deletion of a small session waits").unwrap().status(), 204);
    }
    wait_for_delayed(&pool, 2).await;
    drop(holder);
    for deletion in join_all(deletions).await {
        assert_eq!(deletion.unwrap().unwrap().status(), 204);
    }
    let used: i64 = sqlx::query_scalar("SELECT sum(requests)::bigint FROM deleted_usage")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(used, 6);
}
