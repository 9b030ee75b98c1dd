//! Signatures of thinking blocks. Every simulator can verify them, also those of another instance.
//!
//! A signature is `sim1.<model>.<text>.<system>.<prefix>`. The last four parts are hashes of the
//! model's name, the block's text, the system prompt, and everything before the block: system
//! prompt, tools and messages. Cache markers do not affect it; the order of keys does.
//!
//! Messages before the last summary do not affect it either. Thinking from before a signed summary
//! stays valid after it: see [`summary`].

pub(crate) mod summary;

use std::io::Write as _;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::refusal::Refusal;
use super::request::{ApiRequest, BlockPath, ContentBlock, LocatedBlock, Turn, open_loop};
use summary::Summary;

const SCHEME: &str = "sim1.";

/// The hash of a conversation from its settings to a block. Each block is hashed together with the
/// hash of all blocks before it.
#[derive(Debug, Clone)]
pub(crate) struct Prefix {
    system: String,
    hash: String,
    buffer: Vec<u8>,
}

impl Prefix {
    /// The prefix of the next reply: the settings and all messages.
    pub(crate) fn of(request: ApiRequest<'_>) -> Self {
        let mut prefix = Self::settings(request);
        for (role, located) in request.sent() {
            prefix.push(role, located.block);
        }
        prefix
    }

    fn settings(request: ApiRequest<'_>) -> Self {
        let mut system = Vec::new();
        match request.get("system") {
            Some(Value::String(text)) => write_block(&mut system, ContentBlock::Text(text)),
            Some(Value::Array(parts)) => {
                for part in parts {
                    write_block(&mut system, ContentBlock::Json(part));
                }
            }
            _ => {}
        }
        let mut settings = system.clone();
        settings.push(0x1e);
        for tool in request.tools() {
            write_block(&mut settings, ContentBlock::Json(tool));
        }
        let hash = short(Sha256::digest(&settings));
        Self { system: short(Sha256::digest(&system)), hash, buffer: settings }
    }

    fn push(&mut self, role: &str, block: ContentBlock<'_>) {
        self.buffer.clear();
        for part in [&self.hash, "\x1e", role] {
            self.buffer.extend_from_slice(part.as_bytes());
        }
        write_block(&mut self.buffer, block);
        self.hash = short(Sha256::digest(&self.buffer));
    }

    /// The hash of everything so far.
    pub(crate) fn digest(&self) -> &str {
        &self.hash
    }

    /// Signs a thinking block that follows this prefix.
    pub(crate) fn sign(&self, model: &str, thinking: &str) -> String {
        let Self { system, hash: prefix, .. } = self;
        format!("{SCHEME}{}.{}.{system}.{prefix}", hash(model), hash(thinking))
    }
}

/// Verifies every signature of the simulator in the request. Other signatures are accepted.
pub(crate) fn check(request: ApiRequest<'_>, turns: &[Turn<'_>]) -> Result<(), Refusal> {
    if !turns.iter().any(|turn| turn.blocks.iter().any(is_ours)) {
        return Ok(());
    }
    let latest = turns.iter().rposition(|turn| turn.role == "assistant");
    let in_loop = turns.len() - open_loop(turns).map_or(0, <[_]>::len);
    let mut prefix = Prefix::settings(request);
    // The prefix before the summary, if the conversation continues from there.
    let mut earlier = Summary::of(request).and_then(|summary| summary.earlier(request, &prefix));
    for (at, turn) in turns.iter().enumerate() {
        // All blocks of a reply are bound to the request before it. A turn can contain several
        // replies (after `pause_turn`), so the request can end at any point of the turn.
        let mut points = Vec::new();
        let signed = turn.blocks.iter().any(is_ours);
        for located in &turn.blocks {
            if signed {
                points.push(prefix.hash.clone());
                points.extend(earlier.as_ref().map(|earlier| earlier.hash.clone()));
            }
            let position = Position { is_latest: Some(at) == latest, is_in_loop: at >= in_loop };
            check_block(request, located, &prefix.system, &points, position)?;
            prefix.push(turn.role, located.block);
            if let Some(earlier) = earlier.as_mut().filter(|_| !located.block.is("compaction")) {
                earlier.push(turn.role, located.block);
            }
        }
    }
    Ok(())
}

