//! Conversion of a scripted reply to the message that answers a request.

use std::cell::LazyCell;

use serde_json::{Map, Value, json};

use super::cache::Input;
use super::ids;
use super::message::{Message, Part};
use super::phrases::{join, shorten};
use super::request::{ApiRequest, ContentBlock, ToolChoice, blocks};
use super::script::{Block, CallKind, Placeholders, Reply};
use super::signature::Prefix;

/// Bytes for each token: a rough average for plausible counts.
pub(crate) const BYTES_PER_TOKEN: usize = 4;

/// Maximum length of a quoted result in characters, in the text that replaces a forbidden call.
const QUOTED: usize = 200;

/// Returns the message for this reply, request and input.
pub(crate) fn message(
    reply: &Reply,
    request: ApiRequest<'_>,
    values: &Placeholders,
    input: Input,
) -> Message {
    let calls = reply.content.iter().any(Block::is_client_call);
    let forbidden = calls && request.choice() == ToolChoice::None;
    let content = if forbidden {
        let text = reply.when_forbidden.as_deref().map(|text| values.fill(text));
        let text = text.unwrap_or_else(|| without_tools(values));
        vec![Part::Text { text, citations: Vec::new() }]
    } else {
        parts(reply, request, values)
    };
    let stop_reason = match &reply.stop_reason {
        Some(reason) if !forbidden => reason.as_str(),
        _ if calls && !forbidden => "tool_use",
        _ if reply.stop_sequence.is_some() => "stop_sequence",
        _ => "end_turn",
    };
    Message {
        id: ids::message(),
        model: reply.model.clone().unwrap_or_else(|| request.model().to_owned()),
        stop_reason: stop_reason.to_owned(),
        stop_sequence: reply.stop_sequence.clone(),
        stop_details: reply.stop_details.clone(),
        usage: usage(&reply.usage, tokens_of(content.iter().map(Part::size).sum()), input),
        content,
        context_management: None,
        container: None,
    }
}

/// The reply to a request with `max_tokens: 0`, which only fills the cache.
pub(crate) fn warm_up(request: ApiRequest<'_>, input: Input) -> Message {
    let reply = Reply { stop_reason: Some("max_tokens".to_owned()), ..Reply::default() };
    message(&reply, request, &Placeholders::default(), input)
}

/// Returns the values of the placeholders for this request.
pub(crate) fn placeholders(request: ApiRequest<'_>, user: &str) -> Placeholders {
    let results = request.messages().last().into_iter().flat_map(blocks);
    let results = results.filter(|block| block.is("tool_result"));
    Placeholders {
        user: user.to_owned(),
        results: results.map(ContentBlock::result_text).collect(),
    }
}

fn parts(reply: &Reply, request: ApiRequest<'_>, values: &Placeholders) -> Vec<Part> {
    let prefix = LazyCell::new(|| Prefix::of(request));
    let part = |block: &Block| match block {
        Block::Text { text, citations } => {
            Part::Text { text: values.fill(text), citations: citations.clone() }
        }
        Block::Thinking { thinking, signature } => {
            let thinking = values.fill(thinking);
            let signature = signature.clone();
            let signature = signature.unwrap_or_else(|| prefix.sign(request.model(), &thinking));
            Part::Thinking { thinking, signature }
        }
        Block::Call { kind, id, name, input, raw_input } => Part::Call {
            kind: kind.as_str(),
            id: id.clone().unwrap_or_else(|| call_id(*kind)),
            name: name.clone(),
            input: match raw_input {
                Some(raw) => raw.clone(),
                None => values.fill_value(input).to_string(),
            },
        },
        Block::Raw(block) => Part::Raw(Value::Object(block.clone())),
    };
    let mut calls = 0;
    // A model that may not call several tools at once calls the first one.
    let blocks = reply.content.iter().filter(|block| {
        calls += usize::from(block.is_client_call());
        !block.is_client_call() || calls == 1 || !request.forbids_parallel()
    });
    blocks.map(part).collect()
}

fn call_id(kind: CallKind) -> String {
    match kind {
        CallKind::Client => ids::tool_use(),
        CallKind::Server => ids::server_tool_use(),
    }
}

/// The tokens of `bytes` bytes of output.
pub(crate) fn tokens_of(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// The counts of a reply. The script can override each of them.
pub(crate) fn usage(
    overrides: &Map<String, Value>,
    output: usize,
    input: Input,
) -> Map<String, Value> {
    let estimate = json!({
        "input_tokens": input.uncached,
        "cache_creation_input_tokens": input.written(),
        "cache_read_input_tokens": input.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": input.written_5m,
            "ephemeral_1h_input_tokens": input.written_1h,
        },
        "output_tokens": output,
        "service_tier": "standard",
        "inference_geo": "global",
    });
    let Value::Object(mut usage) = estimate else {
        return overrides.clone();
    };
    usage.extend(overrides.iter().map(|(field, value)| (field.clone(), value.clone())));
    usage
}

/// The text that replaces a scripted call when the request forbids tools.
fn without_tools(values: &Placeholders) -> String {
    if values.results.is_empty() {
        return "This request forbids tool calls, so I cannot answer it.".to_owned();
    }
    let quotes = values.results.iter().map(|result| format!("\"{}\"", shorten(result, QUOTED)));
    let quotes: Vec<String> = quotes.collect();
    format!("This request forbids more tool calls. The results so far: {}.", join(&quotes))
}
