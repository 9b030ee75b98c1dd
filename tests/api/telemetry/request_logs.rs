//! The log line of a completed request, with the id of its key and its request id.

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::{Program, binary_logging_to, client_with, data_dir, database};

/// The fields of a line that are the same each time.
fn stable_fields(line: &Value) -> Value {
    let span = &line["span"];
    json!([
        span["http.method"],
        line["http.route"],
        line["http.status"],
        span["key.id"],
        span["request.id"],
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_logs_one_line_and_a_probe_none() {
    let database = database().await;
    let folder = data_dir();
    let log = folder.path().join("log");
    let args = ["serve", "--offline", "--bind", "127.0.0.1:0", "--auth", "keys"];
    let mut command = binary_logging_to(&log, &args);
    command.args(["--log-format", "json", "--data-dir"]).arg(folder.path());
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let key = database.key(TenantId::DEFAULT, Scope::Write).await;
    let client = client_with(Some(&key));
    let session: Value = {
        let post = client.post(format!("{}/v1/sessions", program.url));
        post.header("x-request-id", "one").send().await.unwrap().json().await.unwrap()
    };
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    for (path, id, client) in [
        (&*path, "two", &client),
        ("/v1/nowhere", "three", &client),
        ("/sessions", "four", &client_with(None)),
        ("/healthz", "five", &client),
        ("/readyz", "six", &client),
        ("/metrics", "seven", &client),
    ] {
        let get = client.get(format!("{}{path}", program.url)).header("x-request-id", id);
        get.send().await.unwrap();
    }
    program.terminate().await;
    let log = std::fs::read_to_string(&log).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let completed: Vec<Value> =
        lines.filter(|line| line["message"] == "request completed").collect();
    assert!(completed.iter().all(|line| line["duration_ms"].is_u64()), "{log}");
    let id = key.id().to_string();
    let one = "/v1/sessions/{session_id}";
    assert_eq!(
        completed.iter().map(stable_fields).collect::<Vec<_>>(),
        [
            json!(["POST", "/v1/sessions", 201, id, "one"]),
            json!(["GET", one, 200, id, "two"]),
            json!(["GET", null, 404, null, "three"]),
            json!(["GET", "/sessions", 401, null, "four"]),
        ]
    );
}
