//! Streams of events, as the server sends them and as other servers shorten them.

use std::convert::Infallible;

use futures::{FutureExt as _, StreamExt as _, stream};
use serde_json::{Value, json};
use sse_stream::SseByteStream;

use super::*;
use crate::model::error::ErrorKind;

mod generated;

/// Feeds pieces of a body through the SSE decoder and the assembler, as the client does.
fn read(pieces: Vec<Vec<u8>>) -> (Vec<Progress>, Reply) {
    let pieces = pieces.into_iter().map(|piece| Ok::<_, Infallible>(Bytes::from(piece)));
    let mut events = SseByteStream::new(stream::iter(pieces));
    let mut assembler = Assembler::new(Bytes::new());
    let mut progress = Vec::new();
    while let Some(event) = events.next().now_or_never().unwrap() {
        if let Some(data) = event.unwrap().data {
            progress.extend(assembler.push(&data).unwrap());
        }
    }
    (progress, assembler.finish().unwrap())
}

#[test]
fn a_recorded_stream_gives_the_same_reply_wherever_it_is_split() {
    let body = include_bytes!(
        "../../../../../tests/fixtures/streams/responses_01_reasoning_and_calls.sse"
    );
    let blocks =
        include_str!("../../../../../tests/fixtures/streams/responses_01_reasoning_and_calls.json");
    let blocks: Value = serde_json::from_str(blocks).unwrap();
    for at in 0..body.len() {
        let (before, after) = body.split_at(at);
        let (progress, reply) = read(vec![before.to_vec(), after.to_vec()]);
        assert_eq!(content(&reply), blocks, "{at}");
        let usage = Usage {
            input_tokens: 56,
            cache_read_input_tokens: 64,
            output_tokens: 48,
            thinking_tokens: 16,
            ..Usage::default()
        };
        assert_eq!((reply.usage, reply.stop), (usage, ModelStop::ToolUse));
        let shown = progress
            .iter()
            .map(|it| if let Progress::Delta { index: 1, text } = it { &**text } else { "" });
        assert_eq!(shown.collect::<String>(), "I look – now.");
    }
}

