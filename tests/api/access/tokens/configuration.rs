//! Options for an identity provider.

use serde_json::{Value, json};

use crate::support::{
    AUDIENCE, Identity, Program, binary, binary_logging_to, client_with, data_dir, database,
    outcome,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_an_issuer_starts_without_keys_on_any_address_and_logs_subjects_of_tokens() {
    let (identity, database, folder) = (Identity::start().await, database().await, data_dir());
    let log = folder.path().join("log");
    let serve = ["serve", "--offline", "--bind", "0.0.0.0:0", "--auth", "keys"];
    let tokens = ["--token-issuer", &identity.issuer, "--token-audience", AUDIENCE];
    let logged = ["--log", "twostep=debug"];
    let mut command = binary_logging_to(&log, &[&serve[..], &tokens, &logged].concat());
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let get = |token: String| {
        let request = client_with(None).get(format!("{}/v1/sessions", program.url));
        let request = request.bearer_auth(&token);
        async move { (request.send().await.unwrap().status().as_u16(), token) }
    };
    let (status, odd) = get(identity.token(json!({ "sub": "ann\u{1b}[1m" }))).await;
    assert_eq!(status, 401);
    let (status, fine) = get(identity.token(json!({ "sub": "ann of acme" }))).await;
    assert_eq!(status, 200);
    let (status, late) = get(identity.token(json!({ "exp": 1 }))).await;
    assert_eq!(status, 401);
    program.terminate().await;

    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains(r#"token.subject="ann of acme""#), "{log}");
    assert!(log.contains("reason=it has expired"), "{log}");
    assert!(log.contains("reason=its subject is not a text of 1 to 255 plain characters"), "{log}");
    for token in [odd, fine, late] {
        let parts = token.split('.').any(|part| log.contains(part));
        assert!(!parts, "the log has a part of a token");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_options_are_refused_and_complete_ones_are_printed() {
    let issuer = ["--token-issuer", "https://id.example"];
    let check = |more: &[&str]| {
        let check = ["config", "check", "--offline", "--auth", "keys"];
        let all = [&check[..], more].concat();
        let mut command = binary(&all);
        command.env("DATABASE_URL", "postgres://localhost/none");
        outcome(command)
    };
    let (status, _, stderr) = check(&issuer).await;
    assert_eq!(status, Some(1));
    assert!(stderr.contains("--token-issuer needs --token-audience"), "{stderr}");
    let whole = [&issuer[..], &["--token-audience", "twostep"]].concat();
    let (status, _, stderr) = check(&whole).await;
    assert_eq!(status, Some(0), "{stderr}");

    let print = [&["config", "print", "--json"], &whole[..]].concat();
    let (_, stdout, _) = outcome(binary(&print)).await;
    let options: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let option = |name: &str, variable: &str, value: Value, from: &str| json!({ "option": name, "variable": variable, "value": value, "from": from });
    for expected in [
        option("--token-issuer", "TWOSTEP_TOKEN_ISSUER", json!("https://id.example"), "flag"),
        option("--token-audience", "TWOSTEP_TOKEN_AUDIENCE", json!("twostep"), "flag"),
        option("--token-jwks-url", "TWOSTEP_TOKEN_JWKS_URL", json!(null), "default"),
        option("--token-tenant-claim", "TWOSTEP_TOKEN_TENANT_CLAIM", json!("tenant"), "default"),
        option("--token-scope-claim", "TWOSTEP_TOKEN_SCOPE_CLAIM", json!("scope"), "default"),
    ] {
        assert!(options.contains(&expected), "{expected} is not printed: {stdout}");
    }
}
