//! Creating, changing and deleting webhooks.

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;
use twostep::outbound::AllowedHosts;

use super::{Receiver, Webhook, local_receivers};
use crate::support::{Setup, TestApp, client_with, problem, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_shown_with_everything_but_its_secret() {
    let app = TestApp::start_with(json!({}), local_receivers()).await;
    let body = json!({
        "url": "http://127.0.0.1:9/hook",
        "events": ["run.failed", "run.completed", "run.failed"],
        "description": "Bells",
    });
    let response = app.post("/v1/webhooks").json(&body).send().await.unwrap();
    assert_eq!(response.status(), 201);
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let mut created: Value = response.json().await.unwrap();
    let secret = created.as_object_mut().unwrap().remove("secret").unwrap();
    assert!(secret.as_str().unwrap().starts_with("whsec_"), "{secret}");
    let expected = json!({
        "type": "webhook",
        "id": created["id"],
        "url": "http://127.0.0.1:9/hook",
        "description": "Bells",
        "events": ["run.completed", "run.failed"],
        "enabled": true,
        "disabled": null,
        "created_at": created["created_at"],
        "updated_at": created["updated_at"],
    });
    assert_eq!(created, expected);
    assert_eq!(location, format!("/v1/webhooks/{}", created["id"].as_str().unwrap()));
    let read: Value = app.get(&location).send().await.unwrap().json().await.unwrap();
    assert_eq!(read, expected);
    let list: Value = app.get("/v1/webhooks").send().await.unwrap().json().await.unwrap();
    assert_eq!(list["data"], json!([expected]));

    let deleted = app.client.delete(app.url(&location)).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    for request in [app.get(&location), app.client.delete(app.url(&location))] {
        problem(request.send().await.unwrap(), 404, "webhook_not_found").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_webhook_is_refused_with_the_pointer_of_the_invalid_member() {
    let hosts = AllowedHosts::parse(["public", "hooks.internal"]).unwrap();
    let app =
        TestApp::start_with(json!({}), Setup { webhook_hosts: hosts, ..local_receivers() }).await;
    let long = format!("https://example.com/{}", "a".repeat(2000));
    for (body, pointer, message) in [
        (json!({ "url": "nonsense" }), "/url", "is not a URL: relative URL without a base"),
        (json!({ "url": "ftp://example.com/" }), "/url", "is not an http or https URL"),
        (json!({ "url": "http://example.com/" }), "/url", "is not an https URL"),
        (json!({ "url": "https://127.0.0.1/" }), "/url", "is at an address that is not public"),
        (json!({ "url": "https://[::1]/" }), "/url", "is at an address that is not public"),
        (json!({ "url": "https://me:pw@example.com/" }), "/url", "has a user name or a password"),
        (
            json!({ "url": "https://example.com/\n" }),
            "/url",
            "has whitespace or a control character",
        ),
        (json!({ "url": long }), "/url", "is longer than 2000 characters"),
        (json!({ "events": [] }), "/events", "is empty"),
        (json!({ "events": ["run.completed", "bell"] }), "/events/1", "\"bell\" is not an event"),
        (
            json!({ "description": "a".repeat(501) }),
            "/description",
            "is longer than 500 characters",
        ),
        (json!({ "description": "\u{0}" }), "/description", "has a NUL character"),
    ] {
        let mut webhook = json!({ "url": "http://hooks.internal/", "events": ["run.completed"] });
        webhook.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let refused = app.post("/v1/webhooks").json(&webhook).send().await.unwrap();
        let refused = problem(refused, 422, "validation_failed").await;
        let expected = json!([{ "pointer": pointer, "message": message }]);
        assert_eq!(refused["errors"], expected, "{webhook}");
    }
    let list: Value = app.get("/v1/webhooks").send().await.unwrap().json().await.unwrap();
    assert_eq!(list["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_refused_unless_the_operator_allows_its_host() {
    let app = TestApp::start(json!({})).await;
    let body = json!({ "url": "https://example.com/", "events": ["run.completed"] });
    let refused = app.post("/v1/webhooks").json(&body).send().await.unwrap();
    let refused = problem(refused, 422, "validation_failed").await;
    assert_eq!(refused["errors"][0]["message"], "is at a host that the operator does not allow");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_at_most_twenty_webhooks() {
    let app = TestApp::start_with(json!({}), local_receivers()).await;
    let body = json!({ "url": "http://127.0.0.1:9/", "events": ["run.completed"] });
    let post = || app.post("/v1/webhooks").json(&body).send();
    let responses = futures::future::join_all((0..25).map(|_| post())).await;
    let mut statuses: Vec<u16> =
        responses.into_iter().map(|response| response.unwrap().status().as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [[201; 20].as_slice(), &[409; 5]].concat());
    problem(post().await.unwrap(), 409, "too_many_webhooks").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_receives_only_the_chosen_events_of_its_own_tenant() {
    let setup = Setup { needs_keys: true, ..local_receivers() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let tenant = app.database.tenant("acme").await;
    let other_tenant = client_with(Some(&app.database.key(tenant, Scope::Write).await));
    let other_receiver = Receiver::start(&[]).await;
    let body = json!({ "url": other_receiver.url, "events": ["run.completed"] });
    let created = other_tenant.post(app.url("/v1/webhooks")).json(&body).send().await.unwrap();
    assert_eq!(created.status(), 201);
    let receiver = Receiver::start(&[]).await;
    let failures_only = Webhook::create(&app, &receiver, &["run.failed"]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    app.session().await.ask("Hello").await;
    webhook.check(&receiver.requests(1).await[0]);
    assert_eq!(failures_only.deliveries().await, [] as [Value; 0]);
    let count = "SELECT count(*) FROM webhook_deliveries WHERE tenant_id <> $1";
    let rows: i64 = sqlx::query_scalar(count)
        .bind(TenantId::DEFAULT.as_uuid())
        .fetch_one(&app.database.pool(1))
        .await
        .unwrap();
    assert_eq!((rows, other_receiver.count()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_not_delivered_while_a_webhook_is_disabled() {
    let script = replies(&[says("One."), says("Two."), says("Three.")]);
    let app = TestApp::start_with(script, local_receivers()).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed"]).await;
    let disabled = webhook.patch(json!({ "enabled": false, "description": "Bells" })).await;
    assert_eq!((&disabled["enabled"], &disabled["disabled"]), (&json!(false), &json!("by_owner")));
    let session = app.session().await;
    session.ask("One").await;
    assert_eq!(webhook.deliveries().await, [] as [Value; 0]);

    let new_receiver = Receiver::start(&[]).await;
    let events = json!(["run.cancelled", "run.completed"]);
    let change = json!({ "enabled": true, "description": null, "url": new_receiver.url,
                         "events": events });
    let enabled = webhook.patch(change).await;
    assert_eq!((&enabled["disabled"], &enabled["description"]), (&json!(null), &json!(null)));
    assert_eq!(enabled["events"], json!(["run.completed", "run.cancelled"]));
    session.ask("Two").await;
    webhook.check(&new_receiver.requests(1).await[0]);
    assert_eq!(receiver.count(), 0);
    let url = app.url(&webhook.path(""));
    for member in ["url", "events", "enabled"] {
        let response = app.client.patch(&url).json(&json!({ member: null })).send().await.unwrap();
        let refused = problem(response, 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], format!("/{member}"));
    }
    // Members that the body omits keep their values.
    assert_eq!(webhook.patch(json!({})).await["events"], enabled["events"]);
}
