//! Delays, cuts and failures.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::client::{events, open_stream, post_message, request, script, start, streamed};

fn hello() -> Value {
    streamed(request(&json!([{ "role": "user", "content": "hello" }])))
}

fn saying(text: &str, fields: &Value) -> Value {
    let mut reply = json!({ "content": [{ "type": "text", "text": text }] });
    for (field, value) in fields.as_object().unwrap() {
        reply[field] = value.clone();
    }
    script(&json!([reply]))
}

#[tokio::test]
async fn without_delays_a_stream_is_one_write() {
    let simulator = start(&saying("a text of some length", &json!({}))).await;
    let reply = post_message(&simulator, &hello()).await;
    assert!(reply.complete);
    assert_eq!(reply.chunks.len(), 1);
}

#[tokio::test]
async fn an_error_can_replace_a_reply() {
    let simulator = start(&saying(
        "",
        &json!({
        "status": 429, "headers": { "retry-after": "2" },
        "error": { "type": "rate_limit_error", "message": "slow down" } }),
    ))
    .await;
    let reply = post_message(&simulator, &hello()).await;
    assert_eq!(reply.status, 429);
    assert!(reply.head.contains("retry-after: 2\r\n"));
    let body = reply.json();
    assert_eq!(body["error"]["message"], "slow down");
    assert!(
        reply.head.contains(
            &format!("request-id: {}", body["request_id"].as_str().unwrap()).to_lowercase()
        )
    );
    assert_eq!(simulator.refusals(), Vec::<String>::new());
    assert_eq!(simulator.requests()[0].status, 429);
}

#[tokio::test]
async fn an_error_without_a_message_matches_its_status() {
    let simulator = start(&saying("", &json!({ "status": 529 }))).await;
    assert_eq!(
        post_message(&simulator, &hello()).await.json()["error"]["type"],
        "overloaded_error"
    );
}

#[tokio::test]
async fn a_stream_can_fail_after_some_events() {
    for count in [0, 1, 4] {
        let simulator =
            start(&saying("a text of some length", &json!({ "error_after": count }))).await;
        let reply = post_message(&simulator, &hello()).await;
        let events = events(&reply.body);
        assert_eq!(events.len(), count + 1);
        assert_eq!(events[count].0, "error");
        assert_eq!(events[count].1["error"]["type"], "overloaded_error");
        assert!(reply.complete);
    }
}

#[tokio::test]
async fn a_failing_stream_is_an_error_response_when_not_streamed() {
    let simulator = start(&saying("text", &json!({ "error_after": 2 }))).await;
    let mut body = hello();
    body["stream"] = json!(false);
    assert_eq!(post_message(&simulator, &body).await.status, 529);
}

#[tokio::test]
async fn a_cut_connection_delivers_the_bytes_before_the_cut_and_no_end() {
    for (cut, length) in
        [(json!(3), None), (json!({ "bytes": 100 }), Some(100)), (json!(0), Some(0))]
    {
        let simulator = start(&saying("a text of some length", &json!({ "cut_after": cut }))).await;
        let reply = post_message(&simulator, &hello()).await;
        assert_eq!(reply.status, 200, "{cut}");
        assert!(!reply.complete, "{cut}");
        match length {
            Some(length) => assert_eq!(reply.body.len(), length),
            None => assert_eq!(events(&reply.body).len(), 3),
        }
    }
}

#[tokio::test]
async fn a_clean_cut_ends_the_body_without_message_stop() {
    let fields = json!({ "cut_after": 3, "cut_clean": true });
    let simulator = start(&saying("a text of some length", &fields)).await;
    let reply = post_message(&simulator, &hello()).await;
    assert!(reply.complete);
    assert!(!reply.body.contains("message_stop"));
}

