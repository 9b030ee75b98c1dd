//! Attacks with decisions, from a list. Some decisions of the list are valid, so that a service
//! that refuses everything fails.

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

/// The body of a POST. Expands the abbreviations of the list.
fn body(posted: &Value) -> String {
    if let Some(raw) = posted.as_str().and_then(|text| text.strip_prefix("RAW:")) {
        let deep = format!("{}1{}", "[".repeat(70), "]".repeat(70));
        return raw.replace("DEEP", &deep);
    }
    let mut posted = posted.clone();
    if let Some(length) = posted["message"].as_str().and_then(|text| text.strip_prefix("LONG:")) {
        posted["message"] = json!("x".repeat(length.parse().unwrap()));
    }
    posted.to_string()
}

/// The path that a case posts to.
async fn path(app: &TestApp, session: &Session<'_>, target: &str) -> String {
    match target {
        "other_session" => app.session().await.path("/approvals/toolu_1"),
        "no_session" => "/v1/sessions/ses_0/approvals/toolu_1".to_owned(),
        "tool_results" => session.path("/tool_results"),
        "other_tenant" => {
            move_to_tenant(app, session, "other").await;
            session.path("/approvals/toolu_1")
        }
        call => session.path(&format!("/approvals/{call}")),
    }
}

/// Moves a session and its rows to a tenant.
async fn move_to_tenant(app: &TestApp, session: &Session<'_>, tenant: &str) {
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    let insert =
        "INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), $1) ON CONFLICT DO NOTHING";
    sqlx::query(insert).bind(tenant).execute(&mut *conn).await.unwrap();
    // Disables the checks of foreign keys while the rows change.
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

fn post(app: &TestApp, path: &str, posted: &Value) -> RequestBuilder {
    app.post(path).header("content-type", "application/json").body(body(posted))
}

/// Sends the POST requests of a case. Returns whether one of the decisions was accepted.
async fn send_posts(app: &TestApp, path: &str, case: &Value) -> bool {
    let name = &case["name"];
    let mut is_decided = false;
    for step in case["posts"].as_array().unwrap() {
        let response = post(app, path, &step[0]).send().await.unwrap();
        let status = response.status().as_u16();
        let is_repeated = response.headers().contains_key("idempotency-replayed");
        let reply: Value = response.json().await.unwrap();
        match step[1].as_u64() {
            Some(expected) => assert_eq!(u64::from(status), expected, "{name}: {reply}"),
            None => assert!(is_repeated && status < 300, "{name}: {reply}"),
        }
        if let Some(pointer) = step[2].as_str() {
            assert_eq!(reply["errors"][0]["pointer"], pointer, "{name}: {reply}");
        }
        is_decided |= status < 300;
    }
    is_decided
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_decisions_have_no_effect() {
    let list: Value = serde_json::from_str(CASES).unwrap();
    let cases = list["cases"].as_array().unwrap();
    let app = TestApp::start_with(script(), asks()).await;
    for case in cases {
        let name = &case["name"];
        let session = app.session().await;
        let run = session.ask(&format!("Ring: {name}")).await;
        let events = session.events().await;
        let target = case["at"].as_str().unwrap_or("toolu_1");
        let path = path(&app, &session, target).await;
        if send_posts(&app, &path, case).await {
            session.settled(&run).await;
        } else {
            // Nothing has changed, and a valid decision is still accepted.
            move_to_tenant(&app, &session, "default").await;
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
