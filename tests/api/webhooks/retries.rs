//! Failed deliveries: retries, replays, and the claims of deliveries.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::{DeliveryId, WebhookId};
use twostep::domain::webhook::DeliveryState;
use twostep::store::deliveries::{AttemptOutcome, DeliveryLimits, NextAttempt, claim_due, settle};
use twostep::store::webhooks::disable_gone;

use super::{Receiver, ScriptedResponse, Webhook, local_receivers, secret};
use crate::support::{Session, TestApp, client_with, problem, replies, says};

const LIMITS: DeliveryLimits = DeliveryLimits { of_webhook: 8, of_tenant: 16, more: 64 };

async fn start() -> TestApp {
    TestApp::start_with(replies(&[says("Hello."), says("Hello again.")]), local_receivers()).await
}

/// Sends a test event and returns the id of its delivery.
async fn send_test(webhook: &Webhook<'_>) -> DeliveryId {
    let response = webhook.app.post(&webhook.path("/test")).send().await.unwrap();
    assert_eq!(response.status(), 202);
    let test: Value = response.json().await.unwrap();
    test["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delivery_is_retried_with_the_same_id_and_body() {
    let app = start().await;
    let receiver = Receiver::start(&[ScriptedResponse::Status(503)]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let session = app.session().await;
    session.ask("Hello").await;
    let pending = webhook.newest("pending", 1).await;
    assert_eq!(
        (&pending["last_status"], &pending["last_error"]),
        (&json!(503), &json!("answered 503"))
    );
    let at = |text: &Value| text.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let pause = at(&pending["next_attempt_at"]).duration_since(at(&pending["created_at"]));
    assert!((4..10).contains(&pause.as_secs()), "{pause:?}");

    webhook.make_due(&app.database.pool(1)).await;
    let requests = receiver.requests(2).await;
    assert_eq!(webhook.check(&requests[0]), webhook.check(&requests[1]));
    assert_eq!(requests[0].body, requests[1].body);
    let delivered = webhook.newest("delivered", 2).await;
    assert_eq!((&delivered["last_status"], &delivered["last_error"]), (&json!(204), &json!(null)));
    let metrics = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    for line in ["{outcome=\"delivered\"} 1", "{outcome=\"retried\"} 1", "{outcome=\"failed\"} 0"] {
        assert!(metrics.contains(&format!("twostep_webhook_attempts_total{line}")), "{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_fails_after_eight_attempts_and_can_be_replayed() {
    let app = start().await;
    let pool = app.database.pool(1);
    let receiver = Receiver::start(&[ScriptedResponse::Status(500); 8]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let id = send_test(&webhook).await;
    webhook.newest("pending", 1).await;
    webhook.make_due(&pool).await;
    for _ in 2..8 {
        webhook.make_due_after_failure(&pool).await;
    }
    let failed = webhook.newest("failed", 8).await;
    assert_eq!(failed["next_attempt_at"], json!(null));
    assert_eq!(receiver.count(), 8);

    let path = webhook.path(&format!("/deliveries/{id}/replay"));
    let replayed = app.post(&path).send().await.unwrap();
    assert_eq!(replayed.status(), 202);
    let request = receiver.requests(9).await.pop().unwrap();
    assert_eq!(webhook.check(&request), id);
    assert_eq!(request.kind(), "webhook.test");
    webhook.newest("delivered", 1).await;

    // A replay of all deliveries of a state since a time.
    for (body, replayed) in [
        (json!({ "since": "2020-01-01T00:00:00Z" }), 0),
        (json!({ "since": "2099-01-01T00:00:00Z", "state": "delivered" }), 0),
        (json!({ "since": "2020-01-01T00:00:00Z", "state": "delivered" }), 1),
    ] {
        let response = app.post(&webhook.path("/replay")).json(&body).send().await.unwrap();
        assert_eq!(
            response.json::<Value>().await.unwrap(),
            json!({ "replayed": replayed }),
            "{body}"
        );
    }
    assert_eq!(webhook.check(&receiver.requests(10).await[9]), id);
    let unknown = webhook.path(&format!("/deliveries/{}/replay", DeliveryId::new()));
    let unknown = app.post(&unknown).send().await.unwrap();
    problem(unknown, 404, "delivery_not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_410_response_disables_the_webhook() {
    let app = start().await;
    let receiver = Receiver::start(&[ScriptedResponse::Status(410)]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    send_test(&webhook).await;
    webhook.newest("failed", 1).await;
    let read = webhook.read().await;
    assert_eq!((&read["enabled"], &read["disabled"]), (&json!(false), &json!("gone")));
    let session = app.session().await;
    session.ask("Hello").await;
    assert_eq!(webhook.deliveries().await.len(), 1);

    let read = webhook.patch(json!({ "enabled": true })).await;
    assert_eq!((&read["enabled"], &read["disabled"]), (&json!(true), &json!(null)));
    session.ask("Again").await;
    assert_eq!(receiver.requests(2).await[1].kind(), "run.completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_never_responds_does_not_delay_other_webhooks() {
    let app = start().await;
    let slow = Receiver::start(&[ScriptedResponse::Never; 20]).await;
    let fast = Receiver::start(&[]).await;
    let slow_webhook = Webhook::create(&app, &slow, &["run.completed"]).await;
    for _ in 0..20 {
        send_test(&slow_webhook).await;
    }
    // Eight deliveries of one webhook are sent at a time; the others wait.
    slow.requests(8).await;
    let webhook = Webhook::create(&app, &fast, &["run.completed"]).await;
    send_test(&webhook).await;
    fast.requests(1).await;
    assert_eq!(slow.count(), 8);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_to_a_disallowed_or_unreachable_host_fails_and_hides_the_url() {
    let app = start().await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let pool = app.database.pool(1);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, error) in [
        ("http://localhost:1/".to_owned(), "at a host that the operator does not allow"),
        (format!("http://{closed}/?token=planted"), "Connection refused"),
    ] {
        let change_url = "UPDATE webhooks SET url = $2 WHERE id = $1";
        sqlx::query(change_url).bind(webhook.uuid()).bind(url).execute(&pool).await.unwrap();
        send_test(&webhook).await;
        let last_error = webhook.newest("pending", 1).await["last_error"].to_string();
        assert!(last_error.contains(error), "{last_error}");
        assert!(!last_error.contains("planted"), "{last_error}");
    }
    assert_eq!(receiver.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_claim_of_a_delivery_is_repeated_and_its_late_result_is_ignored() {
    let setup = crate::support::Setup { no_worker: true, ..local_receivers() };
    let app = TestApp::start_with(json!({}), setup).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let id = send_test(&webhook).await;
    let pool = app.database.pool(1);
    let mut conn = pool.acquire().await.unwrap();
    let mut claim = async |busy: &[_]| {
        claim_due(&mut conn, busy, LIMITS, Duration::from_mins(1)).await.unwrap()
    };
    let first = claim(&[]).await;
    assert_eq!((first.len(), first[0].id, first[0].attempt), (1, id, 1));
    // A claimed delivery cannot be claimed again before its claim expires.
    assert_eq!(claim(&[]).await.len(), 0);
    webhook.make_due(&app.database.pool(1)).await;
    assert_eq!(claim(&[(webhook.id.parse().unwrap(), 8)]).await.len(), 0);
    let second = claim(&[]).await;
    assert_eq!((second[0].id, second[0].attempt), (id, 2));
    let delivered = |claimed_until| AttemptOutcome {
        id,
        claimed_until,
        status: Some(204),
        error: None,
        next: NextAttempt::Delivered,
    };

    settle(&mut conn, delivered(first[0].claimed_until)).await.unwrap();
    assert_eq!(webhook.deliveries().await[0]["state"], DeliveryState::Pending.as_str());
    settle(&mut conn, delivered(second[0].claimed_until)).await.unwrap();
    assert_eq!(webhook.deliveries().await[0]["state"], DeliveryState::Delivered.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn both_secrets_sign_for_a_day_after_a_rotation() {
    let app = start().await;
    let receiver = Receiver::start(&[]).await;
    let old = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let rotated = app.post(&old.path("/secret")).send().await.unwrap();
    let rotated: Value = rotated.json().await.unwrap();
    assert_eq!(rotated["old_secret_seconds"], 86400);
    let new = Webhook {
        app: &app,
        id: old.id.clone(),
        secret: secret(rotated["secret"].as_str().unwrap()),
    };
    assert_ne!(old.secret, new.secret);
    send_test(&old).await;
    let request = receiver.requests(1).await.remove(0);
    assert_eq!(old.check(&request), new.check(&request));

    let expire = "UPDATE webhooks SET old_secret_until = now()";
    sqlx::query(expire).execute(&app.database.pool(1)).await.unwrap();
    send_test(&old).await;
    let request = receiver.requests(2).await.remove(1);
    new.check(&request);
    assert_eq!(request.header("webhook-signature").split(' ').count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_session_deletes_its_deliveries() {
    let app = start().await;
    let receiver = Receiver::start(&[ScriptedResponse::Status(500)]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let session = app.session().await;
    session.ask("Hello").await;
    webhook.newest("pending", 1).await;
    let Session { id, .. } = &session;
    let deleted = app.client.delete(app.url(&format!("/v1/sessions/{id}"))).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    assert_eq!(webhook.deliveries().await, [] as [Value; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_are_shared_fairly_between_tenants_and_their_webhooks() {
    let setup = crate::support::Setup { no_worker: true, needs_keys: true, ..local_receivers() };
    let app = TestApp::start_with(json!({}), setup).await;
    let receiver = Receiver::start(&[]).await;
    // One tenant has ten deliveries for each of three webhooks; another tenant has one delivery.
    let mut own = Vec::new();
    for _ in 0..3 {
        own.push(Webhook::create(&app, &receiver, &["run.completed"]).await);
    }
    for webhook in &own {
        for _ in 0..10 {
            send_test(webhook).await;
        }
    }
    let tenant = app.database.tenant("acme").await;
    let other_tenant = client_with(Some(&app.database.key(tenant, Scope::Write).await));
    let body = json!({ "url": receiver.url, "events": ["run.completed"] });
    let other = other_tenant.post(app.url("/v1/webhooks")).json(&body).send().await.unwrap();
    let other: Value = other.json().await.unwrap();
    let other: WebhookId = other["id"].as_str().unwrap().parse().unwrap();
    let sent =
        other_tenant.post(app.url(&format!("/v1/webhooks/{other}/test"))).send().await.unwrap();
    assert_eq!(sent.status(), 202);

    let ids: Vec<WebhookId> = own.iter().map(|webhook| webhook.id.parse().unwrap()).collect();
    let pool = app.database.pool(1);
    let mut conn = pool.acquire().await.unwrap();
    let mut claim = async |busy: &[_], more| {
        let limits = DeliveryLimits { more, ..LIMITS };
        let due = claim_due(&mut conn, busy, limits, Duration::from_mins(1)).await.unwrap();
        let mut counts: BTreeMap<WebhookId, i64> = BTreeMap::new();
        for delivery in due {
            *counts.entry(delivery.webhook_id).or_default() += 1;
        }
        [ids[0], ids[1], ids[2], other].map(|id| counts.get(&id).copied().unwrap_or(0))
    };
    // The first webhook has eight deliveries in progress, so each of the others gets one.
    assert_eq!(claim(&[(ids[0], 8)], 3).await, [0, 1, 1, 1]);
    // A tenant has at most 16 deliveries in progress: ten are, so six more are claimed.
    let busy = [(ids[0], 8), (ids[1], 1), (ids[2], 1)];
    assert_eq!(claim(&busy, 64).await, [0, 3, 3, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tests_are_refused_for_a_disabled_webhook_and_beyond_the_limit() {
    let setup = crate::support::Setup { no_worker: true, ..local_receivers() };
    let app = TestApp::start_with(json!({}), setup).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    for _ in 0..20 {
        send_test(&webhook).await;
    }
    let more = app.post(&webhook.path("/test")).send().await.unwrap();
    problem(more, 409, "too_many_tests").await;
    webhook.patch(json!({ "enabled": false })).await;
    let replay = json!({ "since": "-005000-01-01T00:00:00Z" });
    for (path, body) in [("/test", json!(null)), ("/replay", replay.clone())] {
        let refused = app.post(&webhook.path(path)).json(&body).send().await.unwrap();
        problem(refused, 409, "webhook_disabled").await;
    }
    webhook.patch(json!({ "enabled": true })).await;
    let replayed = app.post(&webhook.path("/replay")).json(&replay).send().await.unwrap();
    assert_eq!(replayed.status(), 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_webhook_does_not_fail_a_run_that_settles_at_the_same_time() {
    let app = start().await;
    let pool = app.database.pool(1);
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let session = app.session().await;
    // The transaction that deletes the webhook stays open while the run settles.
    let mut deleting = pool.begin().await.unwrap();
    sqlx::query("DELETE FROM webhooks").execute(&mut *deleting).await.unwrap();
    let run = session.post(json!({ "content": "Hello" })).await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
        AND datname = current_database()";
    let watcher = app.database.pool(1);
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&watcher).await.unwrap() == 0 {
        assert!(tokio::time::Instant::now() < deadline, "no statement waits for the lock");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    deleting.commit().await.unwrap();
    assert_eq!(session.settled(&run).await["status"], "completed");
    problem(app.get(&webhook.path("")).send().await.unwrap(), 404, "webhook_not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_410_response_of_the_old_url_does_not_disable_the_new_url() {
    let setup = crate::support::Setup { no_worker: true, ..local_receivers() };
    let app = TestApp::start_with(json!({}), setup).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let pool = app.database.pool(1);
    let mut conn = pool.acquire().await.unwrap();
    let id = webhook.id.parse().unwrap();
    disable_gone(&mut conn, id, "http://127.0.0.1/before").await.unwrap();
    assert_eq!(webhook.read().await["enabled"], true);
    disable_gone(&mut conn, id, &receiver.url).await.unwrap();
    assert_eq!(webhook.read().await["disabled"], "gone");
}
