//! A request as the cache sees it: blocks in the order tools, system, messages.

use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::request::{Ask, Sent, blocks, role};
use crate::signature::write_block;
use crate::validate::media;

/// What a message has besides its blocks and its role.
const FRAME: &str = r#"{"role":"","content":[]}"#;

/// The hash of everything up to a block, and of the settings that its level depends on.
pub(super) type Key = [u8; 32];

/// One block, the end of a prefix.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) key: Key,
    /// Bytes of the prefix but for pictures.
    pub(super) end: usize,
    /// For how long the prefix is to be kept, if the block is marked.
    pub(super) ttl: Option<Duration>,
    /// Whether automatic caching may mark it.
    takes_a_mark: bool,
}

/// The blocks of a request, the automatic mark among them.
pub(super) fn layout(ask: Ask<'_>) -> Vec<Block> {
    let mut layout = Layout::default();
    layout.settings(&[ask.get("model"), format(ask)]);
    for tool in ask.tools() {
        layout.push(Sent::Json(tool));
    }
    layout.settings(&[ask.get("speed")]);
    match ask.get("system") {
        Some(Value::String(text)) => layout.push(Sent::Text(text)),
        Some(Value::Array(parts)) => parts.iter().for_each(|part| layout.push(Sent::Json(part))),
        _ => {}
    }
    let effort = ask.get("output_config").and_then(|config| config.get("effort"));
    layout.settings(&[ask.get("tool_choice"), ask.get("thinking"), effort]);
    layout.state.update([u8::from(has_images(ask))]);
    for message in ask.messages() {
        layout.state.update(role(message));
        layout.bytes += FRAME.len() + role(message).len();
        blocks(message).for_each(|block| layout.push(block));
    }
    let automatic = ask.get("cache_control").filter(|mark| !mark.is_null());
    if let (Some(mark), Some(last)) = (automatic, layout.last_markable()) {
        last.ttl = last.ttl.or(Some(ttl(mark)));
    }
    layout.blocks
}

#[derive(Debug, Default)]
struct Layout {
    blocks: Vec<Block>,
    state: Sha256,
    bytes: usize,
    buffer: Vec<u8>,
}

impl Layout {
    /// What all prefixes from here on depend on.
    fn settings(&mut self, settings: &[Option<&Value>]) {
        for setting in settings {
            let text = setting.map(Value::to_string).unwrap_or_default();
            self.state.update([0x1e]);
            self.state.update(text);
        }
    }

    fn push(&mut self, block: Sent<'_>) {
        self.buffer.clear();
        write_block(&mut self.buffer, block);
        self.state.update(&self.buffer);
        self.bytes += self.buffer.len().saturating_sub(media::size([block].into_iter()));
        let is_thinking = block.is("thinking") || block.is("redacted_thinking");
        self.blocks.push(Block {
            key: self.state.clone().finalize().into(),
            end: self.bytes,
            ttl: mark_of(block).map(ttl),
            takes_a_mark: !is_thinking && block.str("text") != Some(""),
        });
    }

    fn last_markable(&mut self) -> Option<&mut Block> {
        self.blocks.iter_mut().rev().find(|block| block.takes_a_mark)
    }
}

/// The mark of a block, or of a part of its content.
fn mark_of(block: Sent<'_>) -> Option<&Value> {
    let parts = block.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let inner = parts.iter().filter_map(|part| part.get("cache_control"));
    block.get("cache_control").into_iter().chain(inner).find(|mark| !mark.is_null())
}

fn ttl(mark: &Value) -> Duration {
    let is_long = mark.get("ttl").is_some_and(|ttl| ttl == "1h");
    Duration::from_mins(if is_long { 60 } else { 5 })
}

fn format(ask: Ask<'_>) -> Option<&Value> {
    ask.get("output_config").and_then(|config| config.get("format")).or(ask.get("output_format"))
}

fn has_images(ask: Ask<'_>) -> bool {
    let is_image = |part: &Value| part.get("type").is_some_and(|kind| kind == "image");
    let mut sent = ask.messages().iter().flat_map(blocks);
    sent.any(|block| {
        let parts = block.get("content").and_then(Value::as_array);
        block.is("image") || parts.is_some_and(|parts| parts.iter().any(is_image))
    })
}
