//! Posting a message: the three forms of the response, idempotency, and disconnecting clients.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::support::{EventStream, TestApp, hangs_first, problem, replies, says};

const SSE: &str = "text/event-stream";

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// Returns the status and the headers that describe the run.
fn head_of(response: &Response) -> Value {
    json!({
        "status": response.status().as_u16(),
        "location": header(response, "location"),
        "content-location": header(response, "content-location"),
        "preference-applied": header(response, "preference-applied"),
        "idempotency-replayed": header(response, "idempotency-replayed"),
    })
}

async fn send(request: RequestBuilder) -> Response {
    request.send().await.unwrap()
}

async fn get_json(request: RequestBuilder) -> Value {
    send(request).await.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_accepted_with_the_location_of_its_run() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let response = send(session.message(&json!({ "content": "Hi" }))).await;
    let head = head_of(&response);
    let run: Value = response.json().await.unwrap();
    let id = run["id"].as_str().unwrap();
    let path = session.path(&format!("/runs/{id}"));
    let expected = json!({
        "status": 202, "location": path, "content-location": null,
        "preference-applied": null, "idempotency-replayed": null,
    });
    assert_eq!(head, expected);
    let expected = json!({
        "type": "run", "id": id, "session_id": session.id, "message_id": run["message_id"],
        "status": "running", "seq": run["seq"], "stream_url": format!("{path}/stream"), "model_requests": 0,
        "created_at": run["created_at"], "started_at": run["created_at"],
        "usage": { "input_tokens": 0, "cache_creation_input_tokens": 0,
                   "cache_read_input_tokens": 0, "output_tokens": 0 },
    });
    assert_eq!(run, expected);
    assert_eq!(session.settled(&run).await["output_text"], "Hello.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_can_stream_its_run_and_the_response_names_the_stream() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let by_header = session.message(&json!({ "content": "Hi" })).header("accept", SSE);
    let by_body = session.message(&json!({ "content": "Hi there", "stream": true }));
    for request in [by_header, by_body] {
        let response = send(request).await;
        let head = head_of(&response);
        let events = EventStream::new(response).rest().await;
        let id = events[0].data["run_id"].as_str().unwrap();
        let path = session.path(&format!("/runs/{id}"));
        let expected = json!({
            "status": 200, "location": format!("{path}/stream"), "content-location": path,
            "preference-applied": null, "idempotency-replayed": null,
        });
        assert_eq!(head, expected);
        assert_eq!(events[0].name, "user.message");
        assert_eq!(events.last().unwrap().name, "session.status_idle");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_can_wait_for_its_run() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let request = session.message(&json!({ "content": "Hi" }));
    let response = send(request.header("prefer", "wait=20")).await;
    let head = head_of(&response);
    let run: Value = response.json().await.unwrap();
    let expected = json!({
        "status": 200, "location": null, "preference-applied": "wait=20",
        "content-location": session.path(&format!("/runs/{}", run["id"].as_str().unwrap())),
        "idempotency-replayed": null,
    });
    assert_eq!(head, expected);
    let expected = json!([
        "completed", "Hello.", { "type": "end_turn" }, false, false, 1
    ]);
    let keys = ["status", "output_text", "stop_reason", "limited", "empty", "model_requests"];
    assert_eq!(Value::from(keys.map(|key| run[key].clone()).to_vec()), expected);
    assert_eq!(session.run(&run).await, run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_times_out_returns_the_active_run() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let started = Instant::now();
    let request = session.message(&json!({ "content": "hang" }));
    let response = send(request.header("prefer", "respond-async, wait=1")).await;
    let took = started.elapsed();
    assert!((1000..3000).contains(&took.as_millis()), "took {took:?}");
    assert_eq!(head_of(&response)["status"], 202);
    assert_eq!(head_of(&response)["preference-applied"], "respond-async, wait=1");
    let run: Value = response.json().await.unwrap();
    assert_eq!(run["status"], "running");
    session.cancel(&run).await;
    assert_eq!(session.settled(&run).await["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_works_without_its_version() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session: Value = get_json(app.post("/sessions")).await;
    let path = format!("/sessions/{}", session["id"].as_str().unwrap());
    let post = app.post(&format!("{path}/messages"));
    let post = post.json(&json!({ "content": "Hi" })).header("prefer", "wait=20");
    let run: Value = get_json(post).await;
    assert_eq!(run["output_text"], "Hello.");
    let run_path = format!("{path}/runs/{}", run["id"].as_str().unwrap());
    for path in [
        "/sessions",
        "/tools",
        path.as_str(),
        &format!("{path}/messages"),
        &format!("{path}/events"),
        &format!("{path}/runs"),
        &run_path,
        &format!("{run_path}/stream"),
    ] {
        let bare = send(app.get(path)).await;
        assert_eq!(bare.status(), StatusCode::OK, "{path}");
        let bare = bare.bytes().await.unwrap();
        let versioned = send(app.get(&format!("/v1{path}"))).await;
        assert_eq!(bare, versioned.bytes().await.unwrap(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_a_string_or_text_blocks() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let blocks = json!([{ "type": "text", "text": "One\u{2028} caf\u{e9} \u{1f980}" },
                        { "type": "text", "text": "  two\n" }]);
    session.ask("A string").await;
    session.ask_with(json!({ "content": blocks })).await;
    let history = session.history().await;
    let content = |index: usize| history[index]["message"]["content"].clone();
    assert_eq!(content(0), json!([{ "type": "text", "text": "A string" }]));
    assert_eq!(content(2), blocks);
    let sent = app.upstream().body(1)["messages"][2]["content"].clone();
    let texts = |blocks: &Value| -> Vec<Value> {
        blocks.as_array().unwrap().iter().map(|block| block["text"].clone()).collect()
    };
    assert_eq!(texts(&sent), texts(&blocks));
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_messages_with_one_key_start_one_run() {
    let app = TestApp::start(replies(&[says("Once.")])).await;
    for body in [json!({ "content": "Key" }), json!({ "content": "Id", "id": "msg-1" })] {
        let session = app.session().await;
        let posts = (0..30).map(|_| {
            let request = session.message(&body);
            let request = match body.get("id") {
                Some(_) => request,
                None => request.header("idempotency-key", "6f0c"),
            };
            async { send(request).await }
        });
        let answers = join_all(posts).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status().as_u16()).collect();
        assert_eq!(statuses, [202; 30]);
        let first = |answer: &&Response| header(answer, "idempotency-replayed").is_none();
        assert_eq!(answers.iter().filter(first).count(), 1);
        let mut ids = Vec::new();
        for answer in answers {
            let run: Value = answer.json().await.unwrap();
            ids.push((run["id"].clone(), run["message_id"].clone()));
        }
        ids.dedup();
        assert_eq!(ids.len(), 1);
        if let Some(id) = body.get("id") {
            assert_eq!(ids[0].1, *id);
        }
        session.settled(&json!({ "id": ids[0].0 })).await;
        assert_eq!(session.history().await.len(), 2);
    }
    assert_eq!(app.upstream().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_or_an_id_identifies_one_request() {
    let app = TestApp::start(replies(&[says("Once.")])).await;
    let (session, other) = (app.session().await, app.session().await);
    let first = json!({ "content": "One", "id": "a" });
    let run = get_json(session.message(&first).header("idempotency-key", "k")).await;
    session.settled(&run).await;
    let events = session.events().await.len();
    let second = |body: Value| session.message(&body).header("idempotency-key", "k");
    for request in [
        second(json!({ "content": "Two" })),
        second(json!({ "content": "One", "limits": { "rounds": 1 } })),
        session.message(&json!({ "content": "Two", "id": "a" })),
    ] {
        problem(send(request).await, 422, "idempotency_key_reused").await;
    }
    let again = session.message(&first).header("prefer", "wait=9").send().await.unwrap();
    assert_eq!(header(&again, "idempotency-replayed"), Some("true"));
    assert_eq!(again.json::<Value>().await.unwrap()["id"], run["id"]);
    assert_eq!(session.events().await.len(), events);
    // Keys and ids are scoped to their session.
    let elsewhere = get_json(other.message(&first).header("idempotency-key", "k")).await;
    assert_ne!(elsewhere["id"], run["id"]);
    other.settled(&elsewhere).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_stream_attaches_to_the_run_and_resumes_after_the_last_event() {
    let slow = json!({ "content": [{ "type": "text", "text": "I will look it up for you." },
                                   { "type": "tool_use", "name": "get_time" }], "pace_ms": 30 });
    let app = TestApp::start(replies(&[slow, says("Noon.")])).await;
    let session = app.session().await;
    let post = || {
        let request = session.message(&json!({ "content": "What time is it?" }));
        request.header("accept", SSE).header("idempotency-key", "k")
    };
    let mut first = EventStream::new(send(post()).await);
    first.until("event_delta").await;
    let second = EventStream::new(send(post()).await);
    assert_eq!(second.headers["idempotency-replayed"], "true");
    let (first, second) = tokio::join!(first.rest(), second.rest());
    let numbers = |events: &[crate::support::Received]| -> Vec<i64> {
        events.iter().filter_map(|event| event.id).collect()
    };
    let all = numbers(&second);
    let last = *all.last().unwrap();
    assert_eq!(all, (1..=last).collect::<Vec<_>>());
    assert!(all.ends_with(&numbers(&first)));

    let third = send(post().header("last-event-id", "4")).await;
    let third = EventStream::new(third).rest().await;
    assert_eq!(numbers(&third), (5..=last).collect::<Vec<_>>());
    problem(send(post().header("last-event-id", "four")).await, 400, "invalid_cursor").await;
    assert_eq!(app.upstream().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_stream_with_nothing_new_ends_at_once() {
    let app = TestApp::start(replies(&[says("Done.")])).await;
    let session = app.session().await;
    let post = || {
        let request = session.message(&json!({ "content": "Hi" }));
        request.header("accept", SSE).header("idempotency-key", "k")
    };
    let events = EventStream::new(send(post()).await).rest().await;
    let last = events.last().unwrap().id.unwrap().to_string();
    let response = send(post().header("last-event-id", last)).await;
    assert_eq!(response.status(), StatusCode::OK);
    let body = tokio::time::timeout(Duration::from_secs(5), response.text());
    let body = body.await.expect("the stream did not end").unwrap();
    assert_eq!(body, "retry: 2000\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnecting_client_does_not_stop_its_run() {
    let slow = json!({ "content": [{ "type": "text", "text": "Slowly but surely I come to an end." }],
                       "pace_ms": 40 });
    let app = TestApp::start(replies(&[slow])).await;
    let session = app.session().await;
    let mut stream = session.stream("Take your time").await;
    let delta = stream.until("event_delta").await;
    drop(stream);
    let run = session.settled(&json!({ "id": delta.data["run_id"] })).await;
    assert_eq!(run["output_text"], "Slowly but surely I come to an end.");
}
