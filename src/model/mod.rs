//! The model as a client sees it: one module a provider, and the retry policy they share.

pub mod anthropic;
mod error;
pub mod retry;

use std::sync::Arc;

use crate::domain::message::Content;
use crate::domain::run::{ModelStop, Usage};

pub use error::{ErrorKind, ModelError};

/// A whole reply of the model, its stream read to the end.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The model's own id of the message; servers that give none leave it empty.
    pub id: String,
    /// The model that answered, which may not be the one that was asked.
    pub model: String,
    /// The blocks as they were received.
    pub content: Content,
    /// Why the model stopped.
    pub stop: ModelStop,
    /// What the request cost.
    pub usage: Usage,
}

/// What a stream tells before it ends, for previews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Nothing that a reader would see.
    Nothing,
    /// A text block begins.
    TextStarted {
        /// The block's place in the reply.
        index: usize,
    },
    /// A thinking block begins.
    ThinkingStarted {
        /// The block's place in the reply.
        index: usize,
    },
    /// A tool call begins.
    ToolUseStarted {
        /// The block's place in the reply.
        index: usize,
        /// The model's id of the call.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More text, thinking or input of the block at this place.
    Delta {
        /// The block's place in the reply.
        index: usize,
        /// What came.
        text: Arc<str>,
    },
}
