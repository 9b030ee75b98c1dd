//! The difference between the history that the model receives and the stored history.

use serde::Serialize;

use super::context::Compaction;

/// The view of a history that the model receives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SentView {
    /// Changes in the order of their creation.
    pub changes: Vec<SentHistoryChange>,
    /// The compaction that replaces the beginning.
    pub compaction: Option<Compaction>,
}

/// The position of a block in the messages of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPosition {
    /// The index of the message among those that were sent.
    pub message: usize,
    /// The index of the block in the message.
    pub block: usize,
    /// The index in the block's content, for a tool result.
    pub part: Option<usize>,
}

/// A change of the history that the model receives. It is permanent: all later requests of the
/// session include it, so that each request keeps the prefix of the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(tag = "change", rename_all = "snake_case")]
#[schema(as = SentChange)]
pub enum SentHistoryChange {
    /// Thinking blocks are omitted, because the model provider rejects them, or another model has made
    /// them.
    ThinkingDropped {
        /// The number of the last message without thinking blocks.
        up_to: i32,
    },
    /// A placeholder replaces a block that the model provider cannot read.
    BlockReplaced {
        /// The number of the message.
        message_seq: i32,
        /// The index of the block in the message, from 0.
        block: i32,
        /// The index in the content of that block, if it is a tool result.
        #[serde(skip_serializing_if = "Option::is_none")]
        part: Option<i32>,
    },
    /// The model provider rejects its own summary: the whole history is sent again.
    SummaryDropped {
        /// The number of the last message that the summary replaced.
        up_to: i32,
    },
}

impl SentHistoryChange {
    /// All values of [`SentHistoryChange::kind`].
    pub const KINDS: [&str; 3] = ["thinking_dropped", "block_replaced", "summary_dropped"];

    /// The kind of the change, as in events, logs, metrics and the database.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ThinkingDropped { .. } => "thinking_dropped",
            Self::BlockReplaced { .. } => "block_replaced",
            Self::SummaryDropped { .. } => "summary_dropped",
        }
    }
}
