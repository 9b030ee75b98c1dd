//! Times in responses: one form everywhere.

use serde_json::{Value, json};
use twostep::outbound::AllowedHosts;

use crate::support::{Setup, TestApp, asks, calls_as, replies, says};

/// Collects the texts that look like times.
fn times(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let bytes = text.as_bytes();
            let is_time = bytes.len() > 16
                && bytes[..4].iter().all(u8::is_ascii_digit)
                && (bytes[4], bytes[7], bytes[10], bytes[13]) == (b'-', b'-', b'T', b':');
            if is_time {
                found.push(text.clone());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| times(item, found)),
        Value::Object(members) => members.values().for_each(|member| times(member, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_times_have_microseconds() {
    let call = calls_as(&[("toolu_1", "ring", json!({ "line": "a" }))]);
    let webhook_hosts = AllowedHosts::parse(["127.0.0.1"]).unwrap();
    let setup = Setup { webhook_hosts, ..asks() };
    let app = TestApp::start_with(replies(&[call, says("Rang.")]), setup).await;
    // Nothing listens there: the deliveries stay.
    let hook = json!({ "url": "http://127.0.0.1:9/", "events": ["run.completed"] });
    let hook: Value =
        app.post("/v1/webhooks").json(&hook).send().await.unwrap().json().await.unwrap();
    let hook = hook["id"].as_str().unwrap();
    app.post(&format!("/v1/webhooks/{hook}/test")).send().await.unwrap();
    let session = app.session().await;
    let run = session.ask("Ring").await;
    let run_path = session.path(&format!("/runs/{}", run["id"].as_str().unwrap()));
    let paths = [
        session.path(""),
        session.path("/approvals"),
        session.path("/events"),
        session.path("/messages"),
        format!("{run_path}/explain"),
        format!("{run_path}/requests"),
        format!("{run_path}/requests/1"),
        run_path.clone(),
        "/v1/sessions".to_owned(),
        format!("/v1/webhooks/{hook}"),
        format!("/v1/webhooks/{hook}/deliveries"),
    ];
    let mut found = Vec::new();
    for path in &paths {
        let value: Value = app.get(path).send().await.unwrap().json().await.unwrap();
        let before = found.len();
        times(&value, &mut found);
        assert!(found.len() > before, "{path} has no times: {value}");
    }
    session.allow("toolu_1", json!({})).await;
    session.settled(&run).await;
    let export = app.get(&session.path("/export?format=jsonl")).send().await.unwrap();
    for line in export.text().await.unwrap().lines() {
        times(&serde_json::from_str(line).unwrap(), &mut found);
    }
    let ticket = app.post(&session.path("/tickets")).send().await.unwrap();
    times(&ticket.json().await.unwrap(), &mut found);
    for time in found {
        let decimals = time.strip_suffix('Z').and_then(|time| time.split_once('.'));
        let count = decimals.map(|(_, decimals)| decimals.len());
        assert_eq!(count, Some(6), "{time}");
    }
    // The body of a delivery is made by the database.
    let bodies: Vec<String> = sqlx::query_scalar("SELECT body::text FROM webhook_deliveries")
        .fetch_all(&app.database.pool(1))
        .await
        .unwrap();
    assert!(bodies.len() >= 2);
    for body in bodies {
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["timestamp"].as_str().unwrap().len(), "2026-11-22T14:00:00.000000Z".len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_of_a_response_is_an_exact_filter() {
    let app = TestApp::start(json!({})).await;
    let first = app.session().await.read().await;
    let second = app.session().await;
    let time = first["created_at"].as_str().unwrap();
    let path = format!("/v1/sessions?created_after={time}");
    let page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    let ids: Vec<&Value> = page["data"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, [second.id.as_str()]);
}
