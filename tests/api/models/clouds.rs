//! Claude on Amazon Bedrock and Google Cloud: signed requests, access tokens, and what the clouds lack.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use simulator::cloud;
use twostep::domain::model::{Capabilities, Known, Models, ProviderModels};
use twostep::domain::platform::Platform;
use twostep::domain::provider::Provider;
use twostep::model::anthropic::{AwsKeys, ClientConfig, Hosting, ServiceAccount, TokenSource};
use twostep::model::{NamedServer, Server};
use twostep::service::ModelRules;

use crate::support::media::{base64, pdf, png};
use crate::support::model_server::NamedProvider;
use crate::support::{Setup, TestApp, binary, calls, outcome, problem, replies, says};

/// The key file of the service account whose public key the simulator has.
const KEY_FILE: &str = include_str!("../../fixtures/service_account.json");
const BEDROCK: &str = "cloud/anthropic.claude-sonnet-4-6";
const VERTEX: &str = "cloud/claude-sonnet-4-6@20260101";

fn keys() -> AwsKeys {
    AwsKeys {
        region: cloud::REGION.to_owned(),
        access_key_id: cloud::ACCESS_KEY_ID.into(),
        secret_access_key: cloud::SECRET_ACCESS_KEY.into(),
        session_token: Some(cloud::SESSION_TOKEN.into()),
    }
}

/// A simulator as a cloud.
async fn cloud_with(
    script: &Value,
    hosting: impl FnOnce(&str) -> (String, Hosting),
) -> NamedProvider {
    let mut provider = NamedProvider::start("cloud", Provider::Anthropic, script).await;
    let (base_url, hosting) = hosting(&provider.simulator.base_url());
    let (api_key, auth_token) = match hosting {
        Hosting::Bedrock(None) => (None, Some("planted-bedrock-key".into())),
        Hosting::Own | Hosting::Bedrock(_) | Hosting::Vertex(_) => (None, None),
    };
    let server = Server::Anthropic(ClientConfig {
        base_url: base_url.parse().unwrap(),
        api_key,
        auth_token,
        version: "2023-06-01".to_owned(),
        hosting,
        idle_timeout: Duration::from_secs(10),
    });
    provider.server = NamedServer { name: "cloud".into(), server, max_requests: None };
    provider
}

async fn bedrock_with(script: &Value, keys: Option<AwsKeys>) -> NamedProvider {
    cloud_with(script, |url| (format!("{url}/anthropic"), Hosting::Bedrock(keys.map(Box::new))))
        .await
}

async fn vertex_with(script: &Value, source: impl FnOnce(&str) -> TokenSource) -> NamedProvider {
    cloud_with(script, |url| {
        let (project, region) = (cloud::PROJECT, cloud::REGION);
        let path = format!("v1/projects/{project}/locations/{region}/publishers/anthropic/models");
        (format!("{url}/{path}"), Hosting::Vertex(Box::new(source(url))))
    })
    .await
}

/// The service account, with the simulator as its token endpoint.
fn account(url: &str) -> TokenSource {
    let mut file: Value = serde_json::from_str(KEY_FILE).unwrap();
    file["token_uri"] = format!("{url}/token").into();
    TokenSource::ServiceAccount(Box::new(ServiceAccount::parse(&file.to_string()).unwrap()))
}

async fn app_with(provider: &NamedProvider) -> TestApp {
    let Server::Anthropic(config) = &provider.server.server else { panic!("another protocol") };
    let known: Known = [
        ("anthropic.claude-sonnet-4-6".to_owned(), Capabilities::default()),
        ("claude-sonnet-4-6@20260101".to_owned(), Capabilities::default()),
    ]
    .into();
    let models = ProviderModels::new(Provider::Anthropic, known).on(config.hosting.platform());
    let default = ProviderModels::new(Provider::Anthropic, Known::new());
    let models = Arc::new(Models::of(default, [("cloud".to_owned(), models)].into()));
    let server_tools = vec!["web_search".parse().unwrap(), "web_fetch".parse().unwrap()];
    let setup = Setup {
        model_rules: ModelRules { models, server_tools, ..ModelRules::default() },
        providers: vec![provider.server.clone()],
        ..Setup::default()
    };
    TestApp::start_with(replies(&[]), setup).await
}

fn reads_and_says() -> Value {
    replies(&[calls("read_file", json!({ "path": "a.txt" })), says("Done.")])
}

