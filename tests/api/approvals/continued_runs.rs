//! Responses to decisions and results: they wait for the run that continues, stream it, or say where
//! its stream continues.

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::{
    EventStream, Received, Session, Setup, TestApp, asks, calls_as, pending, problem, replies, says,
};

/// A client tool.
fn door() -> Value {
    let schema = json!({ "type": "object", "properties": { "door": { "type": "integer" } } });
    json!({ "name": "open_door", "description": "Opens a door.", "client": true, "input_schema": schema })
}

/// A service whose model calls the client tool with each of these ids, then answers.
async fn app(ids: &[&str]) -> TestApp {
    let call = |id: &&str| ((*id).to_owned(), json!({ "door": 1 }));
    let calls: Vec<(String, Value)> = ids.iter().map(call).collect();
    let calls: Vec<(&str, &str, Value)> =
        calls.iter().map(|(id, input)| (id.as_str(), "open_door", input.clone())).collect();
    TestApp::start_with(
        replies(&[calls_as(&calls), says("It said: {{results}}")]),
        Setup::default(),
    )
    .await
}

fn result(id: &str) -> Value {
    json!([{ "tool_use_id": id, "content": "open" }])
}

async fn streamed(request: RequestBuilder) -> Vec<Received> {
    let response = request.header("accept", "text/event-stream").send().await.unwrap();
    EventStream::new(response).rest().await
}

/// The names of the events with a number, without those of model requests.
fn names(events: &[Received]) -> Vec<&str> {
    let numbered = events.iter().filter(|event| event.id.is_some());
    let names = numbered.map(|event| event.name.as_str());
    names.filter(|name| !name.starts_with("span.")).collect()
}

const CONTINUED: [&str; 4] =
    ["session.status_running", "agent.message", "session.usage", "session.status_idle"];

fn assert_ends_with_answer(events: &[Received]) {
    let last = events.last().unwrap();
    assert_eq!(
        (last.name.as_str(), &last.data["stop_reason"]["type"]),
        ("session.status_idle", &json!("end_turn"))
    );
}

