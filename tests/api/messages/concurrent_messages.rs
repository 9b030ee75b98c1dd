//! Messages to many sessions at the same time, which share statements.

use futures::future::join_all;
use reqwest::RequestBuilder;
use serde_json::json;

use crate::support::{Session, TestApp, problem, replies, says};

/// A request and the reply that it must get, whatever others arrive with it.
async fn prepare(app: &TestApp, number: usize) -> (RequestBuilder, Reply) {
    let session = app.session().await;
    let body = json!({ "content": format!("Message {number}") });
    let message = session.message(&body);
    match number % 5 {
        0 => {
            archive(app, &session).await;
            (message, Reply::Refused(409, "session_archived"))
        }
        1 => {
            let message = message.header("idempotency-key", "k");
            let first = message.try_clone().unwrap().send().await.unwrap();
            assert_eq!(first.status(), 202);
            (message, Reply::Accepted { is_replayed: true })
        }
        2 => (message.header("if-match", "\"v7\""), Reply::Refused(412, "version_mismatch")),
        3 => {
            let path = format!("/v1/sessions/ses_{number:032x}/messages");
            (app.post(&path).json(&body), Reply::Refused(404, "session_not_found"))
        }
        _ => (message, Reply::Accepted { is_replayed: false }),
    }
}

#[derive(Debug, Clone, Copy)]
enum Reply {
    Accepted { is_replayed: bool },
    Refused(u16, &'static str),
}

async fn archive(app: &TestApp, session: &Session<'_>) {
    let request = app.client.patch(app.url(&session.path(""))).json(&json!({ "archived": true }));
    assert_eq!(request.send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_that_arrive_together_get_the_replies_that_they_get_alone() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let prepared = join_all((0..60).map(|number| prepare(&app, number))).await;
    let (requests, expected): (Vec<_>, Vec<_>) = prepared.into_iter().unzip();
    let responses = join_all(requests.into_iter().map(RequestBuilder::send)).await;
    for (response, expected) in responses.into_iter().zip(expected) {
        let response = response.unwrap();
        match expected {
            Reply::Accepted { is_replayed } => {
                assert_eq!(response.status(), 202);
                let replayed = response.headers().contains_key("idempotency-replayed");
                assert_eq!(replayed, is_replayed);
            }
            Reply::Refused(status, code) => {
                problem(response, status, code).await;
            }
        }
    }
}
