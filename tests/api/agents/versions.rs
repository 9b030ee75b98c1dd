//! Agents of a tenant: their versions, and who may see and change them.

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
async fn an_agent_has_a_version_for_each_thing_that_it_said() {
    let app = start().await;
    let first = json!({ "description": "Finds things.", "system": "Find.", "tools": ["Grep"] });
    let response = app.put("librarian", &first).send().await.unwrap();
    assert_eq!(
        (response.status(), &response.headers()["etag"]),
        (StatusCode::CREATED, &"\"v1\"".parse().unwrap())
    );
    let made: Value = response.json().await.unwrap();
    let expected = json!({
        "type": "agent", "name": "librarian", "version": 1, "source": "tenant",
        "description": "Finds things.", "profile": first, "created_at": made["created_at"],
    });
    assert_eq!(made, expected);
    assert_eq!(agent(&app, "/librarian").await, expected);

    // What says the same is no new version, whatever stands around it.
    let same = r#"{ "tools": ["Grep"], "system": "Find.", "model": null, "description": "Finds things." }"#;
    let response = app.client.put(app.url("/agents/librarian")).body(same);
    let response = response.header("content-type", "application/json").send().await.unwrap();
    assert_eq!(
        (response.status(), &response.headers()["etag"]),
        (StatusCode::OK, &"\"v1\"".parse().unwrap())
    );
    assert_eq!(response.json::<Value>().await.unwrap(), expected);

    assert_eq!(put(&app, "librarian", json!({ "system": "Find more." })).await, 2);
    assert_eq!(put(&app, "librarian", first.clone()).await, 3, "back is forward");
    assert_eq!(agent(&app, "/librarian?version=1").await, expected);
    let second = agent(&app, "/librarian?version=2").await;
    assert_eq!(
        (&second["profile"], second.get("description")),
        (&json!({ "system": "Find more." }), None)
    );
    assert_eq!(agent(&app, "/librarian").await["version"], 3);
    for (path, named) in [
        ("/librarian?version=4", "librarian@4"),
        ("/librarian?version=0", "librarian@0"),
        ("/nobody", "nobody"),
        ("/Nobody", "Nobody"),
        ("/coder?version=2", "coder@2"),
    ] {
        let told = problem(get(&app, path).await, 404, "agent_not_found").await;
        assert_eq!(told["detail"], format!("there is no agent {named}"), "{path}");
    }
    problem(get(&app, "/librarian?version=x").await, 400, "invalid_query").await;
    problem(get(&app, "/librarian?versoin=1").await, 400, "invalid_query").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_editors_do_not_overwrite_each_other() {
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
    // Also what would change nothing: the client does not know what is there.
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
async fn many_editors_at_once_make_a_version_each() {
    let app = start().await;
    let puts = (0..20).map(|number| put(&app, "busy", json!({ "system": number.to_string() })));
    let mut versions = futures::future::join_all(puts).await;
    versions.sort_unstable();
    assert_eq!(versions, (1..=20).collect::<Vec<i64>>());

    // Of those who have all seen the same one, a single one is in time.
    let puts = (0..20).map(|number| {
        let profile = json!({ "description": number.to_string() });
        app.put("busy", &profile).header("if-match", "\"v20\"").send()
    });
    let answers = futures::future::join_all(puts).await;
    let statuses = answers.into_iter().map(|answer| answer.unwrap().status().as_u16());
    let (made, refused): (Vec<u16>, Vec<u16>) = statuses.partition(|status| *status == 200);
    assert_eq!((made.len(), refused), (1, vec![412; 19]));
    assert_eq!(agent(&app, "/busy").await["version"], 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_is_gone_with_its_versions_and_sessions_keep_theirs() {
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
    let nobody = at_agent("is librarian, but there is no such agent");
    assert_eq!(refused(&app, json!({ "agent": "librarian" })).await, nobody);
    session.ask("Are you there?").await;
    assert_eq!(app.upstream().body(0)["system"][0]["text"], "One.");
    assert_eq!(session.read().await["agent"], json!({ "name": "librarian", "version": 1 }));
    assert_eq!(put(&app, "librarian", json!({})).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_of_which_no_session_could_be_made_is_refused() {
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
        let told = problem(response, 422, "validation_failed").await;
        let error = &told["errors"][0];
        let what = profile.to_string();
        assert_eq!(error["pointer"], pointer, "{}", &what[..what.len().min(100)]);
        assert!(message.is_empty() || error["message"] == message, "{error}");
    }
    for name in ["Librarian", "-a", "a.b", "%C3%A5", &"x".repeat(65)] {
        let response = app.put(name, &json!({})).send().await.unwrap();
        let told = problem(response, 422, "validation_failed").await;
        let why = "is not 1 to 64 of a-z, 0-9, _ and -, the first a letter or a digit";
        assert!(told["errors"][0]["message"].as_str().unwrap().ends_with(why), "{told}");
    }
    problem(get(&app, "/librarian").await, 404, "agent_not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_so_many_agents_of_so_many_versions_and_no_more() {
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
    assert_eq!(put(&app, "a1", json!({})).await, 1000, "nothing is new");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_has_everybodys_agents_by_name_in_pages() {
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
async fn another_tenant_sees_nothing_of_an_agent() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), keys_needed()).await;
    put(&app, "librarian", json!({ "system": "A secret." })).await;
    let tenant = app.database.tenant("acme").await;
    let foreign = client_with(Some(&app.database.key(tenant, Scope::Write).await));
    let url = app.url("/v1/agents/librarian");
    problem(foreign.get(&url).send().await.unwrap(), 404, "agent_not_found").await;
    problem(foreign.delete(&url).send().await.unwrap(), 404, "agent_not_found").await;
    let page = foreign.get(app.url("/v1/agents")).send().await.unwrap().text().await.unwrap();
    assert!(!page.contains("librarian"), "{page}");
    let session =
        |agent: &str| foreign.post(app.url("/v1/sessions")).json(&json!({ "agent": agent })).send();
    let told = problem(session("librarian").await.unwrap(), 422, "validation_failed").await;
    assert_eq!(told["errors"][0], at_agent("is librarian, but there is no such agent"));

    // The name is free for them, and what they make of it is theirs.
    let theirs = foreign.put(&url).json(&json!({ "system": "Theirs." })).send().await.unwrap();
    assert_eq!(theirs.status(), 201);
    let session: Value = session("librarian").await.unwrap().json().await.unwrap();
    assert_eq!(session["system"], "Theirs.");
    assert_eq!(agent(&app, "/librarian").await["profile"]["system"], "A secret.");
    assert_eq!(foreign.delete(&url).send().await.unwrap().status(), 204);
    assert_eq!(agent(&app, "/librarian").await["version"], 1);
}
