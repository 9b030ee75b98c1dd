//! Routes, headers and records.

use std::time::{Duration, Instant};

use serde_json::json;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{get, open, request, send, start, start_with};
use crate::{Options, Script};

const ROUTE: &str = "POST /v1/messages";
const VERSION: &str = "anthropic-version: 2023-06-01\r\n";

fn body() -> String {
    request(&json!([{ "role": "user", "content": "hello" }])).to_string()
}

#[tokio::test]
async fn either_kind_of_key_is_accepted_and_a_missing_key_is_not() {
    let simulator = start(&json!({})).await;
    for (headers, status) in [
        ("x-api-key: k\r\n", 200),
        ("authorization: Bearer k\r\n", 200),
        ("", 401),
        ("x-api-key: \r\n", 401),
        ("authorization: Basic k\r\n", 401),
    ] {
        let reply = send(&simulator, ROUTE, &format!("{VERSION}{headers}"), &body()).await;
        assert_eq!(reply.status, status, "{headers}");
        assert!(reply.head.contains("\r\nrequest-id: req_011"));
    }
}

#[tokio::test]
async fn the_version_is_required_and_known() {
    let simulator = start(&json!({})).await;
    for (version, status) in [
        ("anthropic-version: 2023-06-01\r\n", 200),
        ("anthropic-version: 2026-10-21\r\n", 200),
        ("anthropic-version: 2020-01-01\r\n", 400),
        ("", 400),
    ] {
        let reply = send(&simulator, ROUTE, &format!("x-api-key: k\r\n{version}"), &body()).await;
        assert_eq!(reply.status, status, "{version}");
    }
}

#[tokio::test]
async fn an_unknown_beta_feature_is_refused() {
    let simulator = start(&json!({})).await;
    for (betas, status) in [
        ("compact-2026-01-12", 200),
        ("compact-2026-01-12,task-budgets-2026-03-13", 200),
        ("compact-2026-01-12, nonsense-2026-01-01", 400),
        ("", 400),
    ] {
        let headers = format!("{VERSION}x-api-key: k\r\nanthropic-beta: {betas}\r\n");
        let reply = send(&simulator, ROUTE, &headers, &body()).await;
        assert_eq!(reply.status, status, "{betas}");
    }
}

#[tokio::test]
async fn an_error_has_its_request_id_in_header_and_body() {
    let simulator = start(&json!({})).await;
    let reply =
        send(&simulator, ROUTE, "x-api-key: k\r\nanthropic-version: 2023-06-01\r\n", "{").await;
    let body = reply.json();
    assert_eq!(body["type"], "error");
    assert_eq!(body["error"]["type"], "invalid_request_error");
    let id = body["request_id"].as_str().unwrap().to_lowercase();
    assert!(reply.head.contains(&format!("\r\nrequest-id: {id}")));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let simulator = start(&json!({})).await;
    let headers = format!("{VERSION}x-api-key: k\r\n");
    let huge = " ".repeat(32 * 1024 * 1024 + 1);
    assert_eq!(send(&simulator, ROUTE, &headers, &huge).await.status, 413);
}

#[tokio::test]
async fn tokens_are_counted_by_the_same_rules() {
    let simulator = start(&json!({})).await;
    let headers = format!("{VERSION}x-api-key: k\r\n");
    let count = |body: String| {
        let (simulator, headers) = (&simulator, &headers);
        async move { send(simulator, "POST /v1/messages/count_tokens", headers, &body).await }
    };
    let ok = json!({ "model": "simulator", "messages": [{ "role": "user", "content": "hello" }] });
    let tokens = ok.to_string().len() / 4 + 1;
    assert_eq!(count(ok.to_string()).await.json(), json!({ "input_tokens": tokens }));
    let refused = count(body()).await.json();
    assert_eq!(refused["error"]["message"], "max_tokens: Extra inputs are not permitted");
}

