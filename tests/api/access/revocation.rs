//! Keys that are revoked or expire while they are used, and the time of their last use.

use std::time::{Duration, Instant};

use sqlx::{Connection as _, PgConnection};
use twostep::domain::api_key::{ApiKey, Scope};
use twostep::domain::ids::TenantId;

use super::{REVOCATION_TIME, start};
use crate::support::{EventStream, SecondService, TestApp, binary, keys_needed, outcome};

/// Repeats a request until it is refused. It must succeed until then.
async fn refused(request: impl Fn() -> reqwest::RequestBuilder) {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let status = request().send().await.unwrap().status().as_u16();
        if status == 401 {
            return;
        }
        assert_eq!(status, 200);
        assert!(Instant::now() < deadline, "the key is still accepted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn revoke(app: &TestApp, id: &str) {
    let mut command = binary(&["keys", "revoke", id]);
    command.env("DATABASE_URL", app.database.url());
    let (status, _, stderr) = outcome(command).await;
    assert_eq!(status, Some(0), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_is_refused_by_every_process_and_its_streams_are_aborted() {
    let app = start().await;
    let other = app.second_service(keys_needed()).await;
    // Load delays some revocations; a key that is cached for too long delays all of them.
    let mut took = Vec::new();
    while took.last().is_none_or(|last| *last >= REVOCATION_TIME) {
        assert!(took.len() < 5, "the revocations took {took:?}");
        took.push(revocation(&app, &other).await);
    }
    other.stop().await;
}

/// Revokes a key that is used by both services and by a stream. Returns the time until all of them
/// refuse it.
async fn revocation(app: &TestApp, other: &SecondService<'_>) -> Duration {
    let key = app.database.key(TenantId::DEFAULT, Scope::Read).await;
    let text = key.reveal();
    let session = app.session().await;
    session.ask("Hello").await;
    let here = || app.get_as(Some(&text), "/v1/sessions");
    let there = || other.get("/v1/sessions").header("x-api-key", &text);
    assert_eq!(here().send().await.unwrap().status(), 200);
    assert_eq!(there().send().await.unwrap().status(), 200);
    let stream = session.path("/events/stream");
    let stream = other.get(&stream).header("x-api-key", &text).send().await.unwrap();
    let mut stream = EventStream::new(stream);
    stream.until("session.status_idle").await;
    let mut stream_of_other_key = session.open(&session.path("/events/stream"), None).await;

    revoke(app, &key.id().to_string()).await;
    let revoked = Instant::now();
    let aborted = async { stream.try_next().await.is_err() };
    let (is_aborted, (), ()) = tokio::join!(aborted, refused(here), refused(there));
    let took = revoked.elapsed();
    assert!(is_aborted, "the stream ended as if it were complete");

    // The stream of another key continues.
    stream_of_other_key.until("session.status_idle").await;
    session.ask("Again").await;
    stream_of_other_key.until("session.status_idle").await;
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_expires_while_it_is_used() {
    let app = start().await;
    let (tenant, lifetime) = (TenantId::DEFAULT, Duration::from_secs(3));
    let made = Instant::now();
    let key = app.database.key_for(tenant, Scope::Read, Some(lifetime)).await.reveal();
    refused(|| app.get_as(Some(&key), "/v1/sessions")).await;
    assert!(made.elapsed() >= lifetime, "after {:?}", made.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_use_of_a_key_is_recorded_and_a_request_with_a_wrong_secret_is_not() {
    let app = start().await;
    let [used, unused] = [
        app.database.key(TenantId::DEFAULT, Scope::Read).await,
        app.database.key(TenantId::DEFAULT, Scope::Read).await,
    ];
    let wrong = format!("{}_{}", unused.id(), "0".repeat(64));
    for (key, status) in [(&*wrong, 401), (&*used.reveal(), 200)] {
        let answer = app.get_as(Some(key), "/v1/sessions").send().await.unwrap();
        assert_eq!(answer.status(), status);
    }
    let database = app.database.options();
    let is_used = async |key: &ApiKey| -> bool {
        let mut conn = PgConnection::connect_with(&database).await.unwrap();
        sqlx::query_scalar("SELECT last_used_at IS NOT NULL FROM api_keys WHERE id = $1")
            .bind(key.id().as_uuid())
            .fetch_one(&mut conn)
            .await
            .unwrap()
    };
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is_used(&used).await {
        assert!(Instant::now() < deadline, "the use was not recorded");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The request with the wrong secret was sent first.
    assert!(!is_used(&unused).await);
}