async fn json_of(response: Response, status: u16) -> Value {
    assert_eq!(response.status(), status);
    response.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_result_begins_with_it_and_ends_with_the_answer() {
    let app = app(&["toolu_1"]).await;
    let session = app.session_with(json!({ "tools": [door()] })).await;
    let run = session.ask("Open").await;
    let request = session.submit_results(&result("toolu_1"));
    let response = request.header("accept", "text/event-stream").send().await.unwrap();
    let run_path = session.path(&format!("/runs/{}", run["id"].as_str().unwrap()));
    assert_eq!(response.headers()["content-location"], run_path);
    assert_eq!(response.headers()["location"], format!("{run_path}/stream"));
    let events = EventStream::new(response).rest().await;
    let expected: Vec<&str> = ["user.custom_tool_result"].into_iter().chain(CONTINUED).collect();
    assert_eq!(names(&events), expected);
    assert_ends_with_answer(&events);
    // A repeated request gets the same events, and after the last of them the end.
    let repeated = streamed(session.submit_results(&result("toolu_1"))).await;
    assert_eq!(names(&repeated), expected);
    let last = events.last().unwrap().id.unwrap().to_string();
    let request = session.submit_results(&result("toolu_1")).header("last-event-id", last);
    assert_eq!(names(&streamed(request).await), Vec::<&str>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_waits_for_the_run() {
    let app = app(&["toolu_1"]).await;
    let session = app.session_with(json!({ "tools": [door()] })).await;
    let run = session.ask("Open").await;
    let request = session.submit_results(&result("toolu_1")).header("prefer", "wait=60");
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["preference-applied"], "wait=60");
    let run_path = session.path(&format!("/runs/{}", run["id"].as_str().unwrap()));
    assert_eq!(response.headers()["content-location"], run_path);
    let settled = json_of(response, 200).await;
    assert_eq!(settled["output_text"], "It said: open");
    let newest = session.events().await.last().unwrap()["seq"].clone();
    assert_eq!(settled["seq"], newest);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_url_of_an_answer_continues_after_it() {
    let app = app(&["toolu_1"]).await;
    let session = app.session_with(json!({ "tools": [door()] })).await;
    let run = session.ask("Open").await;
    assert_eq!(run["seq"], session.events().await.last().unwrap()["seq"]);
    let answered = session.accepted(session.submit_results(&result("toolu_1"))).await;
    let events = session.events().await;
    let answer = events.iter().find(|event| event["type"] == "user.custom_tool_result").unwrap();
    assert!(answered["seq"].as_i64() >= answer["seq"].as_i64(), "{answered}");
    let events = streamed(app.get(answered["stream_url"].as_str().unwrap())).await;
    assert_eq!(names(&events), CONTINUED);
    assert_ends_with_answer(&events);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_run_continues_after_waits_that_are_over() {
    let app = app(&["toolu_1"]).await;
    let session = app.session_with(json!({ "tools": [door()] })).await;
    let run = session.ask("Open").await;
    let path = session.run_stream(&run);
    let waits = streamed(app.get(&path)).await;
    assert_eq!(waits.last().unwrap().data["stop_reason"]["type"], "requires_action");
    session.accepted(session.submit_results(&result("toolu_1"))).await;
    // At once, and after the run has settled.
    for _ in 0..2 {
        let events = streamed(app.get(&path)).await;
        assert_eq!(names(&events)[..3], names(&waits)[..3]);
        assert_ends_with_answer(&events);
        session.settled(&run).await;
    }
}

/// The ids of the calls that the last event of a stream names as waiting.
fn still_waiting(events: &[Received]) -> Value {
    let last = events.last().unwrap();
    let stop_reason = &last.data["stop_reason"];
    assert_eq!(
        (last.name.as_str(), &stop_reason["type"]),
        ("session.status_idle", &json!("requires_action"))
    );
    stop_reason["event_ids"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_result_ends_with_the_calls_that_still_wait() {
    let app = app(&["toolu_1", "toolu_2"]).await;
    let session = app.session_with(json!({ "tools": [door()] })).await;
    session.ask("Open").await;
    // The second one is the response to a repeated request.
    for _ in 0..2 {
        let first = streamed(session.submit_results(&result("toolu_1"))).await;
        assert_eq!(names(&first), ["user.custom_tool_result", "session.status_idle"]);
        assert_eq!(still_waiting(&first), json!(["toolu_2"]));
    }
    let request = session.submit_results(&result("toolu_1")).header("prefer", "wait=60");
    let waiting = json_of(request.send().await.unwrap(), 200).await;
    assert_eq!(
        (&waiting["status"], pending(&waiting)),
        (&json!("requires_action"), vec!["toolu_2"])
    );
    let stop_reason = json!({ "type": "requires_action", "event_ids": ["toolu_2"] });
    assert_eq!(session.read().await["stop_reason"], stop_reason);
    let second = streamed(session.submit_results(&result("toolu_2"))).await;
    assert_ends_with_answer(&second);
}

/// A service whose model calls two client tools, and one tool that needs an approval.
async fn two_results_and_a_decision() -> TestApp {
    let calls = calls_as(&[
        ("toolu_1", "open_door", json!({ "door": 1 })),
        ("toolu_2", "ring", json!({ "line": "a" })),
        ("toolu_3", "open_door", json!({ "door": 3 })),
    ]);
    TestApp::start_with(replies(&[calls, says("It said: {{results}}")]), asks()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_stream_of_a_run_that_still_waits_ends_with_the_calls_that_wait() {
    let app = two_results_and_a_decision().await;
    let tools = json!([door(), "ring"]);
    let session = app.session_with(json!({ "tools": tools })).await;
    let run = session.ask("Open and ring").await;
    let path = session.run_stream(&run);
    // An open stream that began at the first wait.
    let watcher = session.open(&path, run["seq"].as_i64()).await;
    let answered = session.accepted(session.submit_results(&result("toolu_3"))).await;
    assert_eq!(pending(&answered), ["toolu_1", "toolu_2"]);
    let stream_url = answered["stream_url"].as_str().unwrap();
    for path in [stream_url, &path] {
        let events = streamed(app.get(path)).await;
        assert_eq!(still_waiting(&events), json!(["toolu_1", "toolu_2"]), "{path}");
    }
    assert_eq!(still_waiting(&watcher.rest().await), json!(["toolu_1", "toolu_2"]));

    // A stream that begins at the newest report stays open until something changes.
    let mut watcher = session.open(&path, session.read().await["last_seq"].as_i64()).await;
    let decided = streamed(session.decide("toolu_2", &json!({ "decision": "allow" }))).await;
    assert_eq!(names(&decided), ["user.tool_confirmation", "session.status_idle"]);
    assert_eq!(still_waiting(&decided), json!(["toolu_1"]));
    assert_eq!(watcher.next().await.unwrap().name, "user.tool_confirmation");
    assert_eq!(still_waiting(&watcher.rest().await), json!(["toolu_1"]));

    assert_ends_with_answer(&streamed(session.submit_results(&result("toolu_1"))).await);
    // The waits are over: the streams from the beginning pass over them.
    for path in [stream_url, &path] {
        assert_ends_with_answer(&streamed(app.get(path)).await);
    }
    assert_eq!(session.verify().await["findings"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_one_request_have_one_report_of_the_calls_that_wait() {
    let app = two_results_and_a_decision().await;
    let session = app.session_with(json!({ "tools": [door(), "ring"] })).await;
    session.ask("Open and ring").await;
    let events = json!([
        { "type": "user.custom_tool_result", "custom_tool_use_id": "toolu_1", "content": "open" },
        { "type": "user.tool_confirmation", "tool_use_id": "toolu_2", "result": "allow" },
    ]);
    let expected = ["user.custom_tool_result", "user.tool_confirmation", "session.status_idle"];
    let waiting = streamed(post(&session, &events)).await;
    assert_eq!(still_waiting(&waiting), json!(["toolu_3"]));
    let kinds = session.kinds().await;
    assert_eq!(kinds[kinds.len() - 3..], expected);
    assert_ends_with_answer(&streamed(session.submit_results(&result("toolu_3"))).await);
}

async fn asks_for_a_ring() -> TestApp {
    let call = calls_as(&[("toolu_1", "ring", json!({ "line": "a" }))]);
    TestApp::start_with(replies(&[call, says("It said: {{results}}")]), asks()).await
}

fn allow(session: &Session<'_>) -> RequestBuilder {
    session.decide("toolu_1", &json!({ "decision": "allow" }))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_decision_ends_with_the_answer() {
    let app = asks_for_a_ring().await;
    let session = app.session().await;
    session.ask("Ring").await;
    let events = streamed(allow(&session)).await;
    let mut expected = vec!["user.tool_confirmation", "session.status_running"];
    expected.extend(["agent.tool_result", "agent.message", "session.usage", "session.status_idle"]);
    assert_eq!(names(&events), expected);
    assert_ends_with_answer(&events);
    assert_eq!(names(&streamed(allow(&session)).await), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_waits_for_the_run() {
    let app = asks_for_a_ring().await;
    let session = app.session().await;
    session.ask("Ring").await;
    let response = allow(&session).header("prefer", "wait=60").send().await.unwrap();
    assert_eq!(response.headers()["preference-applied"], "wait=60");
    assert_eq!(json_of(response, 200).await["output_text"], "It said: Rang: a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_gets_no_permit_is_not_recorded() {
    let call = calls_as(&[("toolu_1", "ring", json!({ "line": "a" }))]);
    let setup = Setup { max_streams: Some(1), ..asks() };
    let app = TestApp::start_with(replies(&[call, says("Done.")]), setup).await;
    let session = app.session().await;
    session.ask("Ring").await;
    let stream = session.open(&session.path("/events/stream"), None).await;
    let refused = allow(&session).header("accept", "text/event-stream").send().await.unwrap();
    problem(refused, 503, "too_many_streams").await;
    let refused = allow(&session).header("accept", "text/html").send().await.unwrap();
    problem(refused, 406, "not_acceptable").await;
    assert_eq!(session.approvals().await[0]["tool_use_id"], "toolu_1");
    drop(stream);
    let run = json_of(allow(&session).header("prefer", "wait=60").send().await.unwrap(), 200).await;
    assert_eq!(run["output_text"], "Done.");
}

fn post(session: &Session<'_>, events: &Value) -> RequestBuilder {
    session.app.post(&session.path("/events")).json(&json!({ "events": events }))
}

#[tokio::test(flavor = "multi_thread")]
async fn events_wait_for_the_run_of_the_last_one() {
    let app = app(&["toolu_1"]).await;
    let session = app.session_with(json!({ "tools": [door()] })).await;
    let message = json!([{ "type": "user.message", "content": "Open" }]);
    let response = post(&session, &message).header("prefer", "wait=60").send().await.unwrap();
    assert_eq!(response.headers()["preference-applied"], "wait=60");
    let waiting = json_of(response, 200).await;
    assert_eq!(pending(&waiting["run"]), ["toolu_1"]);
    assert_eq!(waiting["data"][0]["run_ids"], json!([waiting["run"]["id"]]));

    let events = json!([{ "type": "user.custom_tool_result", "custom_tool_use_id": "toolu_1", "content": "open" }]);
    let response = post(&session, &events).header("prefer", "wait=60").send().await.unwrap();
    let settled = json_of(response, 200).await;
    assert_eq!(settled["run"]["output_text"], "It said: open");
    // The path of the stream continues after the result.
    let rest = streamed(app.get(settled["run"]["stream_url"].as_str().unwrap())).await;
    assert_eq!(names(&rest), CONTINUED);
    assert_eq!(names(&streamed(post(&session, &events)).await)[1..], CONTINUED);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_answered_with_the_stream_of_their_message() {
    let app = TestApp::start(json!({})).await;
    let session = app.session().await;
    let events =
        json!([{ "type": "user.interrupt" }, { "type": "user.message", "content": "Hello" }]);
    let streamed = streamed(post(&session, &events)).await;
    assert_eq!(names(&streamed)[..2], ["user.message", "session.status_running"]);
    assert_ends_with_answer(&streamed);
    // An interrupt of an idle session concerns no run.
    let request = post(&session, &json!([{ "type": "user.interrupt" }]));
    let response = request.header("accept", "text/event-stream").send().await.unwrap();
    assert_eq!(EventStream::new(response).rest().await.len(), 0);
    let request = post(&session, &json!([{ "type": "user.interrupt" }]));
    let reply = json_of(request.header("prefer", "wait=60").send().await.unwrap(), 200).await;
    assert_eq!((reply["data"][0]["run_ids"].clone(), reply.get("run")), (json!([]), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_a_run_waits_for_it() {
    let app = app(&["toolu_1"]).await;
    let session = app.session_with(json!({ "tools": [door()] })).await;
    let run = session.post(json!({ "content": "Open" })).await;
    let path = session.path(&format!("/runs/{}", run["id"].as_str().unwrap()));
    let read = async || {
        let response = app.get(&path).header("prefer", "wait=60").send().await.unwrap();
        assert_eq!(response.headers()["preference-applied"], "wait=60");
        json_of(response, 200).await
    };
    assert_eq!(pending(&read().await), ["toolu_1"]);
    session.accepted(session.submit_results(&result("toolu_1"))).await;
    assert_eq!(read().await["output_text"], "It said: open");
}
