//! The wait before a request is retried, and the release of the slot during the wait.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use serde_json::{Value, json};

use crate::support::{Received, Setup, TestApp, replies, says};

/// A script with a good reply after these failures.
fn after(failures: &[Value]) -> Value {
    let mut reply = says("Here I am.");
    reply["fail_first"] = failures.into();
    replies(&[reply])
}

/// The waits in the reschedule events of a run, in milliseconds.
fn waits(events: &[Value]) -> Vec<i128> {
    let again = events.iter().filter(|event| event["type"] == "session.status_rescheduled");
    again
        .map(|event| {
            let time = |key: &str| event[key].as_str().unwrap().parse::<Timestamp>().unwrap();
            time("created_at").duration_until(time("retry_at")).as_millis()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_waits_as_long_as_asked_in_every_format() {
    let servers_time = Timestamp::now() + Duration::from_hours(1);
    let date = |at: &Timestamp| DateTimePrinter::new().timestamp_to_rfc9110_string(at).unwrap();
    let by_date = json!({ "date": date(&servers_time),
                          "retry-after": date(&(servers_time + Duration::from_secs(2))) });
    let table = [
        (json!({ "retry-after": "2" }), 2000),
        (json!({ "retry-after": "1.5" }), 1500),
        (json!({ "retry-after-ms": "1200", "retry-after": "9" }), 1200),
        (by_date, 2000),
    ];
    for (headers, asked) in table {
        let reply = json!({ "status": 429, "headers": headers });
        let app = TestApp::start(after(&[reply])).await;
        let session = app.session().await;
        let started = Instant::now();
        assert_eq!(session.ask("Where are you?").await["output_text"], "Here I am.");
        assert!(started.elapsed().as_millis() >= asked, "{headers}");
        let [reported] = waits(&session.events().await)[..] else { panic!("{headers}") };
        let asked = i128::try_from(asked).unwrap();
        assert!((asked - 700..=asked).contains(&reported), "{headers}: {reported} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_of_more_than_a_minute_is_reported_and_fails_the_run() {
    for (headers, seconds) in
        [(json!({ "retry-after": "61" }), 61), (json!({ "retry-after-ms": "3600000" }), 3600)]
    {
        let reply = json!({ "status": 429, "headers": headers });
        let app = TestApp::start(replies(&[reply])).await;
        let run = app.session().await.ask("Where are you?").await;
        let message = format!(
            "the model answered with rate_limit_error and requests a pause of {seconds} s, which \
             is longer than a run waits: "
        );
        let error = &run["error"];
        assert_eq!(error["type"], "model_rate_limited_error");
        assert!(error["message"].as_str().unwrap().starts_with(&message), "{error}");
        assert_eq!(run["stop_reason"], json!({ "type": "error" }), "nothing was retried");
        assert_eq!(app.upstream().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_retry_header_of_the_server_overrides_its_status() {
    let advised = |status: u16, advice: &str| {
        json!({ "status": status,
                "headers": { "x-should-retry": advice, "retry-after-ms": "5" } })
    };
    let app = TestApp::start(after(&[advised(400, "true")])).await;
    assert_eq!(app.session().await.ask("Where are you?").await["output_text"], "Here I am.");
    drop(app);
    let app = TestApp::start(replies(&[advised(529, "false")])).await;
    let run = app.session().await.ask("Where are you?").await;
    assert_eq!(run["error"]["type"], "model_overloaded_error");
    assert_eq!(app.upstream().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_slot_serves_another_session_while_a_run_waits() {
    let mut waits = says("Here I am.");
    waits["fail_first"] = json!([{ "status": 529, "headers": { "retry-after": "50" } }]);
    let script = json!({ "conversations": [
        { "when": "wait", "replies": [waits] },
        { "replies": [says("At once.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, Setup { slots: Some(1), ..Setup::default() }).await;
    let waiting = app.session().await;
    let run = waiting.post(json!({ "content": "wait" })).await;
    waiting.reached(&run, "session.status_rescheduled").await;

    let other = app.session().await;
    for text in ["First", "Second"] {
        assert_eq!(other.ask(text).await["output_text"], "At once.");
    }
    assert_eq!(waiting.run(&run).await["status"], "running", "it is still claimed");
    waiting.cancel(&run).await;
    assert_eq!(waiting.settled(&run).await["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_released_its_slot_continues_after_its_wait() {
    let mut waits = says("Here I am.");
    waits["fail_first"] = json!([{ "status": 529, "headers": { "retry-after": "5.2" } }]);
    let mut slow = says("At last.");
    slow["pace_ms"] = 700.into();
    slow["chunk"] = 1.into();
    let script = json!({ "conversations": [
        { "when": "wait", "replies": [waits] },
        { "replies": [slow] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, Setup { slots: Some(1), ..Setup::default() }).await;
    let waiting = app.session().await;
    let first = waiting.post(json!({ "content": "wait" })).await;
    waiting.reached(&first, "session.status_rescheduled").await;
    let other = app.session().await;
    let second = other.post(json!({ "content": "Slowly" })).await;
    assert_eq!(other.settled(&second).await["output_text"], "At last.");
    let run = waiting.settled(&first).await;
    assert_eq!(run["output_text"], "Here I am.");
    // There is one slot, so the first run waits until the second one has settled.
    let time = |run: &Value| run["finished_at"].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert!(time(&run) >= time(&other.run(&second).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_connects_during_the_wait_receives_no_preview_of_the_broken_reply() {
    let mut reply = says("Here I am.");
    reply["fail_first"] = json!([
        { "content": [{ "type": "text", "text": "WRONG, and WRONG again" }], "error_after": 5,
          "pace_ms": 20 },
        { "status": 429, "headers": { "retry-after": "1.5" } },
    ]);
    let app = TestApp::start(replies(&[reply])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Where are you?" })).await;
    session.reached(&run, "session.status_rescheduled").await;
    let events = session.open(&session.run_stream(&run), None).await.rest().await;
    let shown: Vec<&Received> = events.iter().filter(|event| event.name == "event_delta").collect();
    let text: String =
        shown.iter().filter_map(|event| event.data["delta"]["content"]["text"].as_str()).collect();
    assert_eq!(text, "Here I am.");
}
