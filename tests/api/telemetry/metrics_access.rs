//! The callers that may read the metrics at the address of the API.

use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::{Program, binary, client_with, data_dir, database, outcome, problem};

const KEY: &str = "planted-metrics-key";

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_a_service_with_keys_are_read_with_the_key_for_metrics_alone() {
    let (database, folder) = (database().await, data_dir());
    let key = database.key(TenantId::DEFAULT, Scope::Write).await;
    for (auth, configured) in [("keys", Some(KEY)), ("keys", None), ("open-to-all", Some(KEY))] {
        let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(folder.path());
        command.env("DATABASE_URL", database.url()).env("TWOSTEP_AUTH", auth);
        command.envs(configured.map(|key| ("TWOSTEP_METRICS_KEY", key)));
        let program = Program::serve(command).await;
        let get = || client_with(None).get(format!("{}/metrics", program.url));
        for request in [
            get(),
            get().bearer_auth(key.reveal()),
            get().header("x-api-key", key.reveal()),
            get().bearer_auth(&KEY[1..]),
            get().header("x-api-key", ""),
        ] {
            let refused = problem(request.send().await.unwrap(), 401, "unauthenticated").await;
            let detail = refused["detail"].as_str().unwrap();
            assert!(detail.contains("TWOSTEP_METRICS_KEY"), "{detail}");
        }
        let expected = if configured.is_some() { 200 } else { 401 };
        for request in [get().bearer_auth(KEY), get().header("x-api-key", KEY)] {
            assert_eq!(request.send().await.unwrap().status(), expected, "{auth}");
        }
        // The key for metrics opens nothing else.
        let other = client_with(None).get(format!("{}/v1/sessions", program.url)).bearer_auth(KEY);
        let expected = if auth == "keys" { 401 } else { 200 };
        assert_eq!(other.send().await.unwrap().status(), expected, "{auth}");
        program.terminate().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_a_service_that_is_open_on_loopback_need_no_key() {
    let (database, folder) = (database().await, data_dir());
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(folder.path()).env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let response = client_with(None).get(format!("{}/metrics", program.url)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    program.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_key_for_metrics_is_refused_at_the_start() {
    let mut command = binary(&["config", "check", "--offline"]);
    command.env("TWOSTEP_AUTH", "keys").env("TWOSTEP_METRICS_KEY", "guessable");
    let (status, _, stderr) = outcome(command).await;
    let expected = "TWOSTEP_METRICS_KEY has 9 characters; at least 16 are required";
    assert_eq!((status, stderr.contains(expected)), (Some(1), true), "{stderr}");
}
