//! Recorded streams, split at every position, and streams of servers that follow the protocol less
//! strictly.

use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;

use futures::{FutureExt as _, StreamExt as _, stream};
use serde_json::{Value, json};
use sse_stream::SseByteStream;

use super::*;
use crate::model::error::ErrorKind;

mod generated;

fn fixture(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams");
    fs::read(folder.join(name)).unwrap()
}

/// Feeds pieces of a body through the SSE decoder and the assembler, as the client does.
fn read(pieces: Vec<Vec<u8>>) -> Result<(Vec<Progress>, Reply), ModelError> {
    let pieces = pieces.into_iter().map(|piece| Ok::<_, Infallible>(Bytes::from(piece)));
    let mut events = SseByteStream::new(stream::iter(pieces));
    let mut assembler = Assembler::new(Bytes::new());
    let mut progress = Vec::new();
    while let Some(event) = events.next().now_or_never().unwrap() {
        if let Some(data) = event.unwrap().data {
            progress.extend(assembler.push(&data)?);
        }
    }
    Ok((progress, assembler.finish()?))
}

/// The reply to a request with this body, assembled from these chunks of one choice.
fn reply_to(sent: &str, chunks: &[Value]) -> Result<Reply, ModelError> {
    let mut assembler = Assembler::new(Bytes::from(sent.to_owned()));
    for chunk in chunks {
        assembler.push(&json!({ "choices": [chunk] }).to_string())?;
    }
    assembler.finish()
}

fn reply(chunks: &[Value]) -> Reply {
    reply_to("", chunks).unwrap()
}

fn pieces(pieces: &Value) -> Value {
    json!({ "delta": { "tool_calls": pieces } })
}

fn ends(reason: &str) -> Value {
    json!({ "delta": {}, "finish_reason": reason })
}

fn content(reply: &Reply) -> Value {
    serde_json::from_str(reply.content.as_str()).unwrap()
}

/// Names and inputs of the calls; asserts that their ids differ.
fn calls(reply: &Reply) -> Vec<(String, Value)> {
    let content = content(reply);
    let calls: Vec<&Value> =
        content.as_array().unwrap().iter().filter(|block| block["type"] == "tool_use").collect();
    let mut ids: Vec<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), calls.len(), "{content}");
    let name = |call: &Value| call["name"].as_str().unwrap().to_owned();
    calls.iter().map(|call| (name(call), call["input"].clone())).collect()
}

/// The expected replies of the recorded streams.
fn recorded() -> [(&'static str, Value, ModelStop, [i64; 2]); 2] {
    [
        (
            "openai_01_text.sse",
            json!([{ "type": "text", "text": "Hello w\u{f6}rld \u{1f30d}" }]),
            ModelStop::EndTurn,
            [9, 4],
        ),
        (
            "openai_02_parallel_tool_calls.sse",
            json!([
                { "type": "tool_use", "id": "call_AaA1", "name": "get_weather",
                  "input": { "city": "Oslo" } },
                { "type": "tool_use", "id": "call_BbB2", "name": "get_time", "input": {} },
            ]),
            ModelStop::ToolUse,
            [80, 31],
        ),
    ]
}

#[test]
fn a_recorded_stream_is_assembled_into_its_message_wherever_it_is_split() {
    for (name, expected, stop, [input_tokens, output_tokens]) in recorded() {
        let bytes = fixture(name);
        let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
        let check = |pieces| {
            let (_, reply) = read(pieces).unwrap();
            let actual = (content(&reply), &reply.stop, reply.usage, reply.model.as_str());
            assert_eq!(actual, (expected.clone(), &stop, usage, "gpt-sample"), "{name}");
        };
        check(bytes.iter().map(|byte| vec![*byte]).collect());
        for cut in 0..bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            check(vec![head.to_vec(), tail.to_vec()]);
        }
    }
}

