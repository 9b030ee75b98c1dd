//! A request as the prompt cache sees it: its blocks in the order tools, system, messages.

use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::deferred::{inserted, is_deferred};
use crate::request::{ApiRequest, ContentBlock, blocks, role};
use crate::signature::write_block;
use crate::validate::media;

/// The JSON of a message without its role and its blocks.
const FRAME: &str = r#"{"role":"","content":[]}"#;

/// The hash of the prefix up to a block and of the settings that affect its level.
pub(super) type Key = [u8; 32];

/// A block, with the prefix that ends at it.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) key: Key,
    /// Length of the prefix in bytes, without images.
    pub(super) end: usize,
    /// Lifetime of the cache entry, if the block has a marker.
    pub(super) ttl: Option<Duration>,
    /// True if automatic caching can mark the block.
    can_carry_breakpoint: bool,
}

/// Returns the blocks of a request, with the automatic marker.
pub(super) fn layout(request: ApiRequest<'_>) -> Vec<Block> {
    let mut layout = Layout::default();
    layout.settings(&[request.get("model"), format(request)]);
    for tool in request.tools().iter().filter(|tool| !is_deferred(tool)) {
        layout.push(ContentBlock::Json(tool));
    }
    layout.settings(&[request.get("speed")]);
    match request.get("system") {
        Some(Value::String(text)) => layout.push(ContentBlock::Text(text)),
        Some(Value::Array(parts)) => {
            for part in parts {
                layout.push(ContentBlock::Json(part));
            }
        }
        _ => {}
    }
    let effort = request.get("output_config").and_then(|config| config.get("effort"));
    layout.settings(&[request.get("tool_choice"), request.get("thinking"), effort]);
    layout.state.update([u8::from(has_images(request))]);
    for message in request.messages() {
        layout.state.update(role(message));
        layout.bytes += FRAME.len() + role(message).len();
        for block in blocks(message) {
            // The definitions follow the result, so they are no part of the prefix that ends before it.
            layout.bytes += inserted(request, block);
            layout.push(block);
        }
    }
    let automatic = request.get("cache_control").filter(|mark| !mark.is_null());
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
    /// Adds settings that all later prefixes depend on.
    fn settings(&mut self, settings: &[Option<&Value>]) {
        for setting in settings {
            let text = setting.map(Value::to_string).unwrap_or_default();
            self.state.update([0x1e]);
            self.state.update(text);
        }
    }

    fn push(&mut self, block: ContentBlock<'_>) {
        self.buffer.clear();
        write_block(&mut self.buffer, block);
        self.state.update(&self.buffer);
        self.bytes += self.buffer.len().saturating_sub(media::size([block].into_iter()));
        let is_thinking = block.is("thinking") || block.is("redacted_thinking");
        self.blocks.push(Block {
            key: self.state.clone().finalize().into(),
            end: self.bytes,
            ttl: mark_of(block).map(ttl),
            can_carry_breakpoint: !is_thinking && block.str("text") != Some(""),
        });
    }

    fn last_markable(&mut self) -> Option<&mut Block> {
        self.blocks.iter_mut().rev().find(|block| block.can_carry_breakpoint)
    }
}

/// Returns the cache marker of a block, or of a part of its content.
fn mark_of(block: ContentBlock<'_>) -> Option<&Value> {
    let parts = block.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let inner = parts.iter().filter_map(|part| part.get("cache_control"));
    block.get("cache_control").into_iter().chain(inner).find(|mark| !mark.is_null())
}

fn ttl(mark: &Value) -> Duration {
    let is_long = mark.get("ttl").is_some_and(|ttl| ttl == "1h");
    Duration::from_mins(if is_long { 60 } else { 5 })
}

fn format(request: ApiRequest<'_>) -> Option<&Value> {
    request
        .get("output_config")
        .and_then(|config| config.get("format"))
        .or(request.get("output_format"))
}

fn has_images(request: ApiRequest<'_>) -> bool {
    let is_image = |part: &Value| part.get("type").is_some_and(|kind| kind == "image");
    let mut sent = request.messages().iter().flat_map(blocks);
    sent.any(|block| {
        let parts = block.get("content").and_then(Value::as_array);
        block.is("image") || parts.is_some_and(|parts| parts.iter().any(is_image))
    })
}