fn is_ours(located: &LocatedBlock<'_>) -> bool {
    let block = located.block;
    block.is("thinking")
        && block.str("signature").is_some_and(|signature| signature.starts_with(SCHEME))
}

/// The position of a block in the conversation.
#[derive(Debug, Clone, Copy)]
struct Position {
    /// It is in the last turn of the assistant.
    is_latest: bool,
    /// It is in the tool loop that the request continues.
    is_in_loop: bool,
}

fn check_block(
    request: ApiRequest<'_>,
    located: &LocatedBlock<'_>,
    system: &str,
    points: &[String],
    position: Position,
) -> Result<(), Refusal> {
    if !is_ours(located) {
        return Ok(());
    }
    let LocatedBlock { at, block } = located;
    let parts: Vec<&str> = block.str("signature").unwrap_or_default().split('.').collect();
    let &[_, model, text, signed_system, signed_prefix] = parts.as_slice() else {
        return Err(Refusal::invalid(invalid(at)));
    };
    if model != hash(request.model()) {
        // Another model's thinking is dropped in silence. A tool loop has one model.
        return if position.is_in_loop { Err(Refusal::invalid(invalid(at))) } else { Ok(()) };
    }
    if text != hash(block.str("thinking").unwrap_or_default()) {
        return Err(Refusal::invalid(if position.is_latest { modified(at) } else { invalid(at) }));
    }
    if points.iter().any(|point| point == signed_prefix) {
        return Ok(());
    }
    Err(Refusal::invalid(bound(at, signed_system == system)))
}

fn invalid(at: &BlockPath) -> String {
    format!("{at}: Invalid `signature` in `thinking` block")
}

fn modified(at: &BlockPath) -> String {
    format!(
        "{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
         modified. These blocks must remain as they were in the original response."
    )
}

fn bound(at: &BlockPath, same_system: bool) -> String {
    let invalid = invalid(at);
    let system = if same_system {
        ""
    } else {
        " The `system` prompt differs from the one this block was created with."
    };
    format!(
        "{invalid}. The block is bound to a different conversation. Remove the block, or set \
         `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".{system}"
    )
}

/// Writes the block as JSON without its cache markers. A string is shorthand for a text block.
pub(crate) fn write_block(out: &mut Vec<u8>, block: ContentBlock<'_>) {
    out.push(0x1f);
    match block {
        ContentBlock::Text(text) => {
            out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
            write_json(out, text);
            out.push(b'}');
        }
        ContentBlock::Json(Value::Object(fields)) => write_fields(out, fields),
        ContentBlock::Json(other) => write_json(out, other),
    }
}

fn write_fields(out: &mut Vec<u8>, fields: &Map<String, Value>) {
    out.push(b'{');
    let mut separator: &[u8] = b"";
    for (key, value) in fields.iter().filter(|(key, _)| *key != "cache_control") {
        out.extend_from_slice(separator);
        separator = b",";
        write_json(out, key);
        out.push(b':');
        if let (Value::Array(parts), "content") = (value, key.as_str()) {
            for part in parts {
                write_block(out, ContentBlock::Json(part));
            }
        } else {
            write_json(out, value);
        }
    }
    out.push(b'}');
}

fn write_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Neither a `Value` nor memory can fail here; a lost byte would only fail a check.
    if serde_json::to_writer(&mut *out, value).is_err() {
        let _ = out.write_all(b"?");
    }
}

fn hash(text: &str) -> String {
    short(Sha256::digest(text))
}

/// The first 16 hexadecimal digits.
fn short(digest: impl AsRef<[u8]>) -> String {
    let mut text = String::with_capacity(16);
    for byte in digest.as_ref().iter().take(8) {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
        }
    }
    text
}
