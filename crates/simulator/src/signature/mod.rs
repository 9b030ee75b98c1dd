//! Signatures of thinking blocks that any simulator can check without having issued them.
//!
//! A signature is `sim1.<model>.<text>.<system>.<prefix>`, the last four being hashes of the
//! model's name, the block's text, the system prompt, and everything before the block: system
//! prompt, tools and messages. Cache markers are not part of it; the order of keys is.
//!
//! What stands before the last summary is no part of it either. Thinking that was made before a
//! signed summary stays valid after it: see [`summary`].

pub(crate) mod summary;

use std::io::Write as _;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::refusal::Refusal;
use super::request::{Ask, At, Located, Sent, Turn};
use summary::Summary;

const SCHEME: &str = "sim1.";

/// The hash of a conversation, from its settings to some block: each block is hashed together with
/// the hash of what comes before it.
#[derive(Debug, Clone)]
pub(crate) struct Prefix {
    system: String,
    hash: String,
    buffer: Vec<u8>,
}

impl Prefix {
    /// The prefix of the next reply: the settings and every message.
    pub(crate) fn of(ask: Ask<'_>) -> Self {
        let mut prefix = Self::settings(ask);
        for (role, located) in ask.sent() {
            prefix.push(role, located.block);
        }
        prefix
    }

    fn settings(ask: Ask<'_>) -> Self {
        let mut system = Vec::new();
        match ask.get("system") {
            Some(Value::String(text)) => write_block(&mut system, Sent::Text(text)),
            Some(Value::Array(parts)) => {
                for part in parts {
                    write_block(&mut system, Sent::Json(part));
                }
            }
            _ => {}
        }
        let mut settings = system.clone();
        settings.push(0x1e);
        for tool in ask.tools() {
            write_block(&mut settings, Sent::Json(tool));
        }
        let hash = short(Sha256::digest(&settings));
        Self { system: short(Sha256::digest(&system)), hash, buffer: settings }
    }

    fn push(&mut self, role: &str, block: Sent<'_>) {
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

/// Checks every signature of the simulator in the request; others are taken on trust.
pub(crate) fn check(ask: Ask<'_>, turns: &[Turn<'_>]) -> Result<(), Refusal> {
    if !turns.iter().any(|turn| turn.blocks.iter().any(is_ours)) {
        return Ok(());
    }
    let latest = turns.iter().rposition(|turn| turn.role == "assistant");
    let mut prefix = Prefix::settings(ask);
    // Where the conversation stood that was summed up, if it goes on from there.
    let mut earlier = Summary::of(ask).and_then(|summary| summary.earlier(ask, &prefix));
    for (at, turn) in turns.iter().enumerate() {
        // A reply's blocks are all bound to the request before it. A turn can hold several
        // replies (after `pause_turn`), so any point of the turn may be that request's end.
        let mut points = Vec::new();
        let signed = turn.blocks.iter().any(is_ours);
        for located in &turn.blocks {
            if signed {
                points.push(prefix.hash.clone());
                points.extend(earlier.as_ref().map(|earlier| earlier.hash.clone()));
            }
            check_block(ask, located, &prefix.system, &points, Some(at) == latest)?;
            prefix.push(turn.role, located.block);
            if let Some(earlier) = earlier.as_mut().filter(|_| !located.block.is("compaction")) {
                earlier.push(turn.role, located.block);
            }
        }
    }
    Ok(())
}

fn is_ours(located: &Located<'_>) -> bool {
    let block = located.block;
    block.is("thinking")
        && block.str("signature").is_some_and(|signature| signature.starts_with(SCHEME))
}

fn check_block(
    ask: Ask<'_>,
    located: &Located<'_>,
    system: &str,
    points: &[String],
    latest: bool,
) -> Result<(), Refusal> {
    if !is_ours(located) {
        return Ok(());
    }
    let Located { at, block } = located;
    let parts: Vec<&str> = block.str("signature").unwrap_or_default().split('.').collect();
    let &[_, model, text, signed_system, signed_prefix] = parts.as_slice() else {
        return Err(Refusal::invalid(invalid(at)));
    };
    if model != hash(ask.model()) {
        return Ok(()); // Another model's thinking is dropped in silence.
    }
    if text != hash(block.str("thinking").unwrap_or_default()) {
        return Err(Refusal::invalid(if latest { modified(at) } else { invalid(at) }));
    }
    if points.iter().any(|point| point == signed_prefix) {
        return Ok(());
    }
    Err(Refusal::invalid(bound(at, signed_system == system)))
}

fn invalid(at: &At) -> String {
    format!("{at}: Invalid `signature` in `thinking` block")
}

fn modified(at: &At) -> String {
    format!(
        "{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
         modified. These blocks must remain as they were in the original response."
    )
}

fn bound(at: &At, same_system: bool) -> String {
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

/// The block as JSON without its cache markers. A string is the shorthand of a text block.
pub(crate) fn write_block(out: &mut Vec<u8>, block: Sent<'_>) {
    out.push(0x1f);
    match block {
        Sent::Text(text) => {
            out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
            write_json(out, text);
            out.push(b'}');
        }
        Sent::Json(Value::Object(fields)) => write_fields(out, fields),
        Sent::Json(other) => write_json(out, other),
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
                write_block(out, Sent::Json(part));
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
