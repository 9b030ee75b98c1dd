//! Quotas of tenants: requests that would exceed one are refused, and runs go on.

use std::time::Duration;

use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use twostep::domain::api_key::Scope;
use twostep::domain::quota::{QuotaLimits, QuotaResource};

use crate::support::{
    Session, Setup, TestApp, binary, calls, calls_as, keys_needed, outcome, problem, replies, says,
};

pub(super) fn limited(resource: QuotaResource, limit: i64) -> Setup {
    let mut quotas = QuotaLimits::default();
    quotas.set(resource, Some(limit));
    Setup { quotas, own_folders: true, ..Setup::default() }
}

async fn create(app: &TestApp) -> Response {
    app.post("/v1/sessions").json(&json!({})).send().await.unwrap()
}

pub(super) async fn fork(session: &Session<'_>, body: Value) -> Response {
    session.app.post(&session.path("/forks")).json(&body).send().await.unwrap()
}

async fn delete(session: &Session<'_>) {
    let url = session.app.url(&session.path(""));
    assert_eq!(session.app.client.delete(url).send().await.unwrap().status(), 204);
}

/// Checks the refusal of a request, and returns the quota that it names.
pub(super) async fn refused(response: Response, status: u16) -> Value {
    assert_eq!(response.headers()["x-should-retry"], "false");
    let code = if status == 507 { "storage_quota_exceeded" } else { "quota_exceeded" };
    let problem = problem(response, status, code).await;
    assert!(problem["detail"].as_str().unwrap().starts_with("the quota for "), "{problem}");
    problem["quota"].clone()
}

/// The use and the limit of a resource.
pub(super) async fn usage(app: &TestApp, resource: &str) -> Value {
    let usage: Value = app.get("/v1/usage").send().await.unwrap().json().await.unwrap();
    let quotas = usage["quotas"].as_array().unwrap();
    let quota = quotas.iter().find(|quota| quota["resource"] == resource).unwrap();
    json!([quota["used"], quota["limit"]])
}

