//! Generated replies, in events, lines and pieces of any size.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

/// An item of a reply.
#[derive(Debug, Clone)]
enum Sent {
    Text(String),
    Reasoning(String),
    Call(String, Value),
}

fn item() -> impl Strategy<Value = Sent> {
    let input = btree_map("[a-z]{1,5}", "\\PC{0,20}", 0..4).prop_map(|input| json!(input));
    prop_oneof![
        "[a-z]\\PC{0,60}".prop_map(Sent::Text),
        "\\PC{0,40}".prop_map(Sent::Reasoning),
        ("[a-z_]{1,12}", input).prop_map(|(name, input)| Sent::Call(name, input)),
    ]
}

impl Sent {
    fn json(&self, index: usize) -> Value {
        match self {
            Self::Text(text) => message(text),
            Self::Reasoning(text) => json!({ "type": "reasoning", "id": format!("rs_{index}"),
                "summary": [{ "type": "summary_text", "text": text }], "encrypted_content": "gA" }),
            Self::Call(name, input) => json!({ "type": "function_call", "name": name,
                "call_id": format!("call_{index}"), "arguments": input.to_string() }),
        }
    }

    fn opening(&self, index: usize) -> Value {
        let mut item = self.json(index);
        for member in ["content", "summary"] {
            if item.get(member).is_some() {
                item[member] = json!([]);
            }
        }
        if item.get("arguments").is_some() {
            item["arguments"] = json!("");
        }
        item
    }

    fn deltas(&self) -> (&'static str, String) {
        match self {
            Self::Text(text) => ("response.output_text.delta", text.clone()),
            Self::Reasoning(text) => ("response.reasoning_summary_text.delta", text.clone()),
            Self::Call(_, input) => ("response.function_call_arguments.delta", input.to_string()),
        }
    }

    fn block(&self, index: usize) -> Value {
        match self {
            Self::Text(text) => json!({ "type": "text", "text": text }),
            Self::Reasoning(text) => json!({ "type": "thinking", "thinking": text,
                "signature": format!("responses:{}", self.json(index)) }),
            Self::Call(name, input) => json!({ "type": "tool_use",
                "id": format!("call_{index}"), "name": name, "input": input }),
        }
    }
}

/// The events of a stream, with deltas of these lengths, over and over.
fn events(items: &[Sent], sizes: &[usize]) -> Vec<Value> {
    let mut events = vec![json!({ "type": "response.created", "response": { "model": "m" } })];
    for (index, item) in items.iter().enumerate() {
        events.push(json!({ "type": "response.output_item.added", "output_index": index,
                            "item": item.opening(index) }));
        let (kind, text) = item.deltas();
        let (mut rest, mut sizes) = (text.chars().peekable(), sizes.iter().cycle());
        while rest.peek().is_some() {
            let delta: String = rest.by_ref().take(*sizes.next().unwrap()).collect();
            events.push(json!({ "type": kind, "output_index": index, "delta": delta }));
        }
        events.push(done(index, &item.json(index)));
    }
    events.push(completed(&json!({})));
    events
}

/// The pieces of a body, of these lengths, over and over.
fn pieces(body: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
    let (mut rest, mut pieces, mut sizes) = (body, Vec::new(), sizes.iter().cycle());
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
        pieces.push(piece.to_vec());
        rest = after;
    }
    pieces
}

proptest! {
    #[test]
    fn a_reply_is_assembled_whatever_the_pieces_in_which_it_arrives(
        items in vec(item(), 1..6),
        sizes in vec(1_usize..12, 1..5),
        arrivals in vec(1_usize..50, 1..5),
        line_end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
    ) {
        let mut body = String::new();
        for event in events(&items, &sizes) {
            let name = event["type"].as_str().unwrap().to_owned();
            let lines = [format!("event: {name}"), format!("data: {event}"), String::new()];
            body.extend(lines.iter().flat_map(|line| [line.as_str(), line_end]));
        }
        let (_, reply) = read(pieces(body.as_bytes(), &arrivals));
        let expected: Vec<Value> =
            items.iter().enumerate().map(|(index, item)| item.block(index)).collect();
        prop_assert_eq!(content(&reply), json!(expected));
        let calls = items.iter().any(|item| matches!(item, Sent::Call(..)));
        let stop = if calls { ModelStop::ToolUse } else { ModelStop::EndTurn };
        prop_assert_eq!(reply.stop, stop);
    }
}
