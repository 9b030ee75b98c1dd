//! Decisions that must not have their way, as a list; and some that must, so that a service that
//! refuses everything fails.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::support::{BELL, Session, TestApp, asks, calls_as, replies, says};

const CASES: &str = include_str!("../../fixtures/approval_attacks.json");

fn script() -> Value {
    replies(&[
        calls_as(&[
            ("toolu_0", "get_time", json!({})),
            ("toolu_1", "ring", json!({ "line": "a" })),
        ]),
        says("Done."),
    ])
}

/// The body of a post, with its short hands written out.
fn body(given: &Value) -> String {
    if let Some(raw) = given.as_str().and_then(|text| text.strip_prefix("RAW:")) {
        let deep = format!("{}1{}", "[".repeat(70), "]".repeat(70));
        return raw.replace("DEEP", &deep);
    }
    let mut given = given.clone();
    if let Some(length) = given["message"].as_str().and_then(|text| text.strip_prefix("LONG:")) {
        given["message"] = json!("x".repeat(length.parse().unwrap()));
    }
    given.to_string()
}

/// Where a case posts to.
async fn path(app: &TestApp, session: &Session<'_>, at: &str) -> String {
    match at {
        "other_session" => app.session().await.path("/approvals/toolu_1"),
        "no_session" => "/v1/sessions/ses_0/approvals/toolu_1".to_owned(),
        "tool_results" => session.path("/tool_results"),
        "other_tenant" => {
            give(app, session, "other").await;
            session.path("/approvals/toolu_1")
        }
        call => session.path(&format!("/approvals/{call}")),
    }
}

/// Gives a session to a tenant.
async fn give(app: &TestApp, session: &Session<'_>, tenant: &str) {
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    let new =
        "INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), $1) ON CONFLICT DO NOTHING";
    sqlx::query(new).bind(tenant).execute(&mut *conn).await.unwrap();
    // The keys between the tables are not looked at meanwhile.
    sqlx::query("SET session_replication_role = replica").execute(&mut *conn).await.unwrap();
    for statement in [
        "UPDATE sessions SET tenant_id = t.id FROM tenants t WHERE t.name = $1 AND sessions.id = $2",
        "UPDATE runs SET tenant_id = t.id FROM tenants t WHERE t.name = $1 AND session_id = $2",
        "UPDATE messages SET tenant_id = t.id FROM tenants t WHERE t.name = $1 AND session_id = $2",
        "UPDATE tool_calls SET tenant_id = t.id FROM tenants t WHERE t.name = $1 AND session_id = $2",
        "UPDATE events SET tenant_id = t.id FROM tenants t WHERE t.name = $1 AND session_id = $2",
    ] {
        let query = sqlx::query(statement).bind(tenant).bind(session.uuid());
        query.execute(&mut *conn).await.unwrap();
    }
}

fn post(app: &TestApp, path: &str, given: &Value) -> RequestBuilder {
    app.post(path).header("content-type", "application/json").body(body(given))
}

/// Sends the posts of a case. Whether the call was decided on.
async fn play(app: &TestApp, path: &str, case: &Value) -> bool {
    let name = &case["name"];
    let mut is_decided = false;
    for step in case["posts"].as_array().unwrap() {
        let response = post(app, path, &step[0]).send().await.unwrap();
        let status = response.status().as_u16();
        let is_repeated = response.headers().contains_key("idempotency-replayed");
        let answer: Value = response.json().await.unwrap();
        match step[1].as_u64() {
            Some(expected) => assert_eq!(u64::from(status), expected, "{name}: {answer}"),
            None => assert!(is_repeated && status < 300, "{name}: {answer}"),
        }
        if let Some(pointer) = step[2].as_str() {
            assert_eq!(answer["errors"][0]["pointer"], pointer, "{name}: {answer}");
        }
        is_decided |= status < 300;
    }
    is_decided
}

#[tokio::test(flavor = "multi_thread")]
async fn no_decision_gets_further_than_it_may() {
    let list: Value = serde_json::from_str(CASES).unwrap();
    let cases = list["cases"].as_array().unwrap();
    let app = TestApp::start_with(script(), asks()).await;
    for case in cases {
        let name = &case["name"];
        let session = app.session().await;
        let run = session.ask(&format!("Ring: {name}")).await;
        let events = session.events().await;
        let at = case["at"].as_str().unwrap_or("toolu_1");
        let path = path(&app, &session, at).await;
        if play(&app, &path, case).await {
            session.settled(&run).await;
        } else {
            // Nothing has changed, and a decision as it should be still counts.
            give(&app, &session, "default").await;
            assert_eq!(session.events().await, events, "{name}");
            session.deny("toolu_1", "No.").await;
            session.settled(&run).await;
        }
        let rung = std::fs::read_to_string(app.folder.path().join(BELL)).unwrap_or_default();
        let rung: Vec<&str> = rung.lines().collect();
        let expected = case["rung"].as_array().cloned().unwrap_or_default();
        assert_eq!(json!(rung), json!(expected), "{name}");
        let _ = std::fs::remove_file(app.folder.path().join(BELL));
    }
}
