//! How the history that is sent differs from the one that is stored.

use serde::Serialize;

use super::context::Compaction;

/// How a history is sent otherwise than it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SentView {
    /// Changes, in the order in which they were made.
    pub changes: Vec<SentChange>,
    /// What stands for its beginning.
    pub compaction: Option<Compaction>,
}

/// A block as it was sent: in a message, and maybe in the result of a tool there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The message, counted from 0 among those that were sent.
    pub message: usize,
    /// The block, from 0.
    pub block: usize,
    /// The part of its content, from 0.
    pub part: Option<usize>,
}

/// A change of what is sent of a history. It is never undone: all later requests of the session
/// are sent with it, or they would not begin as the ones before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum SentChange {
    /// Thinking is left out, because the model's side does not take it back.
    ThinkingDropped {
        /// The number of the last message that is sent without.
        up_to: i32,
    },
    /// A word stands in the place of a block that the model's side cannot read.
    BlockReplaced {
        /// The number of the message.
        message_seq: i32,
        /// The block's place in the message, from 0.
        block: i32,
        /// The place in the content of that block, if it is a tool's result.
        #[serde(skip_serializing_if = "Option::is_none")]
        part: Option<i32>,
    },
    /// The model's side does not take its summary back: the whole history is sent again.
    SummaryDropped {
        /// The number of the last message that it stood for.
        up_to: i32,
    },
}

impl SentChange {
    /// The words of [`SentChange::kind`].
    pub const KINDS: [&str; 3] = ["thinking_dropped", "block_replaced", "summary_dropped"];

    /// The word in events, logs, metrics and the database.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ThinkingDropped { .. } => "thinking_dropped",
            Self::BlockReplaced { .. } => "block_replaced",
            Self::SummaryDropped { .. } => "summary_dropped",
        }
    }
}