#[test]
fn a_truncated_stream_is_never_accepted_as_complete() {
    for (name, ..) in recorded() {
        let bytes = fixture(name);
        let text = std::str::from_utf8(&bytes).unwrap();
        let whole = text.find(r#""finish_reason":""#).unwrap();
        for cut in 0..whole {
            let ended = read(vec![bytes[..cut].to_vec()]);
            assert!(matches!(ended, Err(ModelError::Truncated)), "{name} cut at {cut}");
        }
    }
}

#[test]
fn progress_reports_the_start_and_the_growth_of_calls() {
    let (progress, _) = read(vec![fixture("openai_02_parallel_tool_calls.sse")]).unwrap();
    let started = |index, id: &str, name: &str| Progress::ToolUseStarted {
        index,
        id: id.to_owned(),
        name: name.to_owned(),
    };
    let delta = |index, text: &str| Progress::Delta { index, text: text.into() };
    let expected = [
        started(2, "call_AaA1", "get_weather"),
        delta(2, "{\"ci"),
        delta(2, "ty\":\"Oslo\"}"),
        started(3, "call_BbB2", "get_time"),
        delta(3, "{}"),
    ];
    assert_eq!(progress, expected);
}

#[test]
fn calls_are_distinguished_however_they_are_numbered() {
    let whole = |index: Value, id: Value, name: &str, arguments: Value| {
        let mut piece = json!({ "function": { "name": name, "arguments": arguments } });
        if !index.is_null() {
            piece["index"] = index;
        }
        if !id.is_null() {
            piece["id"] = id;
        }
        piece
    };
    let table = [
        ("no index and no id", [json!(null), json!(null)], [json!(null), json!(null)]),
        ("no index", [json!(null), json!(null)], [json!("a"), json!("b")]),
        ("no index and one id", [json!(null), json!(null)], [json!("a"), json!("a")]),
        ("one index", [json!(0), json!(0)], [json!("a"), json!("b")]),
        ("one index and no id", [json!(0), json!(0)], [json!(null), json!(null)]),
        ("one id", [json!(0), json!(1)], [json!("a"), json!("a")]),
        ("no id", [json!(0), json!(1)], [json!(null), json!(null)]),
        ("an empty id", [json!(0), json!(1)], [json!(""), json!("")]),
    ];
    let expected = vec![("f".to_owned(), json!({ "n": 1 })), ("f".to_owned(), json!({ "n": 2 }))];
    for (case, [index, other_index], [id, other_id]) in table {
        let first = whole(index, id, "f", json!(r#"{"n":1}"#));
        let second = whole(other_index, other_id, "f", json!(r#"{"n":2}"#));
        let apart = [pieces(&json!([first])), pieces(&json!([second])), ends("tool_calls")];
        assert_eq!(calls(&reply(&apart)), expected, "{case}");
        let together = [pieces(&json!([first, second])), ends("tool_calls")];
        assert_eq!(calls(&reply(&together)), expected, "{case}, in one chunk");
    }
}

#[test]
fn pieces_of_one_call_stay_together_however_they_are_labelled() {
    let first =
        json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"n\"" } });
    let rests = [
        json!({ "index": 0, "function": { "arguments": ":1}" } }),
        json!({ "function": { "arguments": ":1}" } }),
        json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": ":1}" } }),
        json!({ "index": 0, "id": "", "function": { "name": "", "arguments": ":1}" } }),
        json!({ "index": 0, "id": null, "function": { "name": null, "arguments": ":1}" } }),
    ];
    let last = json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": "" } });
    for rest in rests {
        let chunks = [&first, &rest, &last].map(|piece| pieces(&json!([piece]))).into_iter();
        let chunks: Vec<Value> = chunks.chain([ends("tool_calls")]).collect();
        let expected = json!([{ "type": "tool_use", "id": "a", "name": "f", "input": { "n": 1 } }]);
        assert_eq!(content(&reply(&chunks)), expected, "{rest}");
    }
}

#[test]
fn arguments_may_be_an_object_or_empty_and_other_values_are_wrapped() {
    let table = [
        (json!({ "n": 1 }), json!({ "n": 1 })),
        (json!(""), json!({})),
        (json!(null), json!({})),
        (json!("{\"n\":"), json!({ "INVALID_JSON": "{\"n\":" })),
        (json!("[1]"), json!({ "INVALID_JSON": "[1]" })),
    ];
    for (arguments, input) in table {
        let piece = json!([{ "id": "a", "function": { "name": "f", "arguments": arguments } }]);
        let reply = reply(&[pieces(&piece), ends("tool_calls")]);
        assert_eq!(calls(&reply), [("f".to_owned(), input)], "{piece}");
    }
}

#[test]
fn an_id_that_the_history_already_contains_is_replaced() {
    let sent = r#"{"messages":[{"role":"tool","tool_call_id":"call_0","content":"x"}]}"#;
    let piece = json!([{ "index": 0, "id": "call_0", "function": { "name": "f" } }]);
    let chunks = [pieces(&piece), ends("tool_calls")];
    let id = |sent| content(&reply_to(sent, &chunks).unwrap())[0]["id"].clone();
    assert_eq!(id(""), "call_0");
    let made = id(sent);
    assert!(made.as_str().unwrap().starts_with("call_") && made != "call_0", "{made}");
}

#[test]
fn each_finish_reason_maps_to_a_stop_reason() {
    let call = pieces(&json!([{ "id": "a", "function": { "name": "f", "arguments": "{}" } }]));
    let text = json!({ "delta": { "content": "Hi" } });
    let other = |word: &str| ModelStop::Other(word.to_owned());
    let table = [
        ("stop", ModelStop::EndTurn, ModelStop::ToolUse),
        ("tool_calls", ModelStop::EndTurn, ModelStop::ToolUse),
        ("tool_call", ModelStop::EndTurn, ModelStop::ToolUse),
        ("tool_use", ModelStop::EndTurn, ModelStop::ToolUse),
        ("STOP", ModelStop::EndTurn, ModelStop::ToolUse),
        ("end_turn", ModelStop::EndTurn, ModelStop::ToolUse),
        ("eos", ModelStop::EndTurn, ModelStop::ToolUse),
        ("length", ModelStop::MaxTokens, ModelStop::MaxTokens),
        ("MAX_TOKENS", ModelStop::MaxTokens, ModelStop::MaxTokens),
        ("content_filter", ModelStop::Refusal, ModelStop::Refusal),
        ("odd", other("odd"), other("odd")),
    ];
    for (reason, without, with) in table {
        assert_eq!(reply(&[text.clone(), ends(reason)]).stop, without, "{reason}");
        assert_eq!(reply(&[call.clone(), ends(reason)]).stop, with, "{reason} with a call");
    }
    let refused = json!({ "delta": { "content": null, "refusal": "I will not." } });
    let refused = reply(&[refused, ends("stop")]);
    assert_eq!(refused.stop, ModelStop::Refusal);
    assert_eq!(refused.refusal.explanation.as_deref(), Some("I will not."));
}

#[test]
fn reasoning_is_stored_with_the_members_that_the_server_gets_back() {
    let chunks = [
        json!({ "delta": { "role": "assistant", "content": "", "reasoning_content": "Hm." } }),
        json!({ "index": 1, "delta": { "content": "Another answer" } }),
        json!({ "delta": { "content": "Hi", "new": [1] }, "logprobs": {} }),
        json!({ "delta": null, "finish_reason": "stop" }),
    ];
    let signature = r#"chat-completions:{"thinking":"reasoning_content","message":{"new":[1]}}"#;
    let expected = json!([
        { "type": "thinking", "thinking": "Hm.", "signature": signature },
        { "type": "text", "text": "Hi" },
    ]);
    assert_eq!(content(&reply(&chunks)), expected);
}

#[test]
fn a_call_in_the_older_form_is_assembled() {
    let function = |function: Value| json!({ "delta": { "function_call": function } });
    let chunks = [
        function(json!({ "name": "f", "arguments": "{\"a\"" })),
        function(json!({ "arguments": ":1}" })),
        ends("function_call"),
    ];
    assert_eq!(calls(&reply(&chunks)), [("f".to_owned(), json!({ "a": 1 }))]);
}

#[test]
fn a_whole_message_instead_of_a_stream_is_a_reply() {
    let calls = json!([{ "id": "call_1", "type": "function",
                         "function": { "name": "f", "arguments": "{\"a\":1}" } }]);
    let message = json!({ "role": "assistant", "content": "Hi", "tool_calls": calls });
    let whole = reply(&[json!({ "index": 0, "message": message, "finish_reason": "tool_calls" })]);
    assert_eq!(whole.stop, ModelStop::ToolUse);
    let call = json!({ "type": "tool_use", "id": "call_1", "name": "f", "input": { "a": 1 } });
    assert_eq!(content(&whole), json!([{ "type": "text", "text": "Hi" }, call]));
}

#[test]
fn a_last_event_ends_a_reply_without_a_finish_reason_unless_nothing_was_received() {
    let read = |texts: &[&str]| {
        let mut assembler = Assembler::new(Bytes::new());
        for text in texts {
            assembler.push(text).unwrap();
        }
        assembler.finish().map(|reply| reply.stop)
    };
    let text = r#"{"choices":[{"delta":{"content":"Hi"}}]}"#;
    assert!(matches!(read(&[text, "[DONE]"]), Ok(ModelStop::EndTurn)));
    assert!(matches!(read(&[text]), Err(ModelError::Truncated)));
    assert!(matches!(read(&["[DONE]"]), Err(ModelError::Truncated)));
}

#[test]
fn tokens_are_counted_once_from_the_last_usage() {
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
                        "prompt_tokens_details": { "cached_tokens": 80 },
                        "completion_tokens_details": { "reasoning_tokens": 15 } });
    let mut assembler = Assembler::new(Bytes::new());
    for chunk in [
        json!({ "choices": [ends("stop")], "usage": { "prompt_tokens": 100, "completion_tokens": 1 } }),
        json!({ "choices": [], "usage": usage }),
        json!({ "choices": null, "usage": null }),
    ] {
        assembler.push(&chunk.to_string()).unwrap();
    }
    let expected = Usage {
        input_tokens: 20,
        cache_read_input_tokens: 80,
        output_tokens: 20,
        thinking_tokens: 15,
        ..Usage::default()
    };
    assert_eq!(assembler.finish().unwrap().usage, expected);
    assert_eq!(reply(&[ends("stop")]).usage, Usage::default());
}

