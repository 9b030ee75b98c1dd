//! A failing model server: temporary failures are retried, permanent ones fail the run at once, and
//! no part of a broken reply is stored.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Received, Session, Setup, TestApp, calls, replies, says};

/// A script with a good reply after these failures.
fn after(failures: &[Value]) -> Value {
    let mut reply = says("Here I am.");
    reply["fail_first"] = failures.into();
    replies(&[reply])
}

/// A script that gives this reply to the message `go` and answers all others.
fn fails_once(reply: &Value) -> Value {
    json!({ "conversations": [
        { "when": "go", "replies": [reply] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" })
}

/// A failure status whose headers ask for an immediate retry.
fn soon(status: u16) -> Value {
    json!({ "status": status, "headers": { "retry-after-ms": "5" } })
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// Asserts that no text of a broken reply is in the history or in a stored event.
async fn assert_nothing_stored(session: &Session<'_>) {
    for stored in [session.history().await, session.events().await] {
        let text = Value::from(stored).to_string();
        assert!(!text.contains("WRONG"), "{text}");
    }
}

/// Sends the message that fails, and asserts that its run fails with an error of this type and with
/// this stop reason, and that the session continues.
async fn assert_fails(session: &Session<'_>, kind: &str, stop_reason: &str) {
    let run = session.ask(&format!("go {}", session.id)).await;
    let outcome =
        json!([run["status"], run["stop_reason"], run["error"]["type"], run.get("output_text"),]);
    let expected = json!(["failed", { "type": stop_reason }, kind, null]);
    assert_eq!(outcome, expected);
    let events = session.events().await;
    let [.., error, idle] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&error["type"], &error["error"]), (&json!("session.error"), &run["error"]));
    assert_eq!(idle["type"], "session.status_idle");
    assert_eq!(idle["stop_reason"], run["stop_reason"]);
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_an_overloaded_model_is_retried() {
    let app = TestApp::start(after(&[json!({ "status": 529 }), json!({ "status": 529 })])).await;
    let session = app.session().await;
    let run = session.ask("Where are you?").await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Here I am.")));
    assert_eq!(run["model_requests"], 1, "requests that gave a reply");
    let events = session.events().await;
    let again = of_kind(&events, "session.status_rescheduled");
    let attempts: Vec<&Value> = again.iter().map(|event| &event["attempt"]).collect();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(app.upstream().len(), 3);
    let bodies: Vec<String> = (0..3).map(|index| app.upstream().text(index)).collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "the same request each time");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_temporary_failure_is_retried() {
    let silent = json!({ "content": [{ "type": "text", "text": "WRONG" }], "hang_after": 4 });
    let wrong = |key: &str, value: Value| {
        let mut reply = says("WRONG, and WRONG again");
        reply[key] = value;
        reply
    };
    let mut clean = wrong("cut_after", json!(6));
    clean["cut_clean"] = true.into();
    let failures = [
        soon(500),
        soon(502),
        soon(503),
        soon(504),
        soon(429),
        soon(409),
        soon(529),
        wrong("error_after", json!(5)),
        wrong("error_after", json!(1)),
        wrong("cut_after", json!(5)),
        wrong("cut_after", json!({ "bytes": 0 })),
        wrong("cut_after", json!({ "bytes": 77 })),
        clean,
        json!({ "raw_sse": "" }),
        silent,
    ];
    let setup = Setup { model_idle_timeout: Some(Duration::from_millis(500)), ..Setup::default() };
    let app = TestApp::start_with(after(&[]), setup).await;
    for (number, failure) in failures.into_iter().enumerate() {
        app.play(&after(std::slice::from_ref(&failure)));
        let session = app.session().await;
        let run = session.ask(&format!("Where are you, {number}?")).await;
        assert_eq!(run["output_text"], "Here I am.", "{failure}: {run}");
        assert_eq!(app.upstream().len(), 2 * (number + 1), "{failure}");
        assert_nothing_stored(&session).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn previews_of_a_broken_stream_are_reset_when_the_reply_starts_again() {
    let wrong = json!({ "content": [{ "type": "text", "text": "WRONG, and WRONG again" }],
                        "error_after": 5, "pace_ms": 40 });
    let app = TestApp::start(after(&[wrong])).await;
    let session = app.session().await;
    let events = session.stream("Where are you?").await.rest().await;
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    let position = |name: &str| names.iter().position(|other| *other == name).unwrap();
    let again = position("session.status_rescheduled");
    assert!(position("event_delta") < again, "the broken reply had no preview: {names:?}");

    let starts: Vec<&Received> =
        events.iter().filter(|event| event.name == "event_start").collect();
    assert_eq!(starts.len(), 2);
    assert_eq!(starts[0].data, starts[1].data, "a start with a known id is a reset");
    let message = &events[position("agent.message")].data;
    assert_eq!(message["id"], starts[0].data["event"]["id"]);
    let previewed: String = events[again..]
        .iter()
        .filter_map(|event| event.data["delta"]["content"]["text"].as_str())
        .collect();
    assert_eq!(previewed, "Here I am.");
    assert_nothing_stored(&session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permanent_failures_are_not_retried() {
    let limited = |code: &str| {
        json!({ "status": 429, "error": { "type": "rate_limit_error", "message": "scripted",
                "details": { "error_code": code } } })
    };
    let table = [
        (json!({ "status": 400 }), "model_request_failed_error"),
        (json!({ "status": 401 }), "model_request_failed_error"),
        (json!({ "status": 402 }), "billing_error"),
        (json!({ "status": 403 }), "model_request_failed_error"),
        (json!({ "status": 404 }), "model_request_failed_error"),
        (json!({ "status": 413 }), "model_request_failed_error"),
        (limited("enforced_spend_limit_reached"), "billing_error"),
        (limited("contract_spend_limit_reached"), "billing_error"),
        (
            json!({ "status": 429, "headers": { "retry-after": "3600" } }),
            "model_rate_limited_error",
        ),
        (
            json!({ "raw_sse": "event: message_start\ndata: {oops\n\n" }),
            "model_request_failed_error",
        ),
    ];
    let app = TestApp::start(replies(&[])).await;
    for (number, (reply, kind)) in table.into_iter().enumerate() {
        app.play(&fails_once(&reply));
        let session = app.session().await;
        assert_fails(&session, kind, "error").await;
        let asked = app.upstream().len();
        assert_eq!(asked, 2 * (number + 1), "{reply}: one request for each message");
        let events = session.events().await;
        assert_eq!(of_kind(&events, "session.status_rescheduled").len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_fails_after_eight_tries_of_a_request() {
    let app = TestApp::start(fails_once(&soon(529))).await;
    let session = app.session().await;
    assert_fails(&session, "model_overloaded_error", "retries_exhausted").await;
    assert_eq!(app.upstream().len(), 9);
    let events = session.events().await;
    assert_eq!(of_kind(&events, "session.status_rescheduled").len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_waits_as_long_as_the_model_asks() {
    let busy = json!({ "status": 429, "headers": { "retry-after": "1" } });
    let app = TestApp::start(after(&[busy])).await;
    let session = app.session().await;
    let started = Instant::now();
    session.ask("Where are you?").await;
    let took = started.elapsed().as_millis();
    assert!((1000..30_000).contains(&took), "it took {took} ms");
    let events = session.events().await;
    let again = of_kind(&events, "session.status_rescheduled")[0];
    let time = |key: &str| again[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let ahead = time("created_at").duration_until(time("retry_at")).as_millis();
    assert!((900..=1000).contains(&ahead), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_a_stream_that_breaks_never_runs() {
    let call = calls("write_file", json!({ "path": "made.txt", "content": "WRONG" }));
    let mut truncated = call.clone();
    truncated["cut_after"] = 6.into();
    // All but the last event: the call is complete and its stop reason is known.
    let unfinished = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",",
        "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"simulator\",\"content\":[],",
        "\"stop_reason\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,",
        "\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"write_file\",\"input\":{}}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,",
        "\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":",
        "\"{\\\"path\\\":\\\"made.txt\\\",\\\"content\\\":\\\"WRONG\\\"}\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",",
        "\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":9}}\n\n",
    );
    for broken in [truncated, json!({ "raw_sse": unfinished })] {
        let app = TestApp::start(after(&[broken])).await;
        let session = app.session().await;
        assert_eq!(session.ask("Where are you?").await["output_text"], "Here I am.");
        assert!(!app.folder.path().join("made.txt").exists());
        let events = session.events().await;
        assert_eq!(of_kind(&events, "agent.tool_use").len(), 0);
        assert_nothing_stored(&session).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_between_rounds_keeps_the_results_of_the_tools() {
    let mut answer = says("It is about noon.");
    answer["fail_first"] = json!([soon(529), soon(500)]);
    let app = TestApp::start(replies(&[calls("get_time", json!({})), answer])).await;
    let session = app.session().await;
    let run = session.ask("What time is it?").await;
    assert_eq!(run["output_text"], "It is about noon.");
    assert_eq!(app.upstream().len(), 4);
    let events = session.events().await;
    assert_eq!(of_kind(&events, "agent.tool_result").len(), 1, "the tool ran once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_with_a_nul_is_requested_again_only_for_another_call() {
    let nul = "a\u{0}b";
    let named = json!({ "content": [{ "type": "text", "text": "Hi" }], "model": nul });
    let call = json!({ "content": [{ "type": "tool_use", "name": nul, "input": {} }] });
    let id = json!({ "content": [{ "type": "tool_use", "name": "get_time", "id": nul }] });
    for (reply, most) in [(named, 2), (call, 3), (id, 2)] {
        let app = TestApp::start(fails_once(&reply)).await;
        let session = app.session().await;
        let run = session.post(json!({ "content": "go" })).await;
        let run = session.settled(&run).await;
        let asked = app.upstream().len();
        assert!(asked <= most, "{reply}: the model was asked {asked} times for {run}");
        assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
        app.stop().await;
    }
}
