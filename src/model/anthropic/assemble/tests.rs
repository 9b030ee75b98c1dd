//! Recorded streams are assembled into the recorded messages, however the bytes are split.

use std::cell::Cell;
use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;

use futures::{FutureExt as _, StreamExt as _, stream};
use serde_json::Value;
use sse_stream::SseByteStream;

use super::*;
use crate::domain::usage::Usage;
use crate::model::error::ErrorKind;

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams")
}

fn read(name: &str) -> Vec<u8> {
    fs::read(fixtures().join(name)).unwrap()
}

/// The data of the events that the SSE decoder returns for these chunks. It is all that the assembler
/// gets of a stream.
fn decode(chunks: Vec<Vec<u8>>) -> Vec<Option<String>> {
    let chunks = chunks.into_iter().map(|chunk| Ok::<_, Infallible>(Bytes::from(chunk)));
    let events = SseByteStream::new(stream::iter(chunks)).map(|event| event.unwrap().data);
    events.collect().now_or_never().unwrap()
}

/// The number of bytes after which the decoder returns each event, and the length of the stream.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let fed = Cell::new(0);
    let chunks = bytes.iter().map(|byte| {
        fed.set(fed.get() + 1);
        Ok::<_, Infallible>(Bytes::copy_from_slice(&[*byte]))
    });
    let events = SseByteStream::new(stream::iter(chunks)).map(|_| fed.get());
    let mut ends: Vec<usize> = events.collect().now_or_never().unwrap();
    ends.push(bytes.len());
    ends
}

/// Feeds the chunks through the SSE decoder and the assembler, as the client does.
fn assemble(chunks: Vec<Vec<u8>>) -> (Assembler, Option<ModelError>) {
    let chunks = chunks.into_iter().map(|chunk| Ok::<_, Infallible>(Bytes::from(chunk)));
    let mut events = SseByteStream::new(stream::iter(chunks));
    let mut assembler = Assembler::default();
    while let Some(event) = events.next().now_or_never().unwrap() {
        if let Some(data) = event.unwrap().data
            && let Err(error) = assembler.push(&data)
        {
            return (assembler, Some(error));
        }
    }
    (assembler, None)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn snapshot(assembler: &Assembler) -> Value {
    without_nulls(serde_json::to_value(assembler.snapshot(|_| true).unwrap()).unwrap())
}

/// The recorded message. Truncated inputs are replaced by our form: the official clients return
/// the result of their partial parsers, we keep the raw text.
fn expected(sample: &Value) -> Value {
    let name = sample["name"].as_str().unwrap();
    let mut message: Value = serde_json::from_slice(&read(&format!("{name}.json"))).unwrap();
    for (index, raw) in sample["incomplete_blocks"].as_object().into_iter().flatten() {
        let index: usize = index.parse().unwrap();
        message["content"][index]["input"] = serde_json::json!({ "INVALID_JSON": raw });
    }
    without_nulls(message)
}

fn check(sample: &Value, expected: &Value, chunks: Vec<Vec<u8>>) {
    let name = sample["name"].as_str().unwrap();
    let (assembler, error) = assemble(chunks);
    match sample["outcome"].as_str().unwrap() {
        "api_error" => {
            let Some(ModelError::Api { status: None, kind, message, .. }) = error else {
                panic!("{name}: expected an error of the server, got {error:?}");
            };
            assert_eq!(kind.as_str(), sample["error"]["type"], "{name}");
            assert_eq!(message, sample["error"]["message"], "{name}");
            if name != "14_error_first_event" {
                assert_eq!(&snapshot(&assembler), expected, "{name}");
            }
        }
        "truncated" => {
            assert_eq!(&snapshot(&assembler), expected, "{name}");
            assert!(matches!(assembler.finish(), Err(ModelError::Truncated)), "{name}");
        }
        _ => {
            assert!(error.is_none(), "{name}: {error:?}");
            assert_eq!(&snapshot(&assembler), expected, "{name}");
            let reply = assembler.finish().unwrap();
            let content: Value = serde_json::from_str(reply.content.as_str()).unwrap();
            assert_eq!(without_nulls(content), expected["content"], "{name}");
        }
    }
}

fn samples() -> Vec<Value> {
    let manifest: Vec<Value> = serde_json::from_slice(&read("MANIFEST.json")).unwrap();
    assert_eq!(manifest.len(), 30);
    manifest
}

#[test]
fn every_recorded_stream_is_assembled_into_its_message() {
    for sample in samples() {
        let bytes = read(&format!("{}.sse", sample["name"].as_str().unwrap()));
        check(&sample, &expected(&sample), vec![bytes]);
    }
}

#[test]
fn a_stream_may_arrive_byte_by_byte() {
    for sample in samples() {
        let bytes = read(&format!("{}.sse", sample["name"].as_str().unwrap()));
        check(&sample, &expected(&sample), bytes.iter().map(|byte| vec![*byte]).collect());
    }
}

#[test]
fn a_stream_may_be_split_in_two_at_every_byte() {
    for sample in samples() {
        let name = sample["name"].as_str().unwrap();
        let bytes = read(&format!("{name}.sse"));
        let ends = ends(&bytes);
        let start = |event: Option<usize>| event.map_or(0, |event| ends[event]);
        // Of an earlier event the decoder keeps nothing, so each event is split together with the
        // event before it and the event after it only.
        for (event, end) in ends.iter().enumerate() {
            let first = start(event.checked_sub(2));
            let last = ends[ends.len().min(event + 2) - 1];
            let piece = &bytes[first..last];
            let whole = decode(vec![piece.to_vec()]);
            for split in start(event.checked_sub(1))..*end {
                let (head, tail) = piece.split_at(split - first);
                assert_eq!(decode(vec![head.to_vec(), tail.to_vec()]), whole, "{name} at {split}");
            }
        }
        let events: Vec<Option<String>> = decode(vec![bytes.clone()]);
        assert!(events.len() >= ends.len() - 1 && !events.is_empty(), "{name}");
    }
}

#[test]
fn a_truncated_stream_is_never_accepted_as_complete() {
    let bytes = read("02_text_then_tool_use.sse");
    for cut in 0..bytes.len() - 2 {
        let (assembler, error) = assemble(vec![bytes.iter().take(cut).copied().collect()]);
        assert!(error.is_none());
        assert!(matches!(assembler.finish(), Err(ModelError::Truncated)), "cut at {cut}");
    }
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend(read("01_text_only.sse"));
    let (assembler, error) = assemble(vec![bytes]);
    assert!(error.is_none());
    assert_eq!(
        assembler.finish().unwrap().content.joined_text().unwrap(),
        "Good morning! The warehouse opens at 08:30."
    );
}

#[test]
fn an_input_keeps_the_exact_text_of_the_model() {
    let start = r#"{"type":"content_block_start","index":0,"content_block":
        {"type":"tool_use","id":"t","name":"f","input":{}}}"#;
    let input = r#"{"n": 1e300, "b":1,"a":0.10, "b":2}"#;
    let delta = serde_json::json!({"type":"content_block_delta","index":0,
        "delta":{"type":"input_json_delta","partial_json":input}});
    let mut assembler = Assembler::default();
    assembler.push(r#"{"type":"message_start","message":{"content":[]}}"#).unwrap();
    assembler.push(start).unwrap();
    assembler.push(&delta.to_string()).unwrap();
    assembler.push(r#"{"type":"message_stop"}"#).unwrap();
    let reply = assembler.finish().unwrap();
    assert!(reply.content.as_str().contains(input));
}

#[test]
fn an_input_that_the_provider_would_reject_is_wrapped() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(300), "]".repeat(300));
    for input in [r#"{"path":"\ud800"}"#, r#"{"n":1e999}"#, "[1]", "{\"a\"", &deep] {
        let mut block = OpenBlock::new(0, RawObject::default());
        block.input = input.to_owned();
        let kept: Value = serde_json::from_str(block.input().unwrap().get()).unwrap();
        assert_eq!(kept, serde_json::json!({ "INVALID_JSON": input }));
    }
}

