//! The limited queue for requests with unknown keys or tickets.

use std::time::Duration;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt as _};
use sqlx::{Connection as _, Executor as _, PgConnection};
use twostep::domain::api_key::ApiKey;

use crate::support::{TestApp, keys_needed, problem, replies};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_an_unknown_key_is_refused_at_once_when_the_queue_is_full() {
    let app = TestApp::start_with(replies(&[]), keys_needed()).await;
    let session = app.session().await;
    let mut lock = PgConnection::connect_with(&app.database.options()).await.unwrap();
    let mut held = lock.begin().await.unwrap();
    held.execute("LOCK TABLE api_keys, stream_tickets IN ACCESS EXCLUSIVE MODE").await.unwrap();

    let mut requests: FuturesUnordered<_> = (0..300)
        .map(|_| {
            let key = ApiKey::generate().unwrap().reveal();
            app.get_as(Some(&key), "/v1/sessions").send()
        })
        .collect();
    // Two lookups run and 256 wait. The lock is held, so the refused requests did not wait for the
    // database.
    for _ in 258..300 {
        let refused = requests.next().await.unwrap().unwrap();
        assert_eq!(refused.headers()["retry-after"], "1");
        problem(refused, 503, "too_many_unknown_keys").await;
    }
    // Tickets have a separate queue.
    let ticket = format!("{}?ticket=tst_{}", session.path("/events/stream"), "0".repeat(64));
    let waits = tokio::time::timeout(Duration::from_millis(300), app.get_as(None, &ticket).send());
    assert!(waits.await.is_err(), "the request with a ticket did not wait");

    held.rollback().await.unwrap();
    let rest = join_all(requests).await;
    let waited =
        rest.into_iter().filter(|response| response.as_ref().unwrap().status() == 401).count();
    assert_eq!(waited, 258);
}
