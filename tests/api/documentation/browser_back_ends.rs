//! The back ends of `docs/examples/`, which create browser tokens.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::machine::HUNG;
use crate::support::{TestApp, client_bearing, keys_needed, machine, replies, says};

/// A back end on a free port, and its address.
async fn start(app: &TestApp, program: &str, file: &str) -> (Child, String) {
    let key = app.database.key(TenantId::DEFAULT, Scope::Write).await.reveal();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples").join(file);
    let mut command = Command::new(program);
    command.arg(file).env("TWOSTEP_URL", app.url("")).env("TWOSTEP_API_KEY", key).env("PORT", "0");
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line =
        timeout(HUNG, lines.next_line()).await.expect("the back end hangs").unwrap().unwrap();
    let url = line.strip_prefix("listening on ").unwrap().to_owned();
    (child, url)
}

async fn a_back_end_gives_each_user_a_token_for_the_own_chat(program: &str, file: &str) {
    let app = TestApp::start_with(replies(&[says("Hello.")]), keys_needed()).await;
    let (_back_end, url) = start(&app, program, file).await;
    let chat = async |user: &str| {
        let request = app.client.post(format!("{url}/chat")).body(r#"{"id":"chat-1"}"#);
        request.header("cookie", format!("theme=dark; {user}")).send().await.unwrap()
    };
    assert_eq!(chat("").await.status(), 401);
    let bad = app.client.post(format!("{url}/chat")).header("cookie", "user=anna").body("{");
    assert_eq!(bad.send().await.unwrap().status(), 400);
    let token: Value = chat("user=anna").await.json().await.unwrap();
    let again: Value = chat("user=anna").await.json().await.unwrap();
    assert_eq!(token["session_id"], again["session_id"]);
    let other = chat("user=ben").await;
    assert_eq!(other.status(), 409);
    assert_eq!(other.json::<Value>().await.unwrap()["code"], "external_id_taken");

    let session = app.existing_session(token["session_id"].as_str().unwrap());
    let browser = client_bearing(token["token"].as_str().unwrap());
    let posted =
        browser.post(app.url(&session.path("/messages"))).json(&json!({ "content": "Hi" }));
    let run: Value = posted.send().await.unwrap().json().await.unwrap();
    assert_eq!(session.settled(&run).await["output_text"], "Hello.");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_back_end_in_node_gives_each_user_a_token_for_the_own_chat() {
    if machine::is_left_out("browser") {
        return;
    }
    a_back_end_gives_each_user_a_token_for_the_own_chat("node", "back-end.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_back_end_in_python_gives_each_user_a_token_for_the_own_chat() {
    if machine::is_left_out("browser") {
        return;
    }
    a_back_end_gives_each_user_a_token_for_the_own_chat("python3", "back-end.py").await;
}
