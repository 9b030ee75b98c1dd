//! Generated replies, in chunks, lines and pieces of any size.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

/// A reply, and how its stream is written and received.
#[derive(Debug, Clone)]
struct Sent {
    thinking: String,
    text: String,
    calls: Vec<(String, Value)>,
    /// The numbers of characters of the pieces of a text, over and over.
    pieces: Vec<usize>,
    /// The numbers of bytes that arrive together, over and over.
    arrivals: Vec<usize>,
    line_end: &'static str,
    has_comments: bool,
}

fn sent() -> impl Strategy<Value = Sent> {
    let input = btree_map("[a-z]{1,5}", "\\PC{0,20}", 0..4);
    let call = ("[a-z_]{1,12}", input).prop_map(|(name, input)| (name, json!(input)));
    let texts = ("\\PC{0,40}", "[a-z]\\PC{0,60}", vec(call, 0..4));
    let sizes = (vec(1_usize..12, 1..5), vec(1_usize..50, 1..5));
    let line_end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
    (texts, sizes, line_end, any::<bool>()).prop_map(
        |((thinking, text, calls), (pieces, arrivals), line_end, has_comments)| Sent {
            thinking,
            text,
            calls,
            pieces,
            arrivals,
            line_end,
            has_comments,
        },
    )
}

impl Sent {
    fn pieces(&self, text: &str) -> Vec<String> {
        let (mut rest, mut pieces) = (text.chars().peekable(), Vec::new());
        let mut sizes = self.pieces.iter().cycle();
        while rest.peek().is_some() {
            pieces.push(rest.by_ref().take(*sizes.next().unwrap()).collect());
        }
        pieces
    }

    fn deltas(&self) -> Vec<Value> {
        let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
        let texts = [("reasoning_content", &self.thinking), ("content", &self.text)];
        for (member, text) in texts {
            deltas.extend(self.pieces(text).iter().map(|piece| json!({ member: piece })));
        }
        for (index, (name, input)) in self.calls.iter().enumerate() {
            let head = json!({ "index": index, "id": format!("call_{index}"), "type": "function",
                "function": { "name": name, "arguments": "" } });
            deltas.push(json!({ "tool_calls": [head] }));
            for piece in self.pieces(&input.to_string()) {
                let piece = json!({ "index": index, "function": { "arguments": piece } });
                deltas.push(json!({ "tool_calls": [piece] }));
            }
        }
        deltas
    }

    fn body(&self) -> Vec<u8> {
        let reason = if self.calls.is_empty() { "stop" } else { "tool_calls" };
        let chunk = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
        let mut chunks: Vec<Value> = self.deltas().into_iter().map(chunk).collect();
        chunks.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }));
        chunks.push(json!({ "choices": [], "model": "m",
            "usage": { "prompt_tokens": 70, "completion_tokens": 9 } }));
        let mut body = String::new();
        for data in chunks.iter().map(Value::to_string).chain(["[DONE]".to_owned()]) {
            let comment = self.has_comments.then_some([": ", self.line_end]);
            body.extend(comment.into_iter().flatten());
            body.extend(["data: ", &data, self.line_end, self.line_end]);
        }
        body.into_bytes()
    }

    fn arrivals(&self) -> Vec<Vec<u8>> {
        let (body, mut from) = (self.body(), 0);
        let sizes = self.arrivals.iter().cycle();
        let cuts = sizes.map_while(|size| {
            let to = (from + size).min(body.len());
            let arrived = body[from..to].to_vec();
            from = to;
            (!arrived.is_empty()).then_some(arrived)
        });
        cuts.collect()
    }
}

proptest! {
    #[test]
    fn a_reply_is_assembled_whatever_the_pieces_in_which_it_arrives(sent in sent()) {
        let (progress, reply) = read(sent.arrivals()).unwrap();
        let blocks = content(&reply);
        let of_type = |kind: &str, member: &str| -> Vec<Value> {
            let blocks = blocks.as_array().unwrap().iter().filter(|block| block["type"] == kind);
            blocks.map(|block| block[member].clone()).collect()
        };
        let thinking: Vec<&str> =
            Some(sent.thinking.as_str()).filter(|text| !text.is_empty()).into_iter().collect();
        prop_assert_eq!(json!(of_type("thinking", "thinking")), json!(thinking));
        prop_assert_eq!(json!(of_type("text", "text")), json!([sent.text]));
        prop_assert_eq!(calls(&reply), sent.calls.clone());
        let stop = if sent.calls.is_empty() { ModelStop::EndTurn } else { ModelStop::ToolUse };
        let usage = Usage { input_tokens: 70, output_tokens: 9, ..Usage::default() };
        prop_assert_eq!((&reply.stop, reply.usage), (&stop, usage));
        let shown = progress.iter().map(|it| {
            if let Progress::Delta { index: TEXT, text } = it { &**text } else { "" }
        });
        let shown: String = shown.collect();
        prop_assert_eq!(shown, sent.text);
    }
}
