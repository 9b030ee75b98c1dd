//! Servers that keep to no rule: what they say wrong is passed by or is the result of a call, and
//! the next call is answered.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use twostep::tools::mcp::ServerSettings;

use super::fake_server::{Fake, app, asks_for, offered, readiness, results, until};
use crate::support::{calls_as, replies, says};

const NO_RESPONSE: &str = "Error: no response received from the tool server fake; the call may have \
                           happened all the same";

fn told(text: &str, is_error: bool) -> (String, bool) {
    (text.to_owned(), is_error)
}

fn timed_out(tool: &str) -> (String, bool) {
    told(&format!("Error: mcp__fake__{tool} timed out after 3 s"), true)
}

fn echo() -> (String, bool) {
    told("You said hello.", false)
}

/// What becomes of calls of these tools, one after the other, and of one more.
async fn after(tools: &[&str]) -> Vec<(String, bool)> {
    let fake = Fake::rogue();
    let settings = ServerSettings { timeout: Duration::from_secs(3), ..fake.settings() };
    let app = app(settings, &asks_for(&[tools, &["echo"]].concat())).await;
    let session = app.session().await;
    assert_eq!(session.ask("Go").await["status"], "completed");
    let mut results = results(&session).await;
    drop(app);
    assert_eq!(results.pop(), Some(echo()));
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_asked_for_is_passed_by() {
    let well = || told("Well.", false);
    assert_eq!(
        after(&["twice", "unknown", "noise", "nobody", "whisper"]).await,
        [told("One.", false), well(), well(), well(), well()]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_babbles_without_end_is_ended() {
    assert_eq!(after(&["babble"]).await, [told(NO_RESPONSE, true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_an_answer_is_none() {
    assert_eq!(after(&["half"]).await, [timed_out("half")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_another_shape_is_told_as_far_as_it_goes() {
    assert_eq!(
        after(&["hollow", "blank", "deep", "both"]).await,
        [
            told(NO_RESPONSE, true),
            told("Error: ", true),
            told(&format!(r#"{{"a":{}{}}}"#, "[".repeat(50), "]".repeat(50)), false),
            timed_out("both"),
        ]
    );
    assert_eq!(
        after(&["typeless", "echo", "deeper"]).await,
        [told(NO_RESPONSE, true), echo(), timed_out("deeper")]
    );
    assert_eq!(
        after(&["null", "echo", "number"]).await,
        [told(NO_RESPONSE, true), echo(), told(NO_RESPONSE, true)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_asks_of_us_is_refused() {
    let fake = Fake::rogue();
    let app = app(fake.settings(), &asks_for(&["asks", "echo"])).await;
    let session = app.session().await;
    session.ask("Go").await;
    assert_eq!(results(&session).await, [told("I asked.", false), echo()]);
    let heard = fake.heard();
    let answers = heard.iter().filter(|heard| heard["id"].is_string());
    let answers: Vec<Value> = answers
        .map(|heard| json!([heard["id"], heard["result"], heard["error"]["code"]]))
        .collect();
    let expected = [
        json!(["sampling/createMessage", null, -32601]),
        json!(["roots/list", { "roots": [] }, null]),
        json!(["elicitation/create", { "action": "decline" }, null]),
        json!(["secrets/read", null, -32601]),
    ];
    assert_eq!(answers, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_in_another_order_belong_to_their_calls() {
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
    assert_eq!(results, [told("First.", false), told("Second.", false)]);
    let history = session.history().await;
    let told_of = history[2]["message"]["content"].as_array().unwrap();
    let told_of = told_of.iter().map(|block| (&block["tool_use_id"], &block["content"]));
    let ids: Vec<_> = told_of.map(|(id, content)| (id.clone(), content.to_string())).collect();
    assert!(ids[0].0 == "toolu_1" && ids[0].1.contains("First."), "{ids:?}");
    assert!(ids[1].0 == "toolu_2" && ids[1].1.contains("Second."), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_without_end_is_read_for_a_while() {
    let fake = Fake::rogue().with("endless", "");
    let app = app(fake.settings(), &asks_for(&["echo"])).await;
    assert_eq!(offered(&app).await, ["mcp__fake__echo"]);
    let session = app.session().await;
    session.ask("Go").await;
    assert_eq!(results(&session).await, [echo()]);
    let lists = fake.heard().into_iter().filter(|heard| heard["method"] == "tools/list");
    assert_eq!(lists.count(), 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_reaches_nothing_and_takes_no_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/schema.json", listener.local_addr().unwrap());
    let fake = Fake::rogue().with("wild", &url);
    let app = app(fake.settings(), &asks_for(&["doubling", "echo"])).await;
    let names = offered(&app).await;
    for left_out in ["web", "file", "meta", "regex", "listless", ""] {
        assert!(!names.contains(&format!("mcp__fake__{left_out}")), "{left_out}");
    }
    let odd: Vec<_> =
        names.iter().filter(|name| name.contains("a_b_") || name.contains("rtl")).collect();
    assert_eq!(odd, ["mcp__fake__a_b__2J_023a21ef", "mcp__fake__rtl__eb70ae33"]);
    assert_eq!(names.len(), 19 + 3);
    let session = app.session().await;
    session.ask("Go").await;
    let too_much = "Error: invalid input for mcp__fake__doubling: it takes too much work to be \
                    checked against the schema";
    assert_eq!(results(&session).await, [told(too_much, true), echo()]);
    let nobody = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
    assert!(nobody.is_err(), "somebody came");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protocol_that_nobody_knows_is_not_spoken() {
    let fake = Fake::rogue().with("old", "");
    let app = app(fake.settings(), &asks_for(&[])).await;
    let check = json!({ "status": "warning", "detail": "not connected" });
    until("it was connected", async || readiness(&app).await == (true, check.clone())).await;
    assert_eq!(offered(&app).await, Vec::<String>::new());
}