#[tokio::test]
async fn counting_can_fail_and_then_succeed_or_hang() {
    let headers = format!("{VERSION}x-api-key: k\r\n");
    let body =
        json!({ "model": "simulator", "messages": [{ "role": "user", "content": "hello" }] });
    let body = body.to_string();
    let route = "POST /v1/messages/count_tokens";
    let error = json!({ "type": "rate_limit_error", "message": "later", "details": null });
    let failing = json!({ "fail_first": [{ "status": 429, "error": error }, { "status": 529 }] });
    let simulator = start(&json!({ "counting": failing })).await;
    let failed = send(&simulator, route, &headers, &body).await;
    assert_eq!((failed.status, &failed.json()["error"]), (429, &error));
    assert_eq!(send(&simulator, route, &headers, &body).await.status, 529);
    let counted = send(&simulator, route, &headers, &body).await.json();
    assert_eq!(counted, json!({ "input_tokens": body.len() / 4 + 1 }));

    let simulator = start(&json!({ "counting": { "delay_ms": 3_600_000 } })).await;
    let mut socket = open(&simulator, route, &headers, &body).await;
    let mut byte = [0];
    let silence = timeout(Duration::from_millis(100), socket.read(&mut byte)).await;
    assert!(silence.is_err(), "{silence:?}");
    simulator.stop().await;
    assert_eq!(socket.read(&mut byte).await.unwrap(), 1, "a stop cuts the wait short");
}

#[tokio::test]
async fn models_are_listed_and_found_by_name() {
    let simulator = start(&json!({})).await;
    let list = get(&simulator, "/v1/models?limit=20").await.json();
    assert_eq!(list["data"][0]["id"], "simulator");
    let model = get(&simulator, "/v1/models/claude-sonnet-5-5").await.json();
    assert_eq!(model["max_tokens"], 128_000);
    assert_eq!(model["capabilities"]["thinking"]["types"]["disabled"]["supported"], false);
    let older = get(&simulator, "/v1/models/claude-opus-4-5").await.json();
    assert_eq!(
        (&older["max_input_tokens"], &older["max_tokens"]),
        (&json!(200_000), &json!(64_000))
    );
    let efforts = &older["capabilities"]["effort"];
    assert_eq!(
        ["low", "high", "xhigh", "max"].map(|level| &efforts[level]["supported"]),
        [&json!(true), &json!(true), &json!(false), &json!(false)]
    );
    assert_eq!(
        (&older["capabilities"]["compaction"], &model["capabilities"]["compaction"]),
        (&json!({ "supported": false }), &json!({ "supported": true }))
    );
    let manages = json!({
        "supported": true,
        "clear_thinking_20251015": { "supported": true },
        "clear_tool_uses_20250919": { "supported": true },
        "compact_20260112": { "supported": true },
    });
    assert_eq!(model["capabilities"]["context_management"], manages);
    let clears = json!({
        "supported": true,
        "clear_thinking_20251015": { "supported": true },
        "clear_tool_uses_20250919": { "supported": true },
        "compact_20260112": { "supported": false },
    });
    assert_eq!(older["capabilities"]["context_management"], clears);
    let missing = get(&simulator, "/v1/models/gpt").await;
    assert_eq!((missing.status, &missing.json()["error"]["message"]), (404, &json!("model: gpt")));
    for (path, status) in [("/v2", 404), ("/v1/messages", 405)] {
        let reply = get(&simulator, path).await;
        assert_eq!(reply.status, status);
        assert!(reply.head.contains("\r\nrequest-id: req_011"));
    }
}

#[tokio::test]
async fn requests_are_recorded_as_received_without_showing_the_key() {
    let simulator = start(&json!({})).await;
    let spaced = body().replace(':', ": ");
    let headers = format!("{VERSION}x-api-key: secret-key\r\n");
    send(&simulator, ROUTE, &headers, &spaced).await;
    send(&simulator, ROUTE, &headers, "[]").await;
    let requests = simulator.requests();
    assert_eq!(requests[0].body, spaced);
    assert_eq!((requests[0].path.as_str(), requests[0].status), ("/v1/messages", 200));
    assert_eq!(requests[0].refusal, None);
    assert_eq!(simulator.refusals(), ["The request body must be a JSON object"]);
    assert!(!format!("{requests:?}").contains("secret-key"));
}

#[tokio::test]
async fn a_record_keeps_the_latest_requests_and_is_off_by_default() {
    let few = Options { record: 2, ..Options::default() };
    for (options, kept) in [(few, 2), (Options::default(), 0)] {
        let simulator = start_with(Script::demo(), options).await;
        for _ in 0..3 {
            send(&simulator, ROUTE, VERSION, "").await;
        }
        assert_eq!(simulator.requests().len(), kept);
    }
}

#[tokio::test]
async fn a_dropped_simulator_stops_listening() {
    let simulator = start(&json!({})).await;
    let address = simulator.base_url().replace("http://", "");
    assert!(TcpStream::connect(&address).await.is_ok());
    drop(simulator);
    let deadline = Instant::now() + Duration::from_secs(5);
    while TcpStream::connect(&address).await.is_ok() {
        assert!(Instant::now() < deadline, "still listening");
        tokio::task::yield_now().await;
    }
}
