//! Webhooks: delivery of events to receivers over HTTP.

mod management;
mod payload_schema;
mod receiver;
mod retries;

use serde_json::{Value, json};
use sqlx::PgPool;
use twostep::domain::ids::{DeliveryId, WebhookId};
use twostep::domain::webhook::WebhookSecret;
use twostep::outbound::AllowedHosts;

use crate::support::{Setup, TestApp, asks, calls_as, hangs_first, replies, says};
use receiver::{ReceivedRequest, Receiver, ScriptedResponse};

/// A setup that allows receivers on this machine.
fn local_receivers() -> Setup {
    Setup { webhook_hosts: AllowedHosts::parse(["127.0.0.1"]).unwrap(), ..Setup::default() }
}

/// A webhook of a service.
struct Webhook<'a> {
    app: &'a TestApp,
    id: String,
    secret: WebhookSecret,
}

impl<'a> Webhook<'a> {
    async fn create(app: &'a TestApp, receiver: &Receiver, events: &[&str]) -> Self {
        let body = json!({ "url": receiver.url, "events": events });
        let response = app.post("/v1/webhooks").json(&body).send().await.unwrap();
        assert_eq!(response.status(), 201);
        let created: Value = response.json().await.unwrap();
        let id = created["id"].as_str().unwrap().to_owned();
        let secret = secret(created["secret"].as_str().unwrap());
        Self { app, id, secret }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/webhooks/{}{rest}", self.id)
    }

    fn uuid(&self) -> uuid::Uuid {
        self.id.parse::<WebhookId>().unwrap().as_uuid()
    }

    async fn read(&self) -> Value {
        self.app.get(&self.path("")).send().await.unwrap().json().await.unwrap()
    }