/// A text that cannot be compressed much.
pub(super) fn noise(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + u8::try_from(state % 90).unwrap())
    };
    // A quote or a backslash would be escaped.
    (0..bytes).map(letter).map(|c| if matches!(c, '"' | '\\') { 'x' } else { c }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_at_its_quota_of_sessions_gets_no_more_until_it_deletes_one() {
    let setup = limited(QuotaResource::Sessions, 2);
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let (first, second) = (app.session().await, app.session().await);
    let quota = json!({ "resource": "sessions", "used": 2, "needed": 1, "limit": 2 });
    assert_eq!(refused(create(&app).await, 429).await, quota);
    assert_eq!(refused(fork(&first, json!({})).await, 429).await, quota);
    first.ask("Hello").await;
    let export = app.get(&first.path("/export")).send().await.unwrap().text().await.unwrap();
    let import = async || {
        let request = app.post("/v1/sessions/import");
        request.header("content-type", "application/jsonl").body(export.clone()).send().await
    };
    assert_eq!(refused(import().await.unwrap(), 429).await, quota);
    assert_eq!(usage(&app, "sessions").await, json!([2, 2]));
    assert_eq!(usage(&app, "webhooks").await, json!([0, null]));
    delete(&second).await;
    assert_eq!(import().await.unwrap().status(), 201);
    assert_eq!(usage(&app, "sessions").await, json!([2, 2]));
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_do_not_exceed_a_quota_together() {
    let setup = limited(QuotaResource::Sessions, 5);
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let source = app.session().await;
    let requests = (0..20).map(|n| {
        let (app, source) = (&app, &source);
        async move {
            let response =
                if n % 2 == 0 { create(app).await } else { fork(source, json!({})).await };
            response.status().as_u16()
        }
    });
    let mut statuses = futures::future::join_all(requests).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![201; 4], vec![429; 16]].concat());
    assert_eq!(usage(&app, "sessions").await, json!([5, 5]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_returns_its_session_although_the_quota_is_used_up() {
    let setup = limited(QuotaResource::Sessions, 2);
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let source = app.session().await;
    let send = |path: String| app.post(&path).header("idempotency-key", "k").json(&json!({}));
    // The requests are concurrent, so one of them waits for the other.
    let forks = source.path("/forks");
    let (one, other) = tokio::join!(send(forks.clone()).send(), send(forks.clone()).send());
    let ids = async |response: Response| -> Value {
        assert!(response.status().is_success());
        response.json::<Value>().await.unwrap()["id"].clone()
    };
    assert_eq!(ids(one.unwrap()).await, ids(other.unwrap()).await);
    assert!(send(forks).send().await.unwrap().status().is_success());
    refused(send("/v1/sessions".to_owned()).send().await.unwrap(), 429).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_and_imports_over_the_quota_of_stored_bytes_are_refused_before_they_are_written() {
    let setup = limited(QuotaResource::StoredBytes, 300_000);
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    session.ask(&noise(120_000)).await;
    let message = json!({ "content": noise(140_000) });
    let quota = refused(session.message(&message).send().await.unwrap(), 507).await;
    assert_eq!((&quota["resource"], &quota["limit"]), (&json!("stored_bytes"), &json!(300_000)));
    assert!(quota["needed"].as_i64().unwrap() >= 280_000, "{quota}");
    assert_eq!(session.history().await.len(), 2);

    let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
    let import = app.post("/v1/sessions/import").header("content-type", "application/jsonl");
    refused(import.body(export).send().await.unwrap(), 507).await;
    let used = usage(&app, "stored_bytes").await;
    // The message and its event.
    assert!((150_000..300_000).contains(&used[0].as_i64().unwrap()), "{used}");

    // A fork shares the history and stores none of it.
    let branch = fork(&session, json!({})).await;
    assert_eq!(branch.status(), 201);
    let more = usage(&app, "stored_bytes").await[0].as_i64().unwrap();
    assert!(more - used[0].as_i64().unwrap() < 10_000, "{used} {more}");

    let branch: Value = branch.json().await.unwrap();
    delete(&app.existing_session(branch["id"].as_str().unwrap())).await;
    delete(&session).await;
    let next = app.session().await;
    let deadline = Instant::now() + Duration::from_mins(1);
    while !next.message(&message).send().await.unwrap().status().is_success() {
        assert!(Instant::now() < deadline, "the deletion did not free the quota");
        sleep(Duration::from_millis(100)).await;
    }
    app.has_settled("completed", 2).await;
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_write_files_over_the_quota_fail_and_the_run_goes_on() {
    let write = |id: &str, path: &str, size: usize| {
        calls_as(&[(id, "write_file", json!({ "path": path, "content": "x".repeat(size) }))])
    };
    let script = json!({ "conversations": [
        { "when": "first", "replies": [write("toolu_1", "a", 700), says("Written.")] },
        { "when": "second", "replies": [
            write("toolu_2", "b", 400), write("toolu_3", "c", 200), says("One of two."),
        ] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, limited(QuotaResource::WorkspaceBytes, 1000)).await;
    let (first, second) = (app.session().await, app.session().await);
    first.ask("first").await;
    assert_eq!(usage(&app, "workspace_bytes").await, json!([700, 1000]));
    let run = second.ask("second").await;
    assert_eq!(run["status"], "completed");
    let states = run["tool_log"].as_array().unwrap().iter().map(|call| call["state"].clone());
    assert_eq!(states.collect::<Vec<_>>(), ["failed", "done"]);
    let text = second.history().await[2]["message"]["content"][0]["content"].clone();
    let expected =
        "would be exceeded: limit 1000, in use 700, needed 400; to delete the contents of";
    assert!(text.as_str().unwrap().contains(expected), "{text}");
    assert_eq!(usage(&app, "workspace_bytes").await, json!([900, 1000]));

    let quota = refused(fork(&first, json!({})).await, 507).await;
    assert_eq!((&quota["resource"], &quota["needed"]), (&json!("workspace_bytes"), &json!(700)));
    assert_eq!(fork(&first, json!({ "files": false })).await.status(), 201);
    delete(&second).await;
    // The fork without files depends on the history of its source only.
    assert_eq!(usage(&app, "workspace_bytes").await, json!([700, 1000]));
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agents_count_as_sessions_and_those_over_the_quota_fail() {
    let task = |prompt: &str| json!({ "description": "About birds", "prompt": prompt });
    let both = calls_as(&[("toolu_1", "Task", task("ducks")), ("toolu_2", "Task", task("geese"))]);
    let script = json!({ "conversations": [
        { "when": "all birds", "replies": [both, says("Three.")] },
        { "when": "ducks", "replies": [says("Three ducks.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, limited(QuotaResource::Sessions, 2)).await;
    let session = app.session_with(json!({ "tools": ["Task"] })).await;
    let run = session.ask("all birds").await;
    assert_eq!(run["output_text"], "Three.");
    let results = session.history().await[2]["message"]["content"].clone();
    assert!(results[0]["content"].as_str().unwrap().contains("Three ducks."), "{results}");
    let text = results[1]["content"].as_str().unwrap();
    assert!(
        text.contains("the quota for sessions would be exceeded: limit 2, in use 2, needed 1"),
        "{text}"
    );
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_versions_and_webhooks_have_quotas() {
    let mut quotas = QuotaLimits::default();
    quotas.set(QuotaResource::AgentVersions, Some(2));
    quotas.set(QuotaResource::Webhooks, Some(1));
    let setup = Setup {
        quotas,
        webhook_hosts: twostep::outbound::AllowedHosts::parse(["example.com"].into_iter()).unwrap(),
        ..Setup::default()
    };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let put = async |name: &str, system: &str| {
        let url = app.url(&format!("/v1/agents/{name}"));
        app.client.put(url).json(&json!({ "system": system })).send().await.unwrap()
    };
    assert_eq!(put("one", "a").await.status(), 201);
    assert_eq!(put("one", "b").await.status(), 200);
    // An equal profile makes no new version.
    assert_eq!(put("one", "b").await.status(), 200);
    let quota = refused(put("two", "a").await, 429).await;
    assert_eq!(quota, json!({ "resource": "agent_versions", "used": 2, "needed": 1, "limit": 2 }));
    let hook = async || {
        let body = json!({ "url": "https://example.com/hook", "events": ["run.completed"] });
        app.post("/v1/webhooks").json(&body).send().await.unwrap()
    };
    assert_eq!(hook().await.status(), 201);
    let quota = refused(hook().await, 429).await;
    assert_eq!(quota, json!({ "resource": "webhooks", "used": 1, "needed": 1, "limit": 1 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sets_the_quotas_of_one_tenant_while_the_service_runs() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), keys_needed()).await;
    let acme = app.database.tenant("acme").await;
    let key = app.database.key(acme, Scope::Write).await.reveal();
    let quota = async |args: &[&str]| {
        let mut command = binary(&[&["quota", "--tenant", "acme"], args].concat());
        let url = sqlx::ConnectOptions::to_url_lossy(&app.database.options());
        command.env("DATABASE_URL", url.as_str());
        let (status, stdout, stderr) = outcome(command).await;
        assert_eq!(status, Some(0), "{stderr}");
        stdout
    };
    let create = async || {
        let request = app.client.post(app.url("/v1/sessions")).header("x-api-key", &key);
        request.json(&json!({})).send().await.unwrap()
    };
    assert_eq!(create().await.status(), 201);
    let list = quota(&["set", "sessions", "1"]).await;
    assert!(list.contains("sessions: 1 used, quota 1\n"), "{list}");
    assert!(list.contains("webhooks: 0 used, default of the service\n"), "{list}");
    let deadline = Instant::now() + Duration::from_mins(1);
    let refusal = loop {
        let response = create().await;
        if response.status() != 201 {
            break response;
        }
        assert!(Instant::now() < deadline, "the quota does not apply");
        sleep(Duration::from_millis(100)).await;
    };
    problem(refusal, 429, "quota_exceeded").await;
    let mut command = binary(&["quota", "--tenant", "acme", "set", "webhooks", "21"]);
    let url = sqlx::ConnectOptions::to_url_lossy(&app.database.options());
    command.env("DATABASE_URL", url.as_str());
    let (status, _, stderr) = outcome(command).await;
    assert_ne!(status, Some(0));
    assert!(stderr.contains("over the fixed limit of 20"), "{stderr}");
    // Another tenant has no quota.
    app.session().await;
    let list = quota(&["set", "sessions", "none"]).await;
    assert!(list.contains(" used, no limit\n"), "{list}");
    let list = quota(&["remove", "sessions"]).await;
    assert!(list.contains(" used, default of the service\n"), "{list}");
    while create().await.status() != 201 {
        assert!(Instant::now() < deadline, "the quota still applies");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_of_idle_sessions_are_measured_after_a_quota_is_set() {
    let write = calls("write_file", json!({ "path": "a", "content": "x".repeat(700) }));
    let own_folders = Setup { own_folders: true, ..Setup::default() };
    let app = TestApp::start_with(replies(&[write, says("Written.")]), own_folders).await;
    app.session().await.ask("Write").await;
    assert_eq!(usage(&app, "workspace_bytes").await, json!([null, null]));
    let script = replies(&[says("Hello.")]);
    let app = app.restarted_with(script, limited(QuotaResource::WorkspaceBytes, 1000)).await;
    let deadline = Instant::now() + Duration::from_mins(1);
    while usage(&app, "workspace_bytes").await != json!([700, 1000]) {
        assert!(Instant::now() < deadline, "the folder was not measured");
        sleep(Duration::from_millis(50)).await;
    }
}
