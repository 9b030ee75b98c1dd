//! A reply of a model server.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::domain::container::Container;
use crate::domain::context::ReplyCompaction;
use crate::domain::message::Content;
use crate::domain::stop_reason::{ModelStop, Refusal};
use crate::domain::usage::Usage;

/// A complete reply of the model.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The provider's message id; empty if the server sends none.
    pub id: String,
    /// The model that answered; may differ from the requested model.
    pub model: String,
    /// The content blocks as received.
    pub content: Content,
    /// The reason why the model stopped.
    pub stop: ModelStop,
    /// The tokens that the request used.
    pub usage: Usage,
    /// The category and explanation of a refusal, if the model gave them.
    pub refusal: Refusal,
    /// The token counts of a server-side compaction, if there was one.
    pub compaction: Option<ReplyCompaction>,
    /// The context edits that the server applied, as a JSON array; `None` if there were none.
    pub applied_edits: Option<Box<RawValue>>,
    /// The container in which the server ran code, if the reply names one.
    pub container: Option<Container>,
}

/// The part of a reply that was received before its stream ended without a complete reply.
#[derive(Debug)]
pub struct PartialReply {
    /// The provider's message id; empty if none was received.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// The complete blocks, and each text as far as it was received.
    pub content: Content,
    /// The tokens that the request used, as far as the server has reported them. The output is
    /// estimated if its final count is missing.
    pub usage: Usage,
}

/// The estimated number of tokens of a text with this number of characters.
pub fn estimated_tokens(characters: usize) -> i64 {
    const CHARACTERS_PER_TOKEN: usize = 4;
    i64::try_from(characters.div_ceil(CHARACTERS_PER_TOKEN)).unwrap_or(i64::MAX)
}

/// Progress of a stream, for previews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// No visible progress.
    Nothing,
    /// A text block begins.
    TextStarted {
        /// The index of the block in the reply.
        index: usize,
    },
    /// A thinking block begins.
    ThinkingStarted {
        /// The index of the block in the reply.
        index: usize,
    },
    /// A tool call begins.
    ToolUseStarted {
        /// The index of the block in the reply.
        index: usize,
        /// The model's id of the call.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// More text, thinking or tool input of the block at this index.
    Delta {
        /// The index of the block in the reply.
        index: usize,
        /// The added text.
        text: Arc<str>,
    },
}