    async fn patch(&self, body: Value) -> Value {
        let url = self.app.url(&self.path(""));
        let response = self.app.client.patch(url).json(&body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.json().await.unwrap()
    }

    async fn deliveries(&self) -> Vec<Value> {
        let response = self.app.get(&self.path("/deliveries")).send().await.unwrap();
        let page: Value = response.json().await.unwrap();
        page["data"].as_array().unwrap().clone()
    }

    /// Waits until the newest delivery is in this state after this number of attempts.
    async fn newest(&self, state: &str, attempts: i32) -> Value {
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
        loop {
            let newest = self.deliveries().await.into_iter().next().unwrap_or_default();
            // Both are null until the first attempt has finished.
            let is_attempted =
                newest["last_status"] != json!(null) || newest["last_error"] != json!(null);
            if is_attempted && newest["state"] == state && newest["attempts"] == attempts {
                return newest;
            }
            assert!(tokio::time::Instant::now() < deadline, "{newest}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Makes the next attempt of all pending deliveries due now.
    async fn make_due(&self, pool: &PgPool) {
        sqlx::query(
            "UPDATE webhook_deliveries SET next_attempt_at = now()
             WHERE webhook_id = $1 AND state = 'pending'",
        )
        .bind(self.uuid())
        .execute(pool)
        .await
        .unwrap();
    }

    /// Waits until an attempt has failed, and makes the next one due now.
    async fn make_due_after_failure(&self, pool: &PgPool) {
        // A claim moves `next_attempt_at` by one minute; the pause after a failure is longer.
        let make_due = "UPDATE webhook_deliveries SET next_attempt_at = now()
             WHERE webhook_id = $1 AND next_attempt_at > now() + interval '2 minutes'";
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
        let update = async || sqlx::query(make_due).bind(self.uuid()).execute(pool).await.unwrap();
        while update().await.rows_affected() == 0 {
            assert!(tokio::time::Instant::now() < deadline, "no attempt has failed");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Verifies the headers and the signature of a request, and returns the id of its delivery.
    fn check(&self, request: &ReceivedRequest) -> DeliveryId {
        let id: DeliveryId = request.header("webhook-id").parse().unwrap();
        let timestamp: i64 = request.header("webhook-timestamp").parse().unwrap();
        let now = jiff::Timestamp::now().as_second();
        assert!(
            (now - 60..=now).contains(&timestamp),
            "timestamp {timestamp} is not within 60 s before {now}"
        );
        let signature = self.secret.sign(id, timestamp, &request.body);
        let signatures: Vec<&str> = request.header("webhook-signature").split(' ').collect();
        assert!(signatures.contains(&&*signature), "{signatures:?}");
        assert_eq!(request.header("content-type"), "application/json");
        id
    }
}

fn secret(text: &str) -> WebhookSecret {
    use base64::Engine as _;
    let text = text.strip_prefix("whsec_").unwrap();
    base64::engine::general_purpose::STANDARD.decode(text).unwrap().try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_run_is_delivered_once_with_a_signature() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), local_receivers()).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed", "run.failed"]).await;
    let session = app.session().await;
    let run = session.ask("Hello").await;

    let request = receiver.requests(1).await.remove(0);
    let id = webhook.check(&request);
    let idle = session.events().await.pop().unwrap();
    let body = request.json();
    assert_eq!(
        body,
        json!({
            "type": "run.completed",
            "timestamp": body["timestamp"],
            "data": {
                "session_id": session.id,
                "run_id": run["id"],
                "seq": idle["seq"],
                "event": { "type": "session.status_idle", "stop_reason": idle["stop_reason"] },
            },
        })
    );
    let at = |text: &Value| text.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(at(&body["timestamp"]), at(&idle["created_at"]));

    let delivery = webhook.newest("delivered", 1).await;
    assert_eq!(
        delivery,
        json!({
            "type": "webhook_delivery",
            "id": id.to_string(),
            "session_id": session.id,
            "event": "run.completed",
            "state": "delivered",
            "attempts": 1,
            "next_attempt_at": null,
            "last_status": 204,
            "last_error": null,
            "created_at": delivery["created_at"],
            "ended_at": delivery["ended_at"],
        })
    );
    assert_eq!(webhook.deliveries().await.len(), 1);
    assert_eq!(receiver.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_run_and_its_decision_are_delivered() {
    let ring = calls_as(&[("toolu_01ring", "ring", json!({ "line": "one" }))]);
    let setup = Setup { webhook_hosts: local_receivers().webhook_hosts, ..asks() };
    let app = TestApp::start_with(replies(&[ring, says("Rang.")]), setup).await;
    let receiver = Receiver::start(&[]).await;
    let events = ["run.completed", "run.requires_action", "approval.decided"];
    let webhook = Webhook::create(&app, &receiver, &events).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Ring" })).await;
    let waiting = receiver.requests(1).await.remove(0).json();
    assert_eq!(waiting["type"], "run.requires_action");
    assert_eq!(
        waiting["data"]["event"]["stop_reason"],
        json!({ "type": "requires_action", "event_ids": ["toolu_01ring"] })
    );

    session.allow("toolu_01ring", json!({})).await;
    session.settled(&run).await;
    let requests = receiver.requests(3).await;
    for request in &requests {
        webhook.check(request);
    }
    let mut bodies: Vec<Value> = requests.iter().map(ReceivedRequest::json).collect();
    // Deliveries arrive in any order; `seq` is the order of the events.
    bodies.sort_by_key(|body| body["data"]["seq"].as_i64());
    let kinds: Vec<&str> = bodies.iter().map(|body| body["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run.requires_action", "approval.decided", "run.completed"]);
    assert_eq!(bodies[1]["data"]["event"]["tool_use_id"], "toolu_01ring");
    assert_eq!(bodies[1]["data"]["event"]["result"], "allow");
}

#[tokio::test(flavor = "multi_thread")]
async fn feedback_is_delivered_with_the_run_of_its_reply() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), local_receivers()).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["message.feedback"]).await;
    let session = app.session().await;
    let run = session.ask("Hi").await;
    let reply = session.history().await.pop().unwrap()["message"]["id"].clone();
    let path = session.path(&format!("/messages/{}/feedback", reply.as_str().unwrap()));
    let put = app.client.put(app.url(&path)).json(&json!({ "rating": "up" }));
    assert_eq!(put.send().await.unwrap().status(), 200);
    let request = receiver.requests(1).await.remove(0);
    webhook.check(&request);
    let body = request.json();
    assert_eq!((&body["type"], &body["data"]["run_id"]), (&json!("message.feedback"), &run["id"]));
    let event = json!({ "type": "user.feedback", "message_id": reply, "rating": "up" });
    assert_eq!(body["data"]["event"], event);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_and_cancelled_runs_are_delivered_as_such() {
    let error = json!({ "type": "invalid_request_error", "message": "no" });
    let mut script = hangs_first();
    script["conversations"][1]["replies"] = json!([{ "status": 400, "error": error }]);
    let app = TestApp::start_with(script, local_receivers()).await;
    let receiver = Receiver::start(&[]).await;
    let _webhook = Webhook::create(&app, &receiver, &["run.failed", "run.cancelled"]).await;
    let session = app.session().await;
    assert_eq!(session.ask("Fail").await["status"], "failed");
    assert_eq!(receiver.requests(1).await[0].kind(), "run.failed");
    let run = session.post(json!({ "content": "hang" })).await;
    session.reached(&run, "span.model_request_start").await;
    session.cancel(&run).await;
    assert_eq!(receiver.requests(2).await[1].kind(), "run.cancelled");
    app.stop().await;
}
