//! The page of `docs/examples/event-source.html`, in a browser, with a restart of the service.

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::machine::HUNG;
use crate::support::{Program, TestDatabase, binary, client_with, data_dir, database, machine};

fn page(path: &str) -> String {
    read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The part of the page that the documentation shows.
fn shown(page: &str) -> &str {
    let (_, rest) = page.split_once("// follow\n").unwrap();
    rest.split_once("// end of follow\n").unwrap().0
}

#[test]
fn the_documentation_shows_the_code_of_the_page() {
    let page = page("docs/examples/event-source.html");
    let documentation = self::page("docs/front-end.md");
    assert!(documentation.contains(&format!("```js\n{}```\n", shown(&page))));
}

#[test]
fn the_page_listens_to_every_type_that_a_stream_can_contain() {
    let page = page("docs/examples/event-source.html");
    let (_, rest) = page.split_once("const types = [").unwrap();
    let listed = rest.split_once("];").unwrap().0;
    let listed: BTreeSet<&str> = listed.split('"').skip(1).step_by(2).collect();
    let document = serde_json::to_value(twostep::http::document()).unwrap();
    let mapping = &document["components"]["schemas"]["Streamed"]["discriminator"]["mapping"];
    let types: BTreeSet<&str> = mapping.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(listed, types);
}

/// The script of the browser, which reports its stages as lines of JSON.
struct Browser {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Browser {
    fn start(script: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser").join(script);
        let mut command = Command::new("node");
        command.arg(path).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, lines }
    }

    /// Waits for the next stage. The script itself has a shorter limit for each of its waits.
    async fn stage(&mut self) -> Value {
        let line = timeout(3 * HUNG, self.lines.next_line()).await;
        let line = line.expect("the browser hangs").unwrap().expect("the script has failed");
        serde_json::from_str(&line).unwrap()
    }

    async fn tell(&mut self, value: &Value) {
        self.stdin.write_all(format!("{value}\n").as_bytes()).await.unwrap();
    }
}

/// Starts the service with the simulator and these origins of web pages.
async fn serve(database: &TestDatabase, folder: &TempDir, bind: &str, origin: &str) -> Program {
    let mut command = binary(&["serve", "--offline", "--bind", bind, "--cors-origins", origin]);
    command.arg("--data-dir").arg(folder.path());
    command.env("DATABASE_URL", database.url()).env("TWOSTEP_AUTH", "keys");
    Program::serve(command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_each_event_once_although_tickets_fail_and_the_service_restarts() {
    if machine::is_left_out("browser") {
        return;
    }
    let (database, folder) = (database().await, data_dir());
    let mut browser = Browser::start("event-source.mjs");
    let origin = browser.stage().await["origin"].as_str().unwrap().to_owned();
    let service = serve(&database, &folder, "127.0.0.1:0", &origin).await;
    let (url, address) = (service.url.clone(), service.address().to_owned());
    let key = database.key(TenantId::DEFAULT, Scope::Write).await;
    let client = client_with(Some(&key));
    let created = client.post(format!("{url}/v1/sessions")).json(&json!({})).send().await.unwrap();
    let session = created.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned();
    browser.tell(&json!({ "service": url, "key": key.reveal(), "session": session })).await;

    assert_eq!(browser.stage().await, "answered");
    service.end_by(Signal::KILL).await;
    browser.tell(&json!("down")).await;
    assert_eq!(browser.stage().await, "lost");
    let service = serve(&database, &folder, &address, &origin).await;
    browser.tell(&json!("up")).await;

    let items = browser.stage().await["items"].clone();
    let page = client.get(format!("{url}/v1/sessions/{session}/events?limit=200"));
    let page: Value = page.send().await.unwrap().json().await.unwrap();
    let events = page["data"].as_array().unwrap().iter();
    let expected: Vec<Value> = events.map(|event| json!([event["seq"], event["type"]])).collect();
    assert_eq!(items.as_array().unwrap(), &expected);
    assert!(browser.child.wait().await.unwrap().success());
    service.terminate().await;
}