#[test]
fn a_spend_limit_inside_a_stream_has_its_own_error_kind() {
    let mut assembler = Assembler::default();
    let error = assembler
        .push(
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"m",
                "details":{"error_code":"enforced_spend_limit_reached"}}}"#,
        )
        .unwrap_err();
    assert!(matches!(error, ModelError::Api { kind: ErrorKind::SpendLimit, .. }));
}

/// The events of a recorded stream without errors.
fn events_of(name: &str) -> Vec<String> {
    decode(vec![read(name)]).into_iter().flatten().collect()
}

#[test]
fn a_stream_that_stops_leaves_its_complete_blocks_and_its_texts_so_far() {
    for name in [
        "02_text_then_tool_use.sse",
        "04_thinking_signature_tool_use.sse",
        "09_pause_turn_server_tool.sse",
        "16_unknown_events_and_blocks.sse",
        "21_citations.sse",
        "22_redacted_thinking.sse",
    ] {
        let events = events_of(name);
        let mut whole = Assembler::default();
        for event in &events {
            whole.push(event).unwrap();
        }
        let whole = whole.finish().unwrap().content;
        let whole: Vec<Value> = serde_json::from_str(whole.as_str()).unwrap();
        let mut assembler = Assembler::default();
        assert!(assembler.partial().is_none(), "nothing was received");
        for event in &events {
            assembler.push(event).unwrap();
            let part = assembler.partial().unwrap();
            let blocks: Vec<Value> = serde_json::from_str(part.content.as_str()).unwrap();
            for (block, expected) in blocks.iter().zip(&whole) {
                let text = |block: &Value| block["text"].as_str().map(str::to_owned);
                match (text(block), text(expected)) {
                    (Some(part), Some(all)) => assert!(all.starts_with(&part), "{name}: {part}"),
                    _ => assert_eq!(block, expected, "{name}: only a complete block is returned"),
                }
            }
        }
        let part = assembler.partial().unwrap();
        let blocks: Vec<Value> = serde_json::from_str(part.content.as_str()).unwrap();
        assert_eq!(blocks, whole, "{name}");
    }
}

#[test]
fn the_output_of_a_stopped_stream_is_estimated_until_it_is_reported() {
    let mut assembler = Assembler::default();
    let mut push = |event: &str| {
        assembler.push(event).unwrap();
        let Usage { input_tokens, cache_read_input_tokens, output_tokens, .. } =
            assembler.partial().unwrap().usage;
        (input_tokens, cache_read_input_tokens, output_tokens)
    };
    let start = r#"{"type":"message_start","message":{"usage":
        {"input_tokens":9,"cache_read_input_tokens":5,"output_tokens":2}}}"#;
    assert_eq!(push(start), (9, 5, 2));
    let block =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    assert_eq!(push(block), (9, 5, 2));
    let delta = |text: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
        )
    };
    assert_eq!(push(&delta("éàüö")), (9, 5, 2), "the server reported more than one token");
    assert_eq!(push(&delta("12345")), (9, 5, 3), "nine characters");
    let end = r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":1}}"#;
    assert_eq!(push(end), (9, 5, 1), "a reported count is not estimated");
}
