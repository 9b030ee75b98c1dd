//! Receivers that do not take what they are told.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::{DeliveryId, WebhookId};
use twostep::domain::webhook::DeliveryState;
use twostep::store::deliveries::{Most, Next, claim_due, settle};
use twostep::store::webhooks::note_gone;

use super::{Answer, Receiver, Webhook, secret, telling};
use crate::support::{Session, TestApp, client_with, problem, replies, says};

const MOST: Most = Most { of_webhook: 8, of_tenant: 16, more: 64 };

async fn start() -> TestApp {
    TestApp::start_with(replies(&[says("Hello."), says("Hello again.")]), telling()).await
}

async fn test(webhook: &Webhook<'_>) -> DeliveryId {
    let response = webhook.app.post(&webhook.path("/test")).send().await.unwrap();
    assert_eq!(response.status(), 202);
    let test: Value = response.json().await.unwrap();
    test["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_taken_is_sent_again_with_the_same_id_and_body() {
    let app = start().await;
    let receiver = Receiver::start(&[Answer::Status(503)]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let session = app.session().await;
    session.ask("Hello").await;
    let waits = webhook.newest("pending", 1).await;
    assert_eq!(
        (&waits["last_status"], &waits["last_error"]),
        (&json!(503), &json!("answered 503"))
    );
    let at = |text: &Value| text.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let pause = at(&waits["next_attempt_at"]).duration_since(at(&waits["created_at"]));
    assert!((4..10).contains(&pause.as_secs()), "{pause:?}");

    webhook.hurry(&app.database.pool(1)).await;
    let told = receiver.told(2).await;
    assert_eq!(webhook.check(&told[0]), webhook.check(&told[1]));
    assert_eq!(told[0].body, told[1].body);
    let taken = webhook.newest("delivered", 2).await;
    assert_eq!((&taken["last_status"], &taken["last_error"]), (&json!(204), &json!(null)));
    let metrics = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    for line in ["{outcome=\"delivered\"} 1", "{outcome=\"retried\"} 1", "{outcome=\"failed\"} 0"] {
        assert!(metrics.contains(&format!("twostep_webhook_attempts_total{line}")), "{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_takes_is_given_up_and_sent_once_more_when_somebody_asks_for_it() {
    let app = start().await;
    let pool = app.database.pool(1);
    let receiver = Receiver::start(&[Answer::Status(500); 8]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let id = test(&webhook).await;
    webhook.newest("pending", 1).await;
    webhook.hurry(&pool).await;
    for _ in 2..8 {
        webhook.hurry_on(&pool).await;
    }
    let failed = webhook.newest("failed", 8).await;
    assert_eq!(failed["next_attempt_at"], json!(null));
    assert_eq!(receiver.count(), 8);

    let path = webhook.path(&format!("/deliveries/{id}/replay"));
    let replayed = app.post(&path).send().await.unwrap();
    assert_eq!(replayed.status(), 202);
    let told = receiver.told(9).await.pop().unwrap();
    assert_eq!(webhook.check(&told), id);
    assert_eq!(told.kind(), "webhook.test");
    webhook.newest("delivered", 1).await;

    // And all of a kind at once.
    for (body, replayed) in [
        (json!({ "since": "2020-01-01T00:00:00Z" }), 0),
        (json!({ "since": "2099-01-01T00:00:00Z", "state": "delivered" }), 0),
        (json!({ "since": "2020-01-01T00:00:00Z", "state": "delivered" }), 1),
    ] {
        let answer = app.post(&webhook.path("/replay")).json(&body).send().await.unwrap();
        assert_eq!(
            answer.json::<Value>().await.unwrap(),
            json!({ "replayed": replayed }),
            "{body}"
        );
    }
    assert_eq!(webhook.check(&receiver.told(10).await[9]), id);
    let unknown = webhook.path(&format!("/deliveries/{}/replay", DeliveryId::new()));
    let unknown = app.post(&unknown).send().await.unwrap();
    problem(unknown, 404, "delivery_not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_gone_is_told_nothing_more() {
    let app = start().await;
    let receiver = Receiver::start(&[Answer::Status(410)]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    test(&webhook).await;
    webhook.newest("failed", 1).await;
    let read = webhook.read().await;
    assert_eq!((&read["enabled"], &read["disabled"]), (&json!(false), &json!("gone")));
    let session = app.session().await;
    session.ask("Hello").await;
    assert_eq!(webhook.deliveries().await.len(), 1);

    let read = webhook.patch(json!({ "enabled": true })).await;
    assert_eq!((&read["enabled"], &read["disabled"]), (&json!(true), &json!(null)));
    session.ask("Again").await;
    assert_eq!(receiver.told(2).await[1].kind(), "run.completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_never_answers_stands_in_nobody_elses_way() {
    let app = start().await;
    let slow = Receiver::start(&[Answer::Never; 20]).await;
    let prompt = Receiver::start(&[]).await;
    let slow_webhook = Webhook::create(&app, &slow, &["run.completed"]).await;
    for _ in 0..20 {
        test(&slow_webhook).await;
    }
    // Those that are under way leave room for as many as there may be at a time.
    slow.told(8).await;
    let webhook = Webhook::create(&app, &prompt, &["run.completed"]).await;
    test(&webhook).await;
    prompt.told(1).await;
    assert_eq!(slow.count(), 8);
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_a_host_that_is_no_longer_allowed_or_does_not_answer() {
    let app = start().await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let pool = app.database.pool(1);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, error) in [
        ("http://localhost:1/".to_owned(), "at a host that the operator does not allow"),
        (format!("http://{closed}/?token=planted"), "Connection refused"),
    ] {
        let moved = "UPDATE webhooks SET url = $2 WHERE id = $1";
        sqlx::query(moved).bind(webhook.uuid()).bind(url).execute(&pool).await.unwrap();
        test(&webhook).await;
        let told = webhook.newest("pending", 1).await["last_error"].to_string();
        assert!(told.contains(error), "{told}");
        assert!(!told.contains("planted"), "{told}");
    }
    assert_eq!(receiver.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_died_with_a_delivery_is_followed_by_another_and_not_heard_any_more() {
    let setup = crate::support::Setup { no_worker: true, ..telling() };
    let app = TestApp::start_with(json!({}), setup).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let id = test(&webhook).await;
    let pool = app.database.pool(1);
    let mut conn = pool.acquire().await.unwrap();
    let mut take =
        async |busy: &[_]| claim_due(&mut conn, busy, MOST, Duration::from_mins(1)).await.unwrap();
    let first = take(&[]).await;
    assert_eq!((first.len(), first[0].id, first[0].attempt), (1, id, 1));
    // Nobody else takes it meanwhile.
    assert_eq!(take(&[]).await.len(), 0);
    webhook.hurry(&app.database.pool(1)).await;
    assert_eq!(take(&[(webhook.id.parse().unwrap(), 8)]).await.len(), 0);
    let second = take(&[]).await;
    assert_eq!((second[0].id, second[0].attempt), (id, 2));

    settle(&mut conn, (id, first[0].taken_until), (Some(204), None), Next::Delivered)
        .await
        .unwrap();
    assert_eq!(webhook.deliveries().await[0]["state"], DeliveryState::Pending.as_str());
    settle(&mut conn, (id, second[0].taken_until), (Some(204), None), Next::Delivered)
        .await
        .unwrap();
    assert_eq!(webhook.deliveries().await[0]["state"], DeliveryState::Delivered.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn for_a_day_after_a_change_both_secrets_sign() {
    let app = start().await;
    let receiver = Receiver::start(&[]).await;
    let old = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let answer = app.post(&old.path("/secret")).send().await.unwrap();
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["old_secret_seconds"], 86400);
    let new = Webhook {
        app: &app,
        id: old.id.clone(),
        secret: secret(answer["secret"].as_str().unwrap()),
    };
    assert_ne!(old.secret, new.secret);
    test(&old).await;
    let told = receiver.told(1).await.remove(0);
    assert_eq!(old.check(&told), new.check(&told));

    let later = "UPDATE webhooks SET old_secret_until = now()";
    sqlx::query(later).execute(&app.database.pool(1)).await.unwrap();
    test(&old).await;
    let told = receiver.told(2).await.remove(1);
    new.check(&told);
    assert_eq!(told.header("webhook-signature").split(' ').count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_deleted_takes_with_it_what_was_to_be_told_of_it() {
    let app = start().await;
    let receiver = Receiver::start(&[Answer::Status(500)]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let session = app.session().await;
    session.ask("Hello").await;
    webhook.newest("pending", 1).await;
    let Session { id, .. } = &session;
    let gone = app.client.delete(app.url(&format!("/v1/sessions/{id}"))).send().await.unwrap();
    assert_eq!(gone.status(), 204);
    assert_eq!(webhook.deliveries().await, [] as [Value; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_take_turns_and_so_do_the_webhooks_of_each() {
    let setup = crate::support::Setup { no_worker: true, needs_keys: true, ..telling() };
    let app = TestApp::start_with(json!({}), setup).await;
    let receiver = Receiver::start(&[]).await;
    // One tenant has much to be told in three places, another one a little.
    let mut mine = Vec::new();
    for _ in 0..3 {
        mine.push(Webhook::create(&app, &receiver, &["run.completed"]).await);
    }
    for webhook in &mine {
        for _ in 0..10 {
            test(webhook).await;
        }
    }
    let tenant = app.database.tenant("acme").await;
    let foreign = client_with(Some(&app.database.key(tenant, Scope::Write).await));
    let body = json!({ "url": receiver.url, "events": ["run.completed"] });
    let theirs = foreign.post(app.url("/v1/webhooks")).json(&body).send().await.unwrap();
    let theirs: Value = theirs.json().await.unwrap();
    let theirs: WebhookId = theirs["id"].as_str().unwrap().parse().unwrap();
    let told = foreign.post(app.url(&format!("/v1/webhooks/{theirs}/test"))).send().await.unwrap();
    assert_eq!(told.status(), 202);

    let ids: Vec<WebhookId> = mine.iter().map(|webhook| webhook.id.parse().unwrap()).collect();
    let pool = app.database.pool(1);
    let mut conn = pool.acquire().await.unwrap();
    let mut take = async |busy: &[_], more| {
        let most = Most { more, ..MOST };
        let due = claim_due(&mut conn, busy, most, Duration::from_mins(1)).await.unwrap();
        let mut counts: BTreeMap<WebhookId, i64> = BTreeMap::new();
        for due in due {
            *counts.entry(due.webhook_id).or_default() += 1;
        }
        [ids[0], ids[1], ids[2], theirs].map(|id| counts.get(&id).copied().unwrap_or(0))
    };
    // With the first of mine busy, the others come first, and the other tenant before them all.
    assert_eq!(take(&[(ids[0], 8)], 3).await, [0, 1, 1, 1]);
    // No tenant has more than its part: eight of the first are under way, and two were taken.
    let busy = [(ids[0], 8), (ids[1], 1), (ids[2], 1)];
    assert_eq!(take(&busy, 64).await, [0, 3, 3, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_disabled_takes_no_tests_and_an_enabled_one_not_many() {
    let setup = crate::support::Setup { no_worker: true, ..telling() };
    let app = TestApp::start_with(json!({}), setup).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    for _ in 0..20 {
        test(&webhook).await;
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
async fn to_delete_a_webhook_harms_no_run_that_settles_at_that_moment() {
    let app = start().await;
    let pool = app.database.pool(1);
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let session = app.session().await;
    // The deletion is held up after it has begun.
    let mut deleting = pool.begin().await.unwrap();
    sqlx::query("DELETE FROM webhooks").execute(&mut *deleting).await.unwrap();
    let run = session.post(json!({ "content": "Hello" })).await;
    let held = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
        AND datname = current_database()";
    let watcher = app.database.pool(1);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while sqlx::query_scalar::<_, i64>(held).fetch_one(&watcher).await.unwrap() == 0 {
        assert!(tokio::time::Instant::now() < deadline, "the run does not wait");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    deleting.commit().await.unwrap();
    assert_eq!(session.settled(&run).await["status"], "completed");
    problem(app.get(&webhook.path("")).send().await.unwrap(), 404, "webhook_not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_address_of_a_webhook_says_nothing_of_the_new_one() {
    let setup = crate::support::Setup { no_worker: true, ..telling() };
    let app = TestApp::start_with(json!({}), setup).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let pool = app.database.pool(1);
    let mut conn = pool.acquire().await.unwrap();
    let id = webhook.id.parse().unwrap();
    note_gone(&mut conn, id, "http://127.0.0.1/before").await.unwrap();
    assert_eq!(webhook.read().await["enabled"], true);
    note_gone(&mut conn, id, &receiver.url).await.unwrap();
    assert_eq!(webhook.read().await["disabled"], "gone");
}
