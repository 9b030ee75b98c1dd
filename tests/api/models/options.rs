//! Options of the command line about models.

use reqwest::{Client, Response};
use serde_json::{Value, json};

use crate::support::{Program, binary, data_dir, database, outcome};

fn client() -> Client {
    // Fails if another test of this process has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().unwrap()
}

async fn create(program: &Program, body: Value) -> Response {
    client().post(format!("{}/v1/sessions", program.url)).json(&body).send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sets_capabilities_of_models_and_limits_tools_and_betas() {
    let (folder, database) = (data_dir(), database().await);
    let file = folder.path().join("capabilities.json");
    let few = json!({ "max_tokens": 10_000, "effort": [] });
    std::fs::write(&file, json!({ "mine": few }).to_string()).unwrap();
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0"]);
    command.args(["--database-url", &database.url()]);
    command.arg("--capabilities").arg(&file).args(["--refresh-models", "false"]);
    command.args(["--server-tools", "web_search_20250305", "--betas", "task-budgets-2026-03-13"]);
    let program = Program::serve(command).await;

    let models = client().get(format!("{}/v1/models", program.url)).send().await.unwrap();
    let models: Value = models.json().await.unwrap();
    let models = models["data"].as_array().unwrap();
    let mine = models.iter().find(|model| model["id"] == "mine").unwrap();
    assert_eq!(mine["capabilities"], few);
    assert!(
        models.iter().all(|model| model.get("available").is_none()),
        "the server was asked for its models"
    );

    let beta = |name: &str| json!({ "betas": [name], "tools": ["web_search"] });
    assert_eq!(create(&program, beta("task-budgets-2026-03-13")).await.status(), 201);
    for (body, pointer) in [
        (json!({ "model": "mine", "effort": "low" }), "/effort"),
        (beta("compact-2026-01-12"), "/betas/0"),
        (json!({ "tools": ["web_fetch"] }), "/tools"),
    ] {
        let response = create(&program, body).await;
        assert_eq!(response.status(), 422);
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["errors"][0]["pointer"], pointer);
    }
    program.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_value_is_named_at_the_start() {
    let (folder, database) = (data_dir(), database().await);
    let file = folder.path().join("capabilities.json");
    std::fs::write(&file, r#"{ "mine": { "max_token": 1 } }"#).unwrap();
    let file = file.to_str().unwrap();
    for (option, value, part) in [
        ("--capabilities", "/no/such/file.json", "/no/such/file.json"),
        ("--capabilities", file, "max_token"),
        ("--server-tools", "web_search,websearch", "websearch"),
        ("--server-tools", "web_search,web_search_20250305", "web_search twice"),
        ("--betas", "Compact", "Compact"),
    ] {
        let url = database.url();
        let serve = ["serve", "--offline", "--bind", "127.0.0.1:0", "--database-url", &url];
        let (status, stdout, stderr) =
            outcome(binary(&[&serve[..], &[option, value]].concat())).await;
        assert_eq!((status, stdout.as_str()), (Some(1), ""), "{option} {value}: {stderr}");
        assert!(stderr.contains(part), "{part:?} is not in {stderr:?}");
    }
}
