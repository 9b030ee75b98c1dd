//! Servers that violate the protocol. An invalid message is ignored or fails its call, and the next
//! call succeeds.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use twostep::tools::mcp::ServerSettings;

use super::fake_server::{Fake, app, offered, readiness, results, script_calling, wait_until};
use crate::support::{calls_as, replies, says};

const NO_RESPONSE: &str = "Error: no response received from the tool server fake; the call may \
                           have been executed";

fn result(text: &str, is_error: bool) -> (String, bool) {
    (text.to_owned(), is_error)
}

fn timed_out(tool: &str) -> (String, bool) {
    result(&format!("Error: mcp__fake__{tool} timed out after 3 s"), true)
}

fn echo() -> (String, bool) {
    result("You said hello.", false)
}

/// Calls these tools one after the other, and then `echo`. Returns the results of these tools.
async fn results_of(tools: &[&str]) -> Vec<(String, bool)> {
    let fake = Fake::rogue();
    let settings = ServerSettings { timeout: Duration::from_secs(3), ..fake.settings() };
    let app = app(settings, &script_calling(&[tools, &["echo"]].concat())).await;
    let session = app.session().await;
    assert_eq!(session.ask("Go").await["status"], "completed");
    let mut results = results(&session).await;
    drop(app);
    assert_eq!(results.pop(), Some(echo()));
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_answer_no_request_are_ignored() {
    let valid = || result("Valid.", false);
    assert_eq!(
        results_of(&["twice", "unknown_id", "noise", "null_id", "stderr"]).await,
        [result("One.", false), valid(), valid(), valid(), valid()]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_sends_endless_garbage_is_stopped() {
    assert_eq!(results_of(&["garbage"]).await, [result(NO_RESPONSE, true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_response_is_no_response() {
    assert_eq!(results_of(&["incomplete"]).await, [timed_out("incomplete")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_result_fails_at_most_its_own_call() {
    assert_eq!(
        results_of(&["empty", "empty_error", "deep", "both"]).await,
        [
            result(NO_RESPONSE, true),
            result("Error: ", true),
            result(&format!(r#"{{"a":{}{}}}"#, "[".repeat(50), "]".repeat(50)), false),
            timed_out("both"),
        ]
    );
    assert_eq!(
        results_of(&["unknown_type", "echo", "deeper"]).await,
        [result(NO_RESPONSE, true), echo(), timed_out("deeper")]
    );
    assert_eq!(
        results_of(&["null", "echo", "number"]).await,
        [result(NO_RESPONSE, true), echo(), result(NO_RESPONSE, true)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_server_to_the_client_are_refused() {
    let fake = Fake::rogue();
    let app = app(fake.settings(), &script_calling(&["requests", "echo"])).await;
    let session = app.session().await;
    session.ask("Go").await;
    assert_eq!(results(&session).await, [result("Requested.", false), echo()]);
    let received = fake.received();
    let responses = received.iter().filter(|message| message["id"].is_string());
    let responses: Vec<Value> = responses
        .map(|message| json!([message["id"], message["result"], message["error"]["code"]]))
        .collect();
    let expected = [
        json!(["sampling/createMessage", null, -32601]),
        json!(["roots/list", { "roots": [] }, null]),
        json!(["elicitation/create", { "action": "decline" }, null]),
        json!(["secrets/read", null, -32601]),
    ];
    assert_eq!(responses, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_out_of_order_are_matched_to_their_calls() {
    let fake = Fake::rogue();
    let settings = ServerSettings { is_trusted: true, ..fake.settings() };
    let both = calls_as(&[
        ("toolu_1", "mcp__fake__first", json!({})),
        ("toolu_2", "mcp__fake__second", json!({})),
    ]);
    let app = app(settings, &replies(&[both, says("Done.")])).await;
    let session = app.session().await;
    session.ask("Go").await;
    let mut results = results(&session).await;
    results.sort();
    assert_eq!(results, [result("First.", false), result("Second.", false)]);
    let history = session.history().await;
    let blocks = history[2]["message"]["content"].as_array().unwrap();
    let blocks = blocks.iter().map(|block| (&block["tool_use_id"], &block["content"]));
    let results: Vec<_> = blocks.map(|(id, content)| (id.clone(), content.to_string())).collect();
    assert!(results[0].0 == "toolu_1" && results[0].1.contains("First."), "{results:?}");
    assert!(results[1].0 == "toolu_2" && results[1].1.contains("Second."), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_32_pages_of_a_list_are_read() {
    let fake = Fake::rogue().with("endless", "");
    let app = app(fake.settings(), &script_calling(&["echo"])).await;
    assert_eq!(offered(&app).await, ["mcp__fake__echo"]);
    let session = app.session().await;
    session.ask("Go").await;
    assert_eq!(results(&session).await, [echo()]);
    let lists = fake.received().into_iter().filter(|message| message["method"] == "tools/list");
    assert_eq!(lists.count(), 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_fetches_no_reference_and_its_check_is_bounded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/schema.json", listener.local_addr().unwrap());
    let fake = Fake::rogue().with("hostile_schemas", &url);
    let app = app(fake.settings(), &script_calling(&["doubling", "echo"])).await;
    let names = offered(&app).await;
    for left_out in ["web", "file", "meta", "regex", "list", ""] {
        assert!(!names.contains(&format!("mcp__fake__{left_out}")), "{left_out}");
    }
    let escaped: Vec<_> =
        names.iter().filter(|name| name.contains("a_b_") || name.contains("rtl")).collect();
    assert_eq!(escaped, ["mcp__fake__a_b__2J_023a21ef", "mcp__fake__rtl__eb70ae33"]);
    assert_eq!(names.len(), 19 + 3);
    let session = app.session().await;
    session.ask("Go").await;
    let too_much = "Error: invalid input for mcp__fake__doubling: it is too expensive to validate \
                    against the schema";
    assert_eq!(results(&session).await, [result(too_much, true), echo()]);
    let connection = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
    assert!(connection.is_err(), "a schema was fetched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_an_unknown_protocol_version_is_not_connected() {
    let fake = Fake::rogue().with("old_version", "");
    let app = app(fake.settings(), &script_calling(&[])).await;
    let check = json!({ "status": "warning", "detail": "not connected" });
    wait_until("the server is connected", async || readiness(&app).await == (true, check.clone()))
        .await;
    assert_eq!(offered(&app).await, Vec::<String>::new());
}
