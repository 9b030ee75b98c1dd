//! Tickets open streams for browsers, because `EventSource` cannot send a key.

use std::time::Duration;

use futures::future::join_all;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::time::timeout;
use twostep::domain::api_key::{ApiKey, Scope};
use twostep::domain::ids::TenantId;

use crate::support::{
    EventStream, Program, Session, TestApp, binary, binary_logging_to, client_with, data_dir,
    database, keys_needed, outcome, problem, replies, says,
};

async fn start() -> TestApp {
    TestApp::start_with(replies(&[says("Hello.")]), keys_needed()).await
}

async fn ticket(session: &Session<'_>) -> Value {
    let response = session.app.post(&session.path("/tickets")).send().await.unwrap();
    assert_eq!(response.status(), 201);
    response.json().await.unwrap()
}

async fn stream_url(session: &Session<'_>) -> String {
    ticket(session).await["stream_url"].as_str().unwrap().to_owned()
}

/// Returns a request without a key.
fn without_key(app: &TestApp, path: &str) -> RequestBuilder {
    app.get_as(None, path)
}

async fn assert_refused(request: RequestBuilder) {
    problem(request.send().await.unwrap(), 401, "unauthenticated").await;
}

async fn count_tickets(app: &TestApp) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM stream_tickets");
    count.fetch_one(&app.database.pool(1)).await.unwrap()
}

