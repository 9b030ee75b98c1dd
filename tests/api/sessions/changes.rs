//! Changing a session: merge patches, their events and their limits.

use futures::future::join_all;
use reqwest::Response;
use serde_json::{Value, json};
use twostep::tools::policy::OperatorPolicy;

use crate::support::{Session, Setup, TestApp, calls, problem, replies, says};

async fn start() -> TestApp {
    TestApp::start(replies(&[says("Yes.")])).await
}

async fn patch(session: &Session<'_>, body: &Value) -> Response {
    let request = session.app.client.patch(session.app.url(&session.path("")));
    request.json(body).send().await.unwrap()
}

async fn patched(session: &Session<'_>, body: &Value) -> Value {
    let response = patch(session, body).await;
    assert_eq!(response.status(), 200, "{body}");
    let tag = response.headers()["etag"].clone();
    let session: Value = response.json().await.unwrap();
    assert_eq!(tag, format!("\"v{}\"", session["last_seq"]), "{body}");
    session
}

async fn read(session: &Session<'_>) -> Value {
    session.app.get(&session.path("")).send().await.unwrap().json().await.unwrap()
}

/// The event without the members that differ each time.
fn without_id_and_time(mut event: Value) -> Value {
    for member in ["id", "created_at"] {
        assert!(event.as_object_mut().unwrap().shift_remove(member).is_some(), "{event}");
    }
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_changes_the_members_that_it_names_and_readers_get_an_event() {
    let app = start().await;
    let metadata = json!({ "team": "x", "tags": { "a": 1, "b": 2 }, "n": 1.5 });
    let session = app.session_with(json!({ "title": "Old", "metadata": metadata })).await;
    let mut stream = session.open(&session.path("/events/stream"), None).await;
    let before = read(&session).await;

    let change = json!({ "title": "New", "metadata": { "tags": { "a": null, "c": [3] }, "z": 0 } });
    let after = patched(&session, &change).await;
    let metadata = json!({ "team": "x", "tags": { "b": 2, "c": [3] }, "n": 1.5, "z": 0 });
    let mut expected = before;
    expected["title"] = json!("New");
    expected["metadata"] = metadata.clone();
    expected["last_seq"] = json!(1);
    expected["updated_at"] = after["updated_at"].clone();
    assert_eq!(after, expected);
    assert_eq!(read(&session).await, expected);
    let event = json!({ "type": "session.updated", "seq": 1, "session_id": session.id,
                        "title": "New", "metadata": metadata });
    assert_eq!(without_id_and_time(stream.until("session.updated").await.data), event);

    let after = patched(&session, &json!({ "title": null, "metadata": null })).await;
    assert_eq!((&after["title"], &after["metadata"]), (&Value::Null, &json!({})));
    let event = json!({ "type": "session.updated", "seq": 2, "session_id": session.id,
                        "title": null, "metadata": {} });
    assert_eq!(without_id_and_time(stream.until("session.updated").await.data), event);
    session.ask("Are you there?").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_that_changes_nothing_writes_no_event() {
    let app = start().await;
    let session = app.session_with(json!({ "title": "A", "metadata": { "a": 1 } })).await;
    let before = read(&session).await;
    for unchanged in [
        json!({}),
        json!({ "title": "A" }),
        json!({ "metadata": {} }),
        json!({ "metadata": { "a": 1, "b": null } }),
    ] {
        assert_eq!(patched(&session, &unchanged).await, before, "{unchanged}");
    }
    assert_eq!(session.events().await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn pinned_settings_cannot_be_changed() {
    let app = start().await;
    let session = app.session().await;
    let document = serde_json::to_value(twostep::http::document()).unwrap();
    let properties = |name: &str| {
        let schema = document["components"]["schemas"][name]["properties"].as_object().unwrap();
        schema.keys().cloned().collect::<Vec<String>>()
    };
    let changeable = properties("UpdateSession");
    let mut pinned = properties("CreateSession");
    pinned.retain(|name| !changeable.contains(name));
    assert_eq!((changeable.len(), pinned.len()), (7, 28));
    for member in pinned {
        let refused = patch(&session, &json!({ "title": "New", member.clone(): null })).await;
        let refused = problem(refused, 422, "validation_failed").await;
        let message = "is pinned when the session is created, and cannot be changed";
        let expected = json!([{ "pointer": format!("/{member}"), "message": message }]);
        assert_eq!(refused["errors"], expected);
    }
    assert_eq!(session.events().await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_patch_is_refused() {
    let setup = Setup { permissions: Some(OperatorPolicy::default()), ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup).await;
    let session = app.session_with(json!({ "metadata": { "a": "x".repeat(10_000) } })).await;
    let deep = (0..70).fold(json!(1), |inner, _| json!({ "a": inner }));
    for (body, pointer) in [
        (json!({ "colour": "red" }), "/colour"),
        (json!({ "title": 1 }), "/title"),
        (json!({ "title": "x".repeat(501) }), "/title"),
        (json!({ "title": "a\0b" }), "/title"),
        (json!({ "metadata": [] }), "/metadata"),
        (json!({ "metadata": deep }), "/metadata"),
        (json!({ "metadata": { "b": "x".repeat(10_000) } }), "/metadata"),
        (json!({ "metadata": { "a": "x".repeat(40_000) } }), "/metadata"),
        (json!({ "permission_mode": null }), "/permission_mode"),
        (json!({ "permission_mode": "wild" }), "/permission_mode"),
        (json!({ "permission_mode": "bypass" }), "/permission_mode"),
        (json!([]), ""),
    ] {
        let refused = problem(patch(&session, &body).await, 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{body:.80}");
    }
    let url = app.url(&session.path(""));
    let request = app.client.patch(&url).header("content-type", "text/plain").body("{}");
    problem(request.send().await.unwrap(), 415, "unsupported_media_type").await;
    let kind = "application/merge-patch+json";
    let request = app.client.patch(&url).header("content-type", kind).body("{\"title\":\"New\"}");
    assert_eq!(request.send().await.unwrap().status(), 200);
    let missing = Session { app: &app, id: "ses_00000000000070008000000000000000".to_owned() };
    problem(patch(&missing, &json!({})).await, 404, "session_not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_changes_with_a_version_one_succeeds_and_without_a_version_all_succeed() {
    let app = start().await;
    let session = app.session().await;
    let url = app.url(&session.path(""));
    let changes = (0..8).map(|number| {
        let body = json!({ "metadata": { format!("k{number}"): number } });
        app.client.patch(&url).header("if-match", "\"v0\"").json(&body).send()
    });
    let mut statuses: Vec<u16> = join_all(changes)
        .await
        .into_iter()
        .map(|response| response.unwrap().status().as_u16())
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412, 412, 412, 412, 412, 412]);
    // Without a condition, all changes are made in sequence.
    let changes = (0..8).map(|number| {
        let body = json!({ "metadata": { format!("k{number}"): number } });
        let session = &session;
        async move { patched(session, &body).await }
    });
    join_all(changes).await;
    let all: serde_json::Map<String, Value> =
        (0..8).map(|number| (format!("k{number}"), json!(number))).collect();
    assert_eq!(read(&session).await["metadata"], Value::Object(all));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_permission_mode_applies_to_the_next_step_of_an_active_run() {
    let mut write = calls("write_file", json!({ "path": "a.txt", "content": "new" }));
    // The mode changes while the reply streams.
    write["pace_ms"] = 200.into();
    let app = TestApp::start(replies(&[write, says("Done.")])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Write it." })).await;
    session.reached(&run, "span.model_request_start").await;
    let after = patched(&session, &json!({ "permission_mode": "plan" })).await;
    assert_eq!(after["permission_mode"], "plan");
    session.settled(&run).await;
    let events = session.events().await;
    let result = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
    assert_eq!(result["is_error"], true, "{result}");
    assert!(!app.folder.path().join("a.txt").exists());
    assert_eq!(read(&session).await["permission_mode"], "plan");
}