#[test]
fn an_error_inside_a_stream_fails_the_reply() {
    let mut assembler = Assembler::new(Bytes::new());
    let error = assembler.push(r#"{"error":{"message":"m","code":503}}"#).unwrap_err();
    assert!(matches!(error, ModelError::Api { status: None, kind: ErrorKind::Api, .. }), "{error}");
    assert!(matches!(assembler.push("{oops"), Err(ModelError::Malformed(_))));
}

#[test]
fn a_call_without_a_name_is_malformed() {
    let piece = json!([{ "index": 0, "id": "a", "function": { "arguments": "{}" } }]);
    let ended = reply_to("", &[pieces(&piece), ends("tool_calls")]);
    assert!(matches!(ended, Err(ModelError::Malformed(_))));
}

#[test]
fn a_stream_that_stops_leaves_its_text_and_an_estimate_of_its_output() {
    let mut assembler = Assembler::new(Bytes::new());
    assert!(assembler.partial().is_none(), "nothing was received");
    let mut push = |chunk: &Value| {
        assembler.push(&chunk.to_string()).unwrap();
        let part = assembler.partial().unwrap();
        let tokens = (part.usage.input_tokens, part.usage.output_tokens);
        (part.content.joined_text().unwrap(), tokens)
    };
    let text = |text: &str| json!({ "choices": [{ "delta": { "content": text } }] });
    assert_eq!(push(&text("Half ")), ("Half ".to_owned(), (0, 2)));
    assert_eq!(push(&text("of it")), ("Half of it".to_owned(), (0, 3)));
    let call = pieces(
        &json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"a\":" } }]),
    );
    assert_eq!(push(&json!({ "choices": [call] })), ("Half of it".to_owned(), (0, 4)));
    let counts = json!({ "choices": [], "usage": { "prompt_tokens": 30, "completion_tokens": 9 } });
    assert_eq!(push(&counts), ("Half of it".to_owned(), (30, 9)));
}
