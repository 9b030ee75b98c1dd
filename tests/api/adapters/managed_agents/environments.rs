//! Environments.

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;

use super::client::id;
use super::{Sdk, refused};
use crate::support::{TestApp, client_with, keys_needed, replies};

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_is_a_name_that_sessions_refer_to() {
    let app = TestApp::start(replies(&[])).await;
    let sdk = Sdk::new(&app);
    let config = json!({ "type": "cloud", "networking": { "type": "unrestricted" },
                         "packages": { "pip": [], "npm": null } });
    let body =
        json!({ "name": "quickstart", "config": config, "metadata": { "a": "b", "c": "d" } });
    let created = sdk.create("/environments", body).await;
    let environment = id(&created);
    assert_eq!((&created["type"], &created["name"]), (&json!("environment"), &json!("quickstart")));
    assert_eq!(created["config"]["networking"]["type"], "unrestricted");
    let path = format!("/environments/{environment}");
    assert_eq!(sdk.read(&path).await, created);
    let change = json!({ "description": "For tests.", "metadata": { "a": null } });
    let changed = sdk.create(&path, change).await;
    assert_eq!(
        (&changed["name"], &changed["description"]),
        (&json!("quickstart"), &json!("For tests."))
    );
    assert_eq!(changed["metadata"], json!({ "c": "d" }));

    let session = json!({ "agent": "general", "environment_id": environment });
    let session = sdk.create("/sessions", session).await;
    assert_eq!(session["environment_id"], json!(environment));
    assert_eq!(
        sdk.read(&format!("/sessions/{}", id(&session))).await["environment_id"],
        json!(environment)
    );

    let second = id(&sdk.create("/environments", json!({ "name": "second" })).await);
    let ids = async |query: &str| -> Vec<String> {
        sdk.list(&format!("/environments{query}")).await.iter().map(id).collect()
    };
    assert_eq!(ids("?limit=1").await, [second.clone(), environment.clone()]);
    let archived = sdk.create(&format!("{path}/archive"), json!({})).await;
    assert!(archived["archived_at"].is_string());
    assert_eq!(ids("").await, std::slice::from_ref(&second));
    assert_eq!(ids("?include_archived=true").await.len(), 2);
    let body = json!({ "agent": "general", "environment_id": environment });
    let (status, error) = refused(sdk.post("/sessions", &body)).await;
    assert_eq!(
        (status, &error["details"]["errors"][0]["pointer"]),
        (400, &json!("/environment_id"))
    );

    let deleted = Sdk::success(sdk.delete(&path)).await;
    assert_eq!(deleted, json!({ "type": "environment_deleted", "id": environment }));
    for request in [sdk.get(&path), sdk.delete(&path), sdk.post("/sessions", &body)] {
        let (status, error) = refused(request).await;
        assert_eq!((status, &error["type"]), (404, &json!("not_found_error")));
        assert_eq!(error["details"]["error_code"], "environment_not_found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_an_environment_is_in_the_default_one() {
    let app = TestApp::start(replies(&[])).await;
    let sdk = Sdk::new(&app);
    assert_eq!(sdk.read("/environments/env_default").await["name"], "default");
    let session = sdk.create("/sessions", json!({ "agent": "general" })).await;
    assert_eq!(session["environment_id"], "env_default");
    let own = app.session().await;
    assert_eq!(sdk.read(&format!("/sessions/{}", own.id)).await["environment_id"], "env_default");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_that_needs_more_than_a_name_is_refused() {
    let app = TestApp::start(replies(&[])).await;
    let sdk = Sdk::new(&app);
    for (config, pointer) in [
        (json!({ "type": "self_hosted" }), "/config/type"),
        (
            json!({ "type": "cloud", "networking": { "type": "limited" } }),
            "/config/networking/type",
        ),
        (json!({ "type": "cloud", "packages": { "pip": ["numpy"] } }), "/config/packages/pip"),
    ] {
        let body = json!({ "name": "e", "config": config });
        let (status, error) = refused(sdk.post("/environments", &body)).await;
        assert_eq!((status, &error["details"]["errors"][0]["pointer"]), (400, &json!(pointer)));
    }
    let (status, error) = refused(sdk.post("/environments", &json!({}))).await;
    assert_eq!((status, &error["details"]["errors"][0]["pointer"]), (400, &json!("/name")));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenant_has_environments_of_its_own() {
    let app = TestApp::start_with(replies(&[]), keys_needed()).await;
    let sdk = Sdk::new(&app);
    let environment = id(&sdk.create("/environments", json!({ "name": "e" })).await);
    let tenant = app.database.tenant("acme").await;
    let key = app.database.key(tenant, Scope::Write).await;
    let foreign = sdk.with(client_with(Some(&key)));
    assert_eq!(foreign.list("/environments").await, Vec::<Value>::new());
    let body = json!({ "agent": "general", "environment_id": environment });
    let (status, _) = refused(foreign.post("/sessions", &body)).await;
    assert_eq!(status, 404);
    let (status, _) = refused(foreign.delete(&format!("/environments/{environment}"))).await;
    assert_eq!(status, 404);
    assert_eq!(sdk.list("/environments").await.len(), 1);
}