#[tokio::test]
async fn a_hanging_stream_ends_when_the_simulator_stops() {
    let simulator = start(&saying("a text of some length", &json!({ "hang_after": 2 }))).await;
    let mut socket = open_stream(&simulator, &hello()).await;
    let mut seen = String::new();
    while !seen.contains("content_block_start") {
        let mut bytes = [0; 4096];
        let count = socket.read(&mut bytes).await.unwrap();
        seen.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    let mut byte = [0];
    let more = timeout(Duration::from_millis(50), socket.read(&mut byte)).await;
    assert!(more.is_err(), "the stream went on or ended");
    // The stream would never end.
    let stopped = timeout(Duration::from_mins(1), simulator.stop()).await;
    stopped.expect("the simulator waits for the stream");
}

#[tokio::test]
async fn a_split_body_arrives_in_pieces_of_that_size() {
    let simulator = start(&saying("a text", &json!({ "split": 7 }))).await;
    let reply = post_message(&simulator, &hello()).await;
    let (last, others) = reply.chunks.split_last().unwrap();
    assert!(others.iter().all(|chunk| chunk.len() == 7) && last.len() <= 7);
    assert!(reply.body.contains("message_stop"));
}

#[tokio::test]
async fn the_delay_is_before_the_headers_and_the_pace_between_events() {
    let simulator = start(&saying("a text", &json!({ "delay_ms": 60, "pace_ms": 10 }))).await;
    let begun = Instant::now();
    let mut socket = open_stream(&simulator, &hello()).await;
    let mut byte = [0];
    socket.read_exact(&mut byte).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(60));
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).await.unwrap();
    // message_start, block start, ping, one delta, stop, message_delta, message_stop
    assert!(begun.elapsed() >= Duration::from_millis(60 + 6 * 10));
}

#[tokio::test]
async fn the_events_before_the_first_pause_arrive_at_once() {
    let an_hour = json!({ "pace_ms": 3_600_000, "pace_after": 4 });
    let simulator = start(&saying("a text", &an_hour)).await;
    let mut socket = open_stream(&simulator, &hello()).await;
    let mut received = Vec::new();
    // message_start, block start, ping, one delta
    while !String::from_utf8_lossy(&received).contains("text_delta") {
        let read = timeout(Duration::from_secs(30), socket.read_buf(&mut received)).await;
        assert_ne!(read.expect("the first delta is not delayed").unwrap(), 0);
    }
    assert!(!String::from_utf8_lossy(&received).contains("content_block_stop"));
}

#[tokio::test]
async fn raw_sse_is_sent_unchanged() {
    let raw = ": hi\r\n\r\nevent: odd\r\ndata: {}\r\n\r\ndata: tail";
    let simulator = start(&script(&json!([{ "raw_sse": raw }]))).await;
    assert_eq!(post_message(&simulator, &hello()).await.body, raw);
    let cut = script(&json!([{ "raw_sse": raw, "cut_after": 1, "cut_clean": true }]));
    assert_eq!(post_message(&start(&cut).await, &hello()).await.body, ": hi\r\n\r\n");
}

#[tokio::test]
async fn raw_input_is_streamed_even_if_it_is_not_json() {
    let call = json!({ "type": "tool_use", "name": "read_file", "raw_input": "{\"path\": \"a" });
    let simulator = start(&script(&json!([{ "content": [call], "chunk": 100 }]))).await;
    let reply = post_message(&simulator, &hello()).await;
    let pieces = events(&reply.body);
    let mut pieces = pieces.iter().filter_map(|(_, data)| data["delta"]["partial_json"].as_str());
    assert_eq!((pieces.next(), pieces.next()), (Some(""), Some("{\"path\": \"a")));
}

#[tokio::test]
async fn the_first_requests_fail_and_the_same_request_then_succeeds() {
    let failures = json!([{ "status": 529 }, { "cut_after": 1 }]);
    let simulator = start(&saying("at last", &json!({ "fail_first": failures }))).await;
    assert_eq!(post_message(&simulator, &hello()).await.status, 529);
    assert!(!post_message(&simulator, &hello()).await.complete);
    let other = streamed(request(&json!([{ "role": "user", "content": "another" }])));
    assert_eq!(post_message(&simulator, &other).await.status, 529);
    for _ in 0..2 {
        let reply = post_message(&simulator, &hello()).await;
        assert!(reply.complete && reply.body.contains("at last"));
    }
}