fn assembled(events: &[Value]) -> Result<(Vec<Progress>, Reply), ModelError> {
    let mut assembler = Assembler::new(Bytes::from_static(br#"{"call_id":"call_old"}"#));
    let mut progress = Vec::new();
    for event in events {
        progress.extend(assembler.push(&event.to_string())?);
    }
    Ok((progress, assembler.finish()?))
}

fn content(reply: &Reply) -> Value {
    serde_json::from_str(reply.content.as_str()).unwrap()
}

fn done(index: usize, item: &Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": index, "item": item })
}

fn completed(members: &Value) -> Value {
    let mut response = json!({ "object": "response", "status": "completed", "model": "gpt",
        "usage": { "input_tokens": 70, "input_tokens_details": { "cached_tokens": 30 },
                   "output_tokens": 9, "output_tokens_details": { "reasoning_tokens": 4 } } });
    response.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    json!({ "type": "response.completed", "response": response })
}

fn message(text: &str) -> Value {
    json!({ "type": "message", "content": [{ "type": "output_text", "text": text }] })
}

fn call(id: &str, arguments: &str) -> Value {
    json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": arguments })
}

#[test]
fn reasoning_is_kept_as_received_and_all_items_keep_their_order() {
    let item = json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "gA",
        "summary": [{ "type": "summary_text", "text": "One." },
                    { "type": "summary_text", "text": "Two." }] });
    let raw = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning",  "id":"rs_1","n":1.0,"summary":[]}}"#;
    let mut assembler = Assembler::new(Bytes::new());
    assembler.push(raw).unwrap();
    let rest = [
        done(1, &message("Well.")),
        done(2, &item),
        done(3, &call("c", "{}")),
        completed(&json!({})),
    ];
    for event in rest {
        assembler.push(&event.to_string()).unwrap();
    }
    let reply = assembler.finish().unwrap();
    assert_eq!(
        content(&reply),
        json!([
            { "type": "thinking", "thinking": "",
              "signature": r#"responses:{"type":"reasoning",  "id":"rs_1","n":1.0,"summary":[]}"# },
            { "type": "text", "text": "Well." },
            { "type": "thinking", "thinking": "One.\n\nTwo.",
              "signature": format!("responses:{item}") },
            { "type": "tool_use", "id": "c", "name": "f", "input": {} },
        ])
    );
    assert_eq!(reply.stop, ModelStop::ToolUse);
    let usage = Usage {
        input_tokens: 40,
        cache_read_input_tokens: 30,
        output_tokens: 9,
        thinking_tokens: 4,
        ..Usage::default()
    };
    assert_eq!((reply.usage, reply.model.as_str()), (usage, "gpt"));
}

#[test]
fn the_last_event_gives_the_stop_reason() {
    let ended = |members: Value, items: &[Value]| {
        let mut events: Vec<Value> =
            items.iter().enumerate().map(|(index, item)| done(index, item)).collect();
        events.push(completed(&members));
        assembled(&events).unwrap().1
    };
    let incomplete = |reason: &str| json!({ "status": "incomplete", "incomplete_details": { "reason": reason } });
    let text = [message("a")];
    assert_eq!(ended(json!({}), &text).stop, ModelStop::EndTurn);
    assert_eq!(ended(incomplete("max_output_tokens"), &text).stop, ModelStop::MaxTokens);
    assert_eq!(ended(incomplete("content_filter"), &text).stop, ModelStop::Refusal);
    assert_eq!(ended(incomplete("odd"), &text).stop, ModelStop::Other("odd".to_owned()));
    let refusal =
        json!({ "type": "message", "content": [{ "type": "refusal", "refusal": "No." }] });
    let refused = ended(json!({}), &[refusal]);
    assert_eq!(refused.stop, ModelStop::Refusal);
    assert_eq!(refused.refusal.explanation.as_deref(), Some("No."));
    let truncated = assembled(&[done(0, &message("a"))]);
    assert!(matches!(truncated, Err(ModelError::Truncated)));
}

#[test]
fn failures_inside_the_stream_have_the_kind_of_their_code() {
    let failed = |code: &str| {
        json!({ "type": "response.failed", "response": { "status": "failed",
                "error": { "code": code, "message": "m" } } })
    };
    let error = json!({ "type": "error", "code": null, "message": "m", "param": null });
    let nested = |kind: &str, code: &str| {
        json!({ "type": "error", "sequence_number": 2,
                "error": { "type": kind, "code": code, "message": "m", "param": "input" } })
    };
    let limited = json!({ "type": "error", "code": "rate_limit_exceeded", "message": "m" });
    let bare = json!({ "error": { "code": "rate_limit_exceeded", "message": "m" } });
    for (event, kind) in [
        (failed("server_error"), ErrorKind::Api),
        (failed("rate_limit_exceeded"), ErrorKind::RateLimit),
        (failed("invalid_image_url"), ErrorKind::InvalidRequest),
        (failed("insufficient_quota"), ErrorKind::Billing),
        (failed("context_length_exceeded"), ErrorKind::RequestTooLarge),
        (failed("slow_down"), ErrorKind::Overloaded),
        (failed("unheard_of"), ErrorKind::Api),
        (error, ErrorKind::Api),
        (limited, ErrorKind::RateLimit),
        (bare, ErrorKind::RateLimit),
        (nested("invalid_request_error", "context_length_exceeded"), ErrorKind::RequestTooLarge),
        (nested("invalid_request_error", "unheard_of"), ErrorKind::InvalidRequest),
    ] {
        match assembled(&[done(0, &message("a")), event.clone()]) {
            Err(ModelError::Api { status: None, kind: found, message, .. }) => {
                assert_eq!((found, message.as_str()), (kind, "m"), "{event}");
            }
            other => panic!("{event}: {other:?}"),
        }
    }
}

#[test]
fn ids_of_calls_are_unique_in_the_history() {
    let events = [
        done(0, &call("call_old", "{}")),
        done(1, &call("new", "{\"a\":1}")),
        completed(&json!({})),
    ];
    let blocks = content(&assembled(&events).unwrap().1);
    assert_ne!(blocks[0]["id"], "call_old");
    assert_eq!(blocks[1]["id"], "new");
}

#[test]
fn a_server_that_cannot_stream_sends_the_whole_response() {
    let whole = json!({ "object": "response", "status": "completed", "model": "m",
                        "output": [message("Hello."), call("c", "{}")] });
    let (progress, reply) = assembled(&[whole]).unwrap();
    assert_eq!(content(&reply)[0], json!({ "type": "text", "text": "Hello." }));
    assert_eq!(reply.stop, ModelStop::ToolUse);
    assert!(progress.contains(&Progress::Delta { index: 0, text: "Hello.".into() }));
}