/// Executes a run with a call, and returns it with the record of its second request.
async fn run(app: &TestApp, model: &str) -> (Value, Value) {
    app.write_file("a.txt", "hello");
    let session = app.session_with(json!({ "model": model })).await;
    let run = session.ask("What does a.txt say?").await;
    assert_eq!(run["output_text"], "Done.", "{run}");
    let path = session.path(&format!("/runs/{}/requests/2", run["id"].as_str().unwrap()));
    (run, app.get(&path).send().await.unwrap().json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_bedrock_are_signed_or_have_a_bearer_token() {
    for keys in [Some(keys()), Some(AwsKeys { session_token: None, ..keys() }), None] {
        let is_signed = keys.is_some();
        let provider = bedrock_with(&reads_and_says(), keys).await;
        let app = app_with(&provider).await;
        let (_, record) = run(&app, BEDROCK).await;
        let upstream = provider.upstream();
        assert_eq!(upstream.requests.iter().find_map(|it| it.refusal.clone()), None);
        assert_eq!(upstream.requests[0].path, "/anthropic/v1/messages");
        assert_eq!(upstream.body(1)["model"], "anthropic.claude-sonnet-4-6");
        assert_eq!(record["body"], upstream.body(1));
        assert_eq!(record["form"]["platform"], "bedrock");
        let header = upstream.requests[0].headers["authorization"].to_str().unwrap().to_owned();
        let prefix = if is_signed { "AWS4-HMAC-SHA256 " } else { "Bearer " };
        assert!(header.starts_with(prefix), "{header}");
        // Only the own API places the breakpoint of the prompt cache.
        assert!(upstream.body(1).get("cache_control").is_none());
        let last = upstream.body(1)["messages"].as_array().unwrap().last().unwrap().clone();
        let last = last["content"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["cache_control"], json!({ "type": "ephemeral" }), "{last}");
        upstream.assert_prefixes();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_request_to_bedrock_is_signed_again() {
    let overloaded = json!({ "status": 529, "headers": { "retry-after-ms": "1100" } });
    let script =
        replies(&[json!({ "fail_first": [overloaded], "content": says("Done.")["content"] })]);
    let provider = bedrock_with(&script, Some(keys())).await;
    let app = app_with(&provider).await;
    let session = app.session_with(json!({ "model": BEDROCK })).await;
    assert_eq!(session.ask("Hi").await["output_text"], "Done.");
    let requests = provider.upstream().requests;
    assert_eq!(requests.len(), 2);
    let [first, second] = [0, 1].map(|at: usize| requests[at].headers["authorization"].clone());
    assert_ne!(first, second, "each try has the time of its own signature");
    assert!(requests.iter().all(|request| request.refusal.is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_of_bedrock_fail_the_run_with_what_to_change() {
    let wrong = "planted-wrong-secret";
    let table = [
        (
            AwsKeys { secret_access_key: wrong.into(), ..keys() },
            "correct the access key, the secret and the session token of the provider",
        ),
        (
            AwsKeys { access_key_id: "AKIDOTHER".into(), ..keys() },
            "correct the access key, the secret and the session token of the provider",
        ),
        (
            AwsKeys { session_token: Some(cloud::EXPIRED_SESSION_TOKEN.into()), ..keys() },
            "renew the session token of the provider and restart the service",
        ),
        (
            AwsKeys { region: "eu-west-9".to_owned(), ..keys() },
            "correct the region of the provider",
        ),
    ];
    for (keys, remedy) in table {
        let provider = bedrock_with(&reads_and_says(), Some(keys)).await;
        let app = app_with(&provider).await;
        let session = app.session_with(json!({ "model": BEDROCK })).await;
        let run = session.ask("Hi").await;
        assert_eq!(run["error"]["reason"], "authentication_error", "{run}");
        let message = run["error"]["message"].as_str().unwrap();
        assert!(message.ends_with(&format!("the operator must {remedy}")), "{message}");
        assert_eq!(provider.upstream().len(), 1, "it is not retried");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_google_cloud_have_the_model_in_the_url_and_a_token() {
    let metadata = |url: &str| {
        let path = "computeMetadata/v1/instance/service-accounts/default/token";
        TokenSource::MetadataServer(format!("{url}/{path}").parse().unwrap())
    };
    let sources: [fn(&str) -> TokenSource; 2] = [account, metadata];
    for source in sources {
        let provider = vertex_with(&reads_and_says(), source).await;
        let app = app_with(&provider).await;
        let (_, record) = run(&app, VERTEX).await;
        let upstream = provider.upstream();
        assert_eq!(upstream.requests.iter().find_map(|it| it.refusal.clone()), None);
        let path = &upstream.requests[1].path;
        assert!(path.ends_with("/models/claude-sonnet-4-6@20260101:streamRawPredict"), "{path}");
        let body = upstream.body(1);
        assert_eq!(body.get("model"), None);
        assert_eq!(body["anthropic_version"], "vertex-2023-10-16");
        assert_eq!(record["body"], body, "regenerated in the form of the cloud");
        assert_eq!(record["form"]["platform"], "vertex");
        assert!(upstream.requests[0].headers.get("anthropic-version").is_none());
        assert_eq!(provider.simulator.issued_tokens(), 1, "both requests have the same token");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_before_it_expires_and_once_after_it_was_refused() {
    let provider = vertex_with(&replies(&[says("Done.")]), account).await;
    let app = app_with(&provider).await;
    let ask = async || {
        let session = app.session_with(json!({ "model": VERTEX })).await;
        session.ask("Hi").await
    };
    // Of a short life, the second half is kept for the renewal.
    provider.simulator.set_token_lifetime(Duration::from_secs(2));
    assert_eq!(ask().await["output_text"], "Done.");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    provider.simulator.set_token_lifetime(Duration::from_hours(1));
    assert_eq!(ask().await["output_text"], "Done.");
    assert_eq!(provider.simulator.issued_tokens(), 2);
    assert!(provider.upstream().requests.iter().all(|request| request.status == 200));

    provider.simulator.revoke_tokens();
    let run = ask().await;
    assert_eq!(run["output_text"], "Done.");
    assert_eq!(provider.simulator.issued_tokens(), 3);
    let statuses: Vec<u16> = provider.upstream().requests.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [200, 200, 401, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_without_access_fails_the_run_with_what_to_change() {
    let without_access = |url: &str| {
        let mut file: Value = serde_json::from_str(KEY_FILE).unwrap();
        file["token_uri"] = format!("{url}/token").into();
        file["client_email"] = "other@project-1.iam.gserviceaccount.com".into();
        TokenSource::ServiceAccount(Box::new(ServiceAccount::parse(&file.to_string()).unwrap()))
    };
    let provider = vertex_with(&replies(&[]), without_access).await;
    let app = app_with(&provider).await;
    let session = app.session_with(json!({ "model": VERTEX })).await;
    let run = session.ask("Hi").await;
    assert_eq!(run["error"]["reason"], "authentication_error");
    assert_eq!(
        run["error"]["message"],
        "the model answered with authentication_error: the token endpoint returned no access token \
         (status 400): invalid_grant: Invalid grant: account not found; the operator must correct the \
         service account of the provider"
    );
    assert_eq!(provider.upstream().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cloud_lacks_is_refused_before_a_request() {
    for (platform, model) in [(Platform::Bedrock, BEDROCK), (Platform::Vertex, VERTEX)] {
        let provider = match platform {
            Platform::Bedrock => bedrock_with(&replies(&[says("Seen.")]), Some(keys())).await,
            Platform::Vertex => vertex_with(&replies(&[says("Seen.")]), account).await,
        };
        let app = app_with(&provider).await;
        let with = |tools: Value| json!({ "model": model, "tools": tools });
        let response = app.post("/v1/sessions").json(&with(json!(["web_fetch"]))).send().await;
        let refused = problem(response.unwrap(), 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], "/tools/0/name");
        let message = refused["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains(platform.title()), "{message}");
        let searches = app.post("/v1/sessions").json(&with(json!(["web_search"]))).send().await;
        let expected = if platform == Platform::Vertex { 201 } else { 422 };
        assert_eq!(searches.unwrap().status(), expected, "{platform:?}");

        let session = app.session_with(json!({ "model": model })).await;
        let image = |source: Value| json!({ "content": [{ "type": "image", "source": source }] });
        let url = image(json!({ "type": "url", "url": "https://example.com/a.png" }));
        let response = app.post(&session.path("/messages")).json(&url).send().await.unwrap();
        let refused = problem(response, 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], "/content/0/source/type");

        let fallback = json!({ "tools": ["web_fetch"], "fallback_models": [model] });
        let response = app.post("/v1/sessions").json(&fallback).send().await.unwrap();
        let refused = problem(response, 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], "/fallback_models/0");
        let message = refused["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains(&format!("not available on {}", platform.title())), "{message}");

        let models: Value = app.get("/v1/models").send().await.unwrap().json().await.unwrap();
        let listed = models["data"].as_array().unwrap().iter().find(|it| it["id"] == model);
        let listed = listed.unwrap();
        for word in platform.lacks() {
            assert!(listed["lacks"].as_array().unwrap().contains(&json!(word)), "{word}: {listed}");
        }
        assert_eq!(listed["capabilities"]["max_tokens"], 128_000, "of the model's own name");
        assert_eq!(provider.upstream().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploaded_files_and_the_whole_conversation_must_fit_into_a_request_to_bedrock() {
    let seen = ["Seen."; 3].map(says);
    let provider = bedrock_with(&replies(&seen), Some(keys())).await;
    let app = app_with(&provider).await;
    let session = app.session_with(json!({ "model": BEDROCK })).await;
    let upload = async |bytes: Vec<u8>| {
        let file = app.post("/v1/files").body(bytes).send().await.unwrap();
        file.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned()
    };
    let send = async |kind: &str, id: &str| {
        let block = json!({ "type": kind, "source": { "type": "file", "file_id": id } });
        let body = json!({ "content": [block, { "type": "text", "text": "What is this?" }] });
        let response = app.post(&session.path("/messages")).json(&body).send().await.unwrap();
        problem(response, 422, "validation_failed").await["errors"][0].take()
    };
    let mut large = pdf(1);
    large.resize(15_000_000, b' ');
    let refused = send("document", &upload(large).await).await;
    assert_eq!(refused["pointer"], "/content");
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("has 20000") && message.ends_with("at most 18000000"), "{message}");
    let refused = send("image", &upload(png(2, 5_000_000)).await).await;
    assert_eq!(refused["pointer"], "/content/0/source");

    let image = json!({ "type": "image", "source": base64("image/png", &png(2, 3_800_000)) });
    let message = json!({ "content": [image] });
    for _ in 0..3 {
        assert_eq!(session.ask_with(message.clone()).await["output_text"], "Seen.");
    }
    let response = app.post(&session.path("/messages")).json(&message).send().await.unwrap();
    let refused = problem(response, 422, "validation_failed").await;
    let message = "brings the messages of the session to more than 18000000 bytes";
    assert_eq!(refused["errors"][0]["message"], message);
}

#[tokio::test(flavor = "multi_thread")]
async fn config_check_live_asks_the_clouds_of_the_file_of_providers() {
    let app = TestApp::start(replies(&[says("OK")])).await;
    let url = app.simulator.base_url();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut account: Value = serde_json::from_str(KEY_FILE).unwrap();
    account["token_uri"] = format!("{url}/token").into();
    std::fs::write(path("account.json"), account.to_string()).unwrap();
    let vertex = |more: Value| {
        let mut platform = json!({ "name": "vertex", "region": cloud::REGION });
        platform.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "protocol": "anthropic", "base_url": format!("{url}/v1"), "platform": platform,
                "capabilities": { "claude-sonnet-4-6@20260101": {} } })
    };
    let providers = json!({
        "account": vertex(json!({ "credentials_file": path("account.json") })),
        "bedrock": { "protocol": "anthropic", "base_url": format!("{url}/anthropic"),
            "platform": { "name": "bedrock", "region": cloud::REGION,
                          "access_key_id_env": "AWS_ACCESS_KEY_ID",
                          "secret_access_key_env": "AWS_SECRET_ACCESS_KEY",
                          "session_token_env": "AWS_SESSION_TOKEN" },
            "capabilities": { "anthropic.claude-sonnet-4-6": {} } },
        "metadata": vertex(json!({ "project": cloud::PROJECT })),
    });
    std::fs::write(path("providers.json"), providers.to_string()).unwrap();
    let check = |token: &str| {
        let args = ["config", "check", "--live", "--bind", "127.0.0.1:9", "--model-providers"];
        let mut command = binary(&[&args[..], &[&path("providers.json")]].concat());
        command.env("ANTHROPIC_BASE_URL", &url).env("ANTHROPIC_API_KEY", "k");
        command.env("AWS_ACCESS_KEY_ID", cloud::ACCESS_KEY_ID).env("AWS_SESSION_TOKEN", token);
        command.env("AWS_SECRET_ACCESS_KEY", cloud::SECRET_ACCESS_KEY);
        command.env("GCE_METADATA_HOST", url.strip_prefix("http://").unwrap());
        outcome(command)
    };
    let (status, stdout, stderr) = check(cloud::SESSION_TOKEN).await;
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    for model in ["account/claude-sonnet-4-6@20260101", "bedrock/anthropic.claude-sonnet-4-6"] {
        assert!(stdout.contains(model), "{stdout}");
    }
    assert!(stdout.contains("metadata/claude-sonnet-4-6"), "{stdout}");
    let (status, stdout, stderr) = check(cloud::EXPIRED_SESSION_TOKEN).await;
    assert_eq!(status, Some(1), "{stdout}");
    assert!(stderr.contains("authentication_error") && stderr.contains("renew the session token"));
    for secret in [cloud::SECRET_ACCESS_KEY, cloud::EXPIRED_SESSION_TOKEN, "PRIVATE KEY"] {
        assert!(!format!("{stdout}{stderr}").contains(secret), "{secret}");
    }
    app.stop_unchecked().await;
}
