//! Agents of a tenant: versions, limits, the list, and isolation of tenants.

use reqwest::StatusCode;
use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;
use twostep::tools::policy::OperatorPolicy;

use super::{agent, at_agent, get, put, refused};
use crate::support::{Setup, TestApp, client_with, keys_needed, problem, replies, says};

async fn start() -> TestApp {
    TestApp::start(replies(&[says("Yes.")])).await
}

/// The names of a page of the list.
fn names(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_a_profile_creates_a_version() {
    let app = start().await;
    let first = json!({ "description": "Finds things.", "system": "Find.", "tools": ["Grep"] });
    let response = app.put("librarian", &first).send().await.unwrap();
    assert_eq!(
        (response.status(), &response.headers()["etag"]),
        (StatusCode::CREATED, &"\"v1\"".parse().unwrap())
    );
    let created: Value = response.json().await.unwrap();
    let expected = json!({
        "type": "agent", "name": "librarian", "version": 1, "source": "tenant",
        "description": "Finds things.", "profile": first, "created_at": created["created_at"],
    });
    assert_eq!(created, expected);
    assert_eq!(agent(&app, "/librarian").await, expected);

    // An equal profile in another order and spelling creates no version.
    let same = r#"{ "tools": ["Grep"], "system": "Find.", "model": null, "description": "Finds things." }"#;
    let response = app.client.put(app.url("/agents/librarian")).body(same);
    let response = response.header("content-type", "application/json").send().await.unwrap();
    assert_eq!(
        (response.status(), &response.headers()["etag"]),
        (StatusCode::OK, &"\"v1\"".parse().unwrap())
    );
    assert_eq!(response.json::<Value>().await.unwrap(), expected);

    assert_eq!(put(&app, "librarian", json!({ "system": "Find more." })).await, 2);
    assert_eq!(
        put(&app, "librarian", first.clone()).await,
        3,
        "a return to an earlier profile creates a version"
    );
    assert_eq!(agent(&app, "/librarian?version=1").await, expected);
    let second = agent(&app, "/librarian?version=2").await;
    assert_eq!(
        (&second["profile"], second.get("description")),
        (&json!({ "system": "Find more." }), None)
    );
    assert_eq!(agent(&app, "/librarian").await["version"], 3);
    for (path, agent) in [
        ("/librarian?version=4", "librarian@4"),
        ("/librarian?version=0", "librarian@0"),
        ("/painter", "painter"),
        ("/Painter", "Painter"),
        ("/coder?version=2", "coder@2"),
    ] {
        let problem = problem(get(&app, path).await, 404, "agent_not_found").await;
        assert_eq!(problem["detail"], format!("there is no agent {agent}"), "{path}");
    }
    problem(get(&app, "/librarian?version=x").await, 400, "invalid_query").await;
    problem(get(&app, "/librarian?versoin=1").await, 400, "invalid_query").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conditional_requests_prevent_lost_updates() {
    let app = start().await;
    let put_if = async |header: &'static str, tags: &str, system: &str| {
        let request = app.put("librarian", &json!({ "system": system })).header(header, tags);
        request.send().await.unwrap()
    };
    problem(put_if("if-match", "\"v1\"", "a").await, 412, "version_mismatch").await;
    assert_eq!(put_if("if-none-match", "*", "a").await.status(), 201);
    problem(put_if("if-none-match", "*", "b").await, 412, "version_mismatch").await;
    assert_eq!(put_if("if-match", "\"v1\"", "b").await.status(), 200);
    problem(put_if("if-match", "\"v1\"", "c").await, 412, "version_mismatch").await;
    // A stale precondition also fails if the profile is equal to the current one.
    problem(put_if("if-match", "\"v1\"", "b").await, 412, "version_mismatch").await;
    assert_eq!(put_if("if-match", "\"v1\", \"v2\"", "c").await.headers()["etag"], "\"v3\"");
    assert_eq!(put_if("if-match", "*", "d").await.headers()["etag"], "\"v4\"");
    let request = app.get("/agents/librarian").header("if-none-match", "\"v4\"");
    let response = request.send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["etag"]),
        (304, &"\"v4\"".parse().unwrap())
    );
    let request = app.get("/agents/librarian").header("if-none-match", "\"v3\"");
    assert_eq!(request.send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_create_one_version_each() {
    let app = start().await;
    let puts = (0..20).map(|number| put(&app, "busy", json!({ "system": number.to_string() })));
    let mut versions = futures::future::join_all(puts).await;
    versions.sort_unstable();
    assert_eq!(versions, (1..=20).collect::<Vec<i64>>());

    // Of concurrent changes with the same precondition, exactly one succeeds.
    let puts = (0..20).map(|number| {
        let profile = json!({ "description": number.to_string() });
        app.put("busy", &profile).header("if-match", "\"v20\"").send()
    });
    let responses = futures::future::join_all(puts).await;
    let statuses = responses.into_iter().map(|response| response.unwrap().status().as_u16());
    let (accepted, refused): (Vec<u16>, Vec<u16>) = statuses.partition(|status| *status == 200);
    assert_eq!((accepted.len(), refused), (1, vec![412; 19]));
    assert_eq!(agent(&app, "/busy").await["version"], 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_an_agent_deletes_its_versions_and_keeps_its_sessions() {
    let app = start().await;
    for system in ["One.", "Two."] {
        put(&app, "librarian", json!({ "system": system })).await;
    }
    let session = app.session_with(json!({ "agent": "librarian@1" })).await;
    let stale = app.client.delete(app.url("/v1/agents/librarian")).header("if-match", "\"v1\"");
    problem(stale.send().await.unwrap(), 412, "version_mismatch").await;
    let delete = || app.client.delete(app.url("/v1/agents/librarian")).send();
    assert_eq!(delete().await.unwrap().status(), 204);
    problem(delete().await.unwrap(), 404, "agent_not_found").await;
    problem(get(&app, "/librarian?version=1").await, 404, "agent_not_found").await;
    let missing = at_agent("is librarian, but there is no such agent");
    assert_eq!(refused(&app, json!({ "agent": "librarian" })).await, missing);
    session.ask("Are you there?").await;
    assert_eq!(app.upstream().body(0)["system"][0]["text"], "One.");
    assert_eq!(session.read().await["agent"], json!({ "name": "librarian", "version": 1 }));
    assert_eq!(put(&app, "librarian", json!({})).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_is_invalid_for_a_session_is_refused() {
    let app = TestApp::start_with(
        json!({}),
        Setup { permissions: Some(OperatorPolicy::default()), ..Setup::default() },
    )
    .await;
    let long = "x".repeat(600);
    for (profile, pointer, message) in [
        (json!({ "description": long }), "/description", "is longer than 500 characters"),
        (json!({ "description": "a\0b" }), "/description", "has a NUL character"),
        (
            json!({ "tools": ["read_file", "Bash"] }),
            "/tools",
            "names a tool that does not exist: \"Bash\"",
        ),
        (json!({ "model": "" }), "/model", "is empty"),
        (json!({ "limits": { "rounds": 1001 } }), "/limits/rounds", "is more than 1000"),
        (
            json!({ "limits": { "cost": 5 } }),
            "/limits/cost",
            "cannot be enforced: the operator has set no price for simulator; prices are set with --prices",
        ),
        (
            json!({ "permission_mode": "bypass" }),
            "/permission_mode",
            "is not enabled; the operator enables it with --allow-bypass",
        ),
        (json!({ "system": [{ "type": "text", "text": " " }] }), "/system/0/text", "is blank"),
        (json!({ "system": "x".repeat(262_144) }), "", "is larger than 262144 bytes"),
        (json!({ "betas": ["A"] }), "/betas/0", "is not 1 to 64 of a-z, 0-9 and '-'"),
        (json!({ "output_schema": { "type": "text" } }), "/output_schema", ""),
        (
            json!({ "context": { "compact_at": 7 } }),
            "/context/compact_at",
            "is neither 0 nor at least 1000",
        ),
        (json!({ "budget": { "tokens": 0 } }), "/budget/tokens", "is less than 1"),
        (json!({ "stop_sequences": null }), "/stop_sequences", ""),
        (json!({ "permissions": null }), "/permissions", ""),
        (json!({ "title": "x" }), "/title", ""),
        (json!({ "agent": "coder" }), "/agent", ""),
        (json!([]), "", ""),
    ] {
        let response = app.put("librarian", &profile).send().await.unwrap();
        let refused = problem(response, 422, "validation_failed").await;
        let error = &refused["errors"][0];
        let sent = profile.to_string();
        assert_eq!(error["pointer"], pointer, "{}", &sent[..sent.len().min(100)]);
        assert!(message.is_empty() || error["message"] == message, "{error}");
    }
    for name in ["Librarian", "-a", "a.b", "%C3%A5", &"x".repeat(65)] {
        let response = app.put(name, &json!({})).send().await.unwrap();
        let refused = problem(response, 422, "validation_failed").await;
        let rule = "is not 1 to 64 of a-z, 0-9, _ and -, the first a letter or a digit";
        assert!(refused["errors"][0]["message"].as_str().unwrap().ends_with(rule), "{refused}");
    }
    problem(get(&app, "/librarian").await, 404, "agent_not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_numbers_of_agents_and_of_their_versions_are_limited() {
    let app = start().await;
    let pool = app.database.pool(1);
    let tenant = TenantId::DEFAULT.as_uuid();
    let fill = "INSERT INTO agents (tenant_id, name, version)
                SELECT $1, 'a' || n, 1000 FROM generate_series(1, 200) n";
    sqlx::query(fill).bind(tenant).execute(&pool).await.unwrap();
    let fill = "INSERT INTO agent_versions (tenant_id, name, version, profile)
                VALUES ($1, 'a1', 1000, '{}')";
    sqlx::query(fill).bind(tenant).execute(&pool).await.unwrap();
    let full = app.put("one-more", &json!({})).send().await.unwrap();
    problem(full, 409, "too_many_agents").await;
    let full = app.put("a1", &json!({ "system": "More." })).send().await.unwrap();
    problem(full, 409, "too_many_agent_versions").await;
    assert_eq!(put(&app, "a1", json!({})).await, 1000, "an equal profile creates no version");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_has_all_agents_by_name_in_pages() {
    let app = start().await;
    for name in ["zoo", "desk", "a-desk"] {
        put(&app, name, json!({ "description": "Ours." })).await;
    }
    put(&app, "desk", json!({ "description": "Newer." })).await;
    let page = agent(&app, "").await;
    let all = ["a-desk", "coder", "course", "desk", "general", "researcher", "weather", "zoo"];
    assert_eq!((names(&page), &page["has_more"]), (all.to_vec(), &json!(false)));
    let desk = &page["data"][3];
    let expected = json!({
        "type": "agent", "name": "desk", "version": 2, "source": "tenant",
        "description": "Newer.", "created_at": desk["created_at"],
    });
    assert_eq!(desk, &expected);
    let coder = json!({
        "type": "agent", "name": "coder", "version": 1, "source": "builtin",
        "description": page["data"][1]["description"],
    });
    assert_eq!(page["data"][1], coder);
    for (query, expected) in [
        ("?limit=3", &all[..3]),
        ("?limit=3&after=course", &all[3..6]),
        ("?limit=3&after=researcher", &all[6..]),
        ("?limit=3&before=general", &all[1..4]),
        ("?after=b", &all[1..]),
        ("?before=coder", &all[..1]),
    ] {
        assert_eq!(names(&agent(&app, query).await), expected, "{query}");
    }
    let first = get(&app, "?limit=3").await;
    assert_eq!(first.headers()["link"], "</v1/agents?limit=3&after=course>; rel=\"next\"");
    problem(get(&app, "?after=A").await, 400, "invalid_cursor").await;
    problem(get(&app, "?limit=201").await, 400, "invalid_query").await;
    problem(get(&app, "?order=desc").await, 400, "invalid_query").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_invisible_to_other_tenants() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), keys_needed()).await;
    put(&app, "librarian", json!({ "system": "A secret." })).await;
    let tenant = app.database.tenant("acme").await;
    let other_tenant = client_with(Some(&app.database.key(tenant, Scope::Write).await));
    let url = app.url("/v1/agents/librarian");
    problem(other_tenant.get(&url).send().await.unwrap(), 404, "agent_not_found").await;
    problem(other_tenant.delete(&url).send().await.unwrap(), 404, "agent_not_found").await;
    let page = other_tenant.get(app.url("/v1/agents")).send().await.unwrap().text().await.unwrap();
    assert!(!page.contains("librarian"), "{page}");
    let session = |agent: &str| {
        other_tenant.post(app.url("/v1/sessions")).json(&json!({ "agent": agent })).send()
    };
    let refused = problem(session("librarian").await.unwrap(), 422, "validation_failed").await;
    assert_eq!(refused["errors"][0], at_agent("is librarian, but there is no such agent"));

    // The other tenant can use the same name for an agent of its own.
    let created = other_tenant
        .put(&url)
        .json(&json!({ "system": "Of the other tenant." }))
        .send()
        .await
        .unwrap();
    assert_eq!(created.status(), 201);
    let session: Value = session("librarian").await.unwrap().json().await.unwrap();
    assert_eq!(session["system"], "Of the other tenant.");
    assert_eq!(agent(&app, "/librarian").await["profile"]["system"], "A secret.");
    assert_eq!(other_tenant.delete(&url).send().await.unwrap().status(), 204);
    assert_eq!(agent(&app, "/librarian").await["version"], 1);
}
