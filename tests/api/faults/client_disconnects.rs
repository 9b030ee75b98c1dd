//! Clients that disconnect at any moment: the work for their requests is finished.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::support::{TestApp, calls, replies, says};

/// Sends a POST request and closes the connection after this time, without reading the response.
async fn post_and_disconnect(app: &TestApp, path: &str, body: &str, after: Duration) {
    let mut stream = TcpStream::connect(app.address).await.unwrap();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    sleep(after).await;
}

/// Waits until all runs have settled, and returns their number.
async fn all_settled(app: &TestApp) -> i64 {
    let pool = app.database.pool(1);
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let (all, open): (i64, i64) = sqlx::query_as(
            "SELECT count(*), count(*) FILTER (WHERE finished_at IS NULL) FROM runs",
        )
        .fetch_one(&pool)
        .await
        .unwrap();
        if open == 0 {
            return all;
        }
        assert!(Instant::now() < deadline, "{open} of {all} runs did not settle");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_client_disconnects_is_lost_or_settles_and_never_hangs() {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), says("Noon.")])).await;
    let sessions = [app.session().await, app.session().await, app.session().await];
    for n in 0..90_u64 {
        let session = &sessions[usize::try_from(n % 3).unwrap()];
        let body = json!({ "content": format!("Tell {} the time", session.id) }).to_string();
        let after = Duration::from_micros(n * 137 % 9000);
        post_and_disconnect(&app, &session.path("/messages"), &body, after).await;
    }
    assert!(all_settled(&app).await > 0);
    for session in &sessions {
        assert_eq!(session.ask("Are you there?").await["output_text"], "Noon.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_whose_client_disconnects_does_not_affect_other_runs() {
    let mut slow = says("Slowly.");
    slow["delay_ms"] = 30_000.into();
    let script = json!({ "conversations": [
        { "when": "block", "replies": [slow] },
        { "replies": [says("Fine.")] },
    ]});
    let app = TestApp::start(script).await;
    let mut accepted = Vec::new();
    for n in 0..40_u64 {
        let session = app.session().await;
        session.post(json!({ "content": "Block" })).await;
        let queued = session.post(json!({ "content": "Wait" })).await;
        let path = session.path(&format!("/runs/{}/cancel", queued["id"].as_str().unwrap()));
        post_and_disconnect(&app, &path, "", Duration::from_micros(n * 211 % 6000)).await;
        let other = app.session().await;
        accepted.push((other.id.clone(), other.post(json!({ "content": "Hello" })).await));
        let stopped = app.post(&session.path("/cancel")).send().await.unwrap();
        assert!(stopped.status().is_success());
    }
    assert_eq!(all_settled(&app).await, 120);
    for (session, run) in accepted {
        let run: Value = app.existing_session(&session).settled(&run).await;
        assert_eq!(run["output_text"], "Fine.");
    }
}
