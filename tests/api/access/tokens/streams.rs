//! Streams and tickets of tokens, and limits per subject.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{get, request, start, status};
use crate::support::{
    EventStream, Identity, Session, Setup, TestApp, keys_needed, problem, replies, says,
    seconds_from_now,
};

/// An expiry for a token that is accepted for three more seconds: clocks may differ by 30 seconds.
fn soon() -> i64 {
    seconds_from_now(3 - 30)
}

/// Reads a stream until it is aborted. It must not end as if it were complete.
async fn wait_until_aborted(mut stream: EventStream) {
    let aborted = async {
        while let Ok(event) = stream.try_next().await {
            assert!(event.is_some(), "the stream ended as if it were complete");
        }
    };
    timeout(Duration::from_secs(20), aborted).await.expect("the stream is still open");
}

async fn stream(app: &TestApp, token: &str, path: &str) -> EventStream {
    EventStream::new(request(app, token, Method::GET, path).send().await.unwrap())
}

async fn ticket(session: &Session<'_>, token: &str) -> Value {
    let path = session.path("/tickets");
    let made = request(session.app, token, Method::POST, &path).send().await.unwrap();
    assert_eq!(made.status(), 201);
    made.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_aborted_when_its_token_expires() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    let session = app.session().await;
    session.ask("Hello").await;
    let ends = soon();
    let token = identity.token(json!({ "exp": ends }));
    let path = session.path("/events/stream");
    let mut short = stream(&app, &token, &path).await;
    let mut long = stream(&app, &identity.token(json!({})), &path).await;
    short.until("session.status_idle").await;
    long.until("session.status_idle").await;
    wait_until_aborted(short).await;
    assert!(
        Timestamp::now() >= Timestamp::from_second(ends + 30).unwrap(),
        "the stream was aborted early"
    );
    problem(get(&app, &token).send().await.unwrap(), 401, "unauthenticated").await;

    session.ask("Again").await;
    long.until("session.status_idle").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_and_its_stream_expire_with_the_token_that_created_it() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    let session = app.session().await;
    session.ask("Hello").await;
    let ends = soon();
    let token = identity.token(json!({ "exp": ends }));
    let [used, kept] = [ticket(&session, &token).await, ticket(&session, &token).await];
    let ends = Timestamp::from_second(ends + 30).unwrap();
    assert_eq!(used["expires_at"].as_str().unwrap().parse::<Timestamp>().unwrap(), ends);
    let path = |ticket: &Value| ticket["stream_url"].as_str().unwrap().to_owned();
    let response = app.get_as(None, &path(&used)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let mut stream = EventStream::new(response);
    stream.until("session.status_idle").await;
    wait_until_aborted(stream).await;
    assert!(Timestamp::now() >= ends, "the stream was aborted early");
    let late = app.get_as(None, &path(&kept)).send().await.unwrap();
    problem(late, 401, "unauthenticated").await;

    // A ticket that expires before its token has the usual lifetime.
    let long = ticket(&session, &identity.token(json!({}))).await;
    let ends: Timestamp = long["expires_at"].as_str().unwrap().parse().unwrap();
    let seconds = ends.duration_since(Timestamp::now()).as_secs();
    assert!((50..=60).contains(&seconds), "{seconds}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_of_a_token_is_refused_by_a_service_without_tokens() {
    let identity = Identity::start().await;
    let app = start(identity.trusted()).await;
    let session = app.session().await;
    let path = ticket(&session, &identity.token(json!({}))).await;
    let path = path["stream_url"].as_str().unwrap().to_owned();
    let app = app.restarted_with(replies(&[says("Hello.")]), keys_needed()).await;
    problem(app.get_as(None, &path).send().await.unwrap(), 401, "unauthenticated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_tokens_of_a_subject_share_its_stream_permits_and_its_rate_limit() {
    let identity = Identity::start().await;
    let setup = Setup { max_streams_per_key: Some(1), rate_limit: 5, ..identity.trusted() };
    let app = start(setup).await;
    let session = app.session().await;
    let path = session.path("/events/stream");
    let [first, second] = [60, 70]
        .map(|seconds| identity.token(json!({ "sub": "ann", "exp": seconds_from_now(seconds) })));
    let other = identity.token(json!({ "sub": "ben" }));
    let by_ticket = ticket(&session, &first).await["stream_url"].as_str().unwrap().to_owned();
    let held = app.get_as(None, &by_ticket).send().await.unwrap();
    assert_eq!(held.status(), 200);
    let refused = request(&app, &second, Method::GET, &path).send().await.unwrap();
    let refused = problem(refused, 503, "too_many_streams").await;
    assert_eq!(refused["detail"], "this key has too many streams open");
    let theirs = request(&app, &other, Method::GET, &path).send().await.unwrap();
    assert_eq!(theirs.status(), 200);

    // The ticket, its stream and the refused stream are three requests.
    assert_eq!([status(get(&app, &first)).await, status(get(&app, &second)).await], [200; 2]);
    assert_eq!([status(get(&app, &first)).await, status(get(&app, &second)).await], [429; 2]);
    assert_eq!(status(get(&app, &other)).await, 200);
    drop((held, theirs));
}
