//! Being told of runs.

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
use receiver::{Answer, Receiver, Told};

/// A service that may tell somebody on this machine.
fn telling() -> Setup {
    Setup { webhook_hosts: AllowedHosts::parse(["127.0.0.1"]).unwrap(), ..Setup::default() }
}

/// A webhook at a receiver.
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

    /// Waits until its newest delivery is in this state, after so many attempts.
    async fn newest(&self, state: &str, attempts: i32) -> Value {
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
        loop {
            let newest = self.deliveries().await.into_iter().next().unwrap_or_default();
            // Until its first attempt has ended it has neither.
            let is_over =
                newest["last_status"] != json!(null) || newest["last_error"] != json!(null);
            if is_over && newest["state"] == state && newest["attempts"] == attempts {
                return newest;
            }
            assert!(tokio::time::Instant::now() < deadline, "{newest}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// The pause before the next attempt is over.
    async fn hurry(&self, pool: &PgPool) {
        sqlx::query(
            "UPDATE webhook_deliveries SET next_attempt_at = now()
             WHERE webhook_id = $1 AND state = 'pending'",
        )
        .bind(self.uuid())
        .execute(pool)
        .await
        .unwrap();
    }

    /// Waits for the end of an attempt after which there is a long pause, and ends that.
    async fn hurry_on(&self, pool: &PgPool) {
        // Who takes a delivery has it for a minute.
        let hurried = "UPDATE webhook_deliveries SET next_attempt_at = now()
             WHERE webhook_id = $1 AND next_attempt_at > now() + interval '2 minutes'";
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
        let hurry = async || sqlx::query(hurried).bind(self.uuid()).execute(pool).await.unwrap();
        while hurry().await.rows_affected() == 0 {
            assert!(tokio::time::Instant::now() < deadline, "no attempt has failed");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Checks what came as a receiver does, and gives its id.
    fn check(&self, told: &Told) -> DeliveryId {
        let id: DeliveryId = told.header("webhook-id").parse().unwrap();
        let timestamp: i64 = told.header("webhook-timestamp").parse().unwrap();
        let now = jiff::Timestamp::now().as_second();
        assert!((now - 60..=now).contains(&timestamp), "{timestamp} is not now, {now}");
        let signature = self.secret.sign(id, timestamp, &told.body);
        let signatures: Vec<&str> = told.header("webhook-signature").split(' ').collect();
        assert!(signatures.contains(&&*signature), "{signatures:?}");
        assert_eq!(told.header("content-type"), "application/json");
        id
    }
}

fn secret(text: &str) -> WebhookSecret {
    use base64::Engine as _;
    let text = text.strip_prefix("whsec_").unwrap();
    base64::engine::general_purpose::STANDARD.decode(text).unwrap().try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_its_answer_is_told_signed_and_once() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), telling()).await;
    let receiver = Receiver::start(&[]).await;
    let webhook = Webhook::create(&app, &receiver, &["run.completed", "run.failed"]).await;
    let session = app.session().await;
    let run = session.ask("Hello").await;

    let told = receiver.told(1).await.remove(0);
    let id = webhook.check(&told);
    let idle = session.events().await.pop().unwrap();
    let body = told.json();
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
async fn a_run_that_waits_is_told_and_so_is_the_decision() {
    let ring = calls_as(&[("toolu_01ring", "ring", json!({ "line": "one" }))]);
    let setup = Setup { webhook_hosts: telling().webhook_hosts, ..asks() };
    let app = TestApp::start_with(replies(&[ring, says("Rang.")]), setup).await;
    let receiver = Receiver::start(&[]).await;
    let events = ["run.completed", "run.requires_action", "approval.decided"];
    let webhook = Webhook::create(&app, &receiver, &events).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Ring" })).await;
    let waits = receiver.told(1).await.remove(0).json();
    assert_eq!(waits["type"], "run.requires_action");
    assert_eq!(
        waits["data"]["event"]["stop_reason"],
        json!({ "type": "requires_action", "event_ids": ["toolu_01ring"] })
    );

    session.allow("toolu_01ring", json!({})).await;
    session.settled(&run).await;
    let told = receiver.told(3).await;
    for told in &told {
        webhook.check(told);
    }
    let mut told: Vec<Value> = told.iter().map(Told::json).collect();
    // They may come in any order: their numbers tell the right one.
    told.sort_by_key(|told| told["data"]["seq"].as_i64());
    let kinds: Vec<&str> = told.iter().map(|told| told["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run.requires_action", "approval.decided", "run.completed"]);
    assert_eq!(told[1]["data"]["event"]["tool_use_id"], "toolu_01ring");
    assert_eq!(told[1]["data"]["event"]["result"], "allow");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_and_cancelled_runs_are_told_as_such() {
    let error = json!({ "type": "invalid_request_error", "message": "no" });
    let mut script = hangs_first();
    script["conversations"][1]["replies"] = json!([{ "status": 400, "error": error }]);
    let app = TestApp::start_with(script, telling()).await;
    let receiver = Receiver::start(&[]).await;
    let _webhook = Webhook::create(&app, &receiver, &["run.failed", "run.cancelled"]).await;
    let session = app.session().await;
    assert_eq!(session.ask("Fail").await["status"], "failed");
    assert_eq!(receiver.told(1).await[0].kind(), "run.failed");
    let run = session.post(json!({ "content": "hang" })).await;
    session.reached(&run, "span.model_request_start").await;
    session.cancel(&run).await;
    assert_eq!(receiver.told(2).await[1].kind(), "run.cancelled");
    app.stop_unchecked().await;
}