async fn execute(app: &TestApp, change: &'static str) {
    sqlx::query(change).execute(&app.database.pool(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_one_stream_instead_of_a_key() {
    let app = start().await;
    let session = app.session().await;
    session.ask("Hi").await;
    let before = jiff::Timestamp::now();
    let response = app.post(&session.path("/tickets")).send().await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()["cache-control"], "private, no-store");
    let made: Value = response.json().await.unwrap();
    let text = made["ticket"].as_str().unwrap();
    assert!(text.starts_with("tst_") && text.len() == 68, "{made}");
    let expires_at: jiff::Timestamp = made["expires_at"].as_str().unwrap().parse().unwrap();
    let seconds = (expires_at - before).total(jiff::Unit::Second).unwrap();
    assert!((55.0..70.0).contains(&seconds), "{seconds}");
    let path = session.path(&format!("/events/stream?ticket={text}"));
    assert_eq!(
        made,
        json!({ "ticket": text, "expires_at": made["expires_at"], "stream_url": path })
    );

    let stream = without_key(&app, &format!("{path}&after=2&deltas=false")).send().await.unwrap();
    let mut stream = EventStream::new(stream);
    assert_eq!(stream.next().await.unwrap().id, Some(3));
    // The automatic reconnect of a browser is refused.
    assert_refused(without_key(&app, &path).header("last-event-id", "3")).await;
    stream.until("session.status_idle").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_the_stream_of_a_run() {
    let app = start().await;
    let session = app.session().await;
    let run = session.ask("Hi").await;
    let text = ticket(&session).await["ticket"].as_str().unwrap().to_owned();
    let path = format!("{}?ticket={text}", session.run_stream(&run));
    let stream = without_key(&app, &path).header("accept", "application/jsonl");
    let lines = stream.send().await.unwrap().text().await.unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, session.events().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_only_streams_of_its_session() {
    let app = start().await;
    let (session, other) = (app.session().await, app.session().await);
    let text = ticket(&session).await["ticket"].as_str().unwrap().to_owned();
    for path in [
        other.path("/events/stream"),
        session.path("/events"),
        session.path(""),
        session.path("/runs/stream"),
        "/v1/sessions".to_owned(),
        "/v1/sessions/ses_0/events/stream".to_owned(),
    ] {
        assert_refused(without_key(&app, &format!("{path}?ticket={text}"))).await;
    }
    let post = reqwest::Method::POST;
    let url = app.url(&session.path(&format!("/cancel?ticket={text}")));
    assert_refused(client_with(None).request(post, url)).await;
    let stream = session.path(&format!("/events/stream?ticket={text}"));
    assert_refused(without_key(&app, &format!("{stream}0"))).await;
    // The ticket is still valid.
    assert_eq!(without_key(&app, &stream).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_requests_with_a_ticket_succeeds_across_all_processes() {
    let app = start().await;
    let other = app.second_service(keys_needed()).await;
    let session = app.session().await;
    let path = stream_url(&session).await;
    let other_url = other.get(&path).build().unwrap().url().clone();
    let stranger = client_with(None);
    let requests = (0..8).map(|number| {
        let url = if number % 2 == 0 { other_url.to_string() } else { app.url(&path) };
        stranger.get(url).send()
    });
    let answers: Vec<Response> = join_all(requests).await.into_iter().map(Result::unwrap).collect();
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status().as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401, 401, 401, 401, 401, 401, 401]);
    drop(answers);
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_ticket_opens_nothing_and_is_deleted() {
    let app = start().await;
    let session = app.session().await;
    let path = stream_url(&session).await;
    execute(&app, "UPDATE stream_tickets SET expires_at = now()").await;
    assert_refused(without_key(&app, &path)).await;
    assert_eq!(count_tickets(&app).await, 1);
    let next = stream_url(&session).await;
    assert_eq!(count_tickets(&app).await, 1);
    assert_eq!(without_key(&app, &next).send().await.unwrap().status(), 200);
    assert_eq!(count_tickets(&app).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tickets_of_a_deleted_session_are_deleted() {
    let app = start().await;
    let session = app.session().await;
    let path = stream_url(&session).await;
    let deleted = app.client.delete(app.url(&session.path(""))).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    assert_eq!(count_tickets(&app).await, 0);
    assert_refused(without_key(&app, &path)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_a_key_ends_its_tickets_and_their_streams() {
    let app = start().await;
    let session = app.session().await;
    let key = app.database.key(TenantId::DEFAULT, Scope::Read).await;
    let holder = client_with(Some(&key));
    let mut paths = Vec::new();
    for _ in 0..2 {
        let made = holder.post(app.url(&session.path("/tickets"))).send().await.unwrap();
        assert_eq!(made.status(), 201);
        let made: Value = made.json().await.unwrap();
        paths.push(made["stream_url"].as_str().unwrap().to_owned());
    }
    let accept = "application/jsonl";
    let stream = without_key(&app, &paths[0]).header("accept", accept).send().await.unwrap();
    let mut stream = stream;
    assert_eq!(stream.chunk().await.unwrap().unwrap(), " ");

    let mut command = binary(&["keys", "revoke", &key.id().to_string()]);
    command.env("DATABASE_URL", app.database.url());
    let (status, _, stderr) = outcome(command).await;
    assert_eq!(status, Some(0), "{stderr}");
    let aborted = async {
        // A space is a keep-alive.
        while let Ok(chunk) = stream.chunk().await {
            assert!(chunk.is_some(), "the stream ended as if it were complete");
        }
    };
    timeout(Duration::from_secs(5), aborted).await.expect("the stream is still open");
    assert_refused(without_key(&app, &paths[1])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_service_creates_tickets_and_requires_none() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let id = session.id.clone();
    let path = stream_url(&session).await;
    for _ in 0..2 {
        assert_eq!(app.get(&path).send().await.unwrap().status(), 200);
    }
    // Such a ticket has no key, so a service that requires keys refuses it.
    let app = app.restarted_with(replies(&[says("Hello.")]), keys_needed()).await;
    assert_eq!(app.existing_session(&id).path("/events/stream"), path.split('?').next().unwrap());
    assert_refused(without_key(&app, &path)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_is_in_no_log_no_error_and_no_metric() {
    let database = database().await;
    let key: ApiKey = database.key(TenantId::DEFAULT, Scope::Write).await;
    let folder = data_dir();
    let log = folder.path().join("log");
    let arguments = ["serve", "--offline", "--bind", "127.0.0.1:0", "--log", "trace"];
    let mut command = binary_logging_to(&log, &arguments);
    command.env("DATABASE_URL", database.url()).env("TWOSTEP_AUTH", "keys");
    command.env("TWOSTEP_METRICS_KEY", "planted-metrics-key");
    let program = Program::serve(command).await;
    let (holder, stranger) = (client_with(Some(&key)), client_with(None));
    let made = holder.post(format!("{}/v1/sessions", program.url)).send().await.unwrap();
    let session: Value = made.json().await.unwrap();
    let path = format!("{}/v1/sessions/{}", program.url, session["id"].as_str().unwrap());
    let made = holder.post(format!("{path}/tickets")).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let text = made["ticket"].as_str().unwrap();

    let mut output = Vec::new();
    for (query, status) in [
        (format!("after=nonsense&ticket={text}"), 400),
        (format!("ticket={text}"), 401),
        (format!("ticket={text}&ticket={text}"), 401),
        (format!("tickets={text}"), 401),
    ] {
        let response = stranger.get(format!("{path}/events/stream?{query}")).send().await.unwrap();
        assert_eq!(response.status(), status, "{query}");
        output.push(format!("{:?}", response.headers()));
        output.push(response.text().await.unwrap());
    }
    let twice = holder.get(format!("{path}/events/stream?ticket={text}&ticket={text}"));
    output.push(format!("{:?}", twice.send().await.unwrap().headers()));
    let metrics = stranger.get(format!("{}/metrics", program.url));
    let metrics = metrics.bearer_auth("planted-metrics-key").send().await.unwrap();
    assert_eq!(metrics.status(), 200);
    output.push(metrics.text().await.unwrap());
    program.terminate().await;
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("/events/stream"), "the log has no request for the stream");
    let secret = text.strip_prefix("tst_").unwrap();
    assert!(!output.concat().contains(secret), "{output:#?}");
    assert!(!log.contains(secret), "the log has the ticket");
}
