//! Context management: compaction and edits that keep a conversation within the model's window.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::usage::Usage;

/// Minimum output budget of a summary; it also limits the thinking before the summary.
pub const SUMMARY_TOKENS: u32 = 16_384;

/// The context management settings of a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Context {
    /// Context edits that the model provider applies to requests: an array, as pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub edits: Option<Box<RawValue>>,
    /// Number of input tokens from which the history is compacted before the first request of a
    /// run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_at: Option<i64>,
    /// Instructions for the summary; the provider's default applies when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_instructions: Option<String>,
    /// Maximum output budget of a summary, for models with a small one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_max_tokens: Option<u32>,
}

impl Context {
    /// Returns `true` if no setting is present.
    pub fn is_unset(&self) -> bool {
        let Self { edits, compact_at, compact_instructions, compact_max_tokens } = self;
        edits.is_none()
            && compact_at.is_none()
            && compact_instructions.is_none()
            && compact_max_tokens.is_none()
    }

    /// Returns `true` if the provider may compact within a reply, and so read the request twice.
    pub fn may_compact_within_reply(&self) -> bool {
        self.edits.as_ref().is_some_and(|edits| edits.get().contains(r#""compact_"#))
    }

    /// Returns `true` if the history is compacted before a request of this many tokens. `after` is
    /// the number of tokens that the last summary left.
    ///
    /// A summary that did not shorten the history enough is not repeated before the history has
    /// grown by a quarter, because otherwise each run would create and pay for a summary.
    pub fn is_due(&self, tokens: i64, after: Option<i64>) -> bool {
        let Some(at) = self.compact_at else { return false };
        let enough = |after: i64| after.saturating_add(at.max(after) / 4);
        tokens >= at && after.is_none_or(|after| tokens >= enough(after))
    }
}

/// A summary that replaces the beginning of a history in requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// The number of the last message that the summary replaces.
    pub up_to: i32,
    /// The JSON array of the summary's blocks.
    pub content: String,
    /// Tokens of the next request without the summary.
    pub tokens_before: i64,
    /// Tokens of that request with the summary.
    pub tokens_after: i64,
}

/// The provider's figures of a compaction within a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyCompaction {
    /// Tokens of the request as sent.
    pub tokens_before: i64,
    /// Tokens of the compacted request; none if the provider stopped after the compaction.
    pub tokens_after: Option<i64>,
    /// Token usage of the summary alone.
    pub usage: Usage,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_is_due_near_the_limit_and_not_again_at_once() {
        let context = Context { compact_at: Some(1000), ..Context::default() };
        for (tokens, after, due) in [
            (999, None, false),
            (1000, None, true),
            (1000, Some(100), true),
            (1100, Some(1000), false),
            (1249, Some(1000), false),
            (1250, Some(1000), true),
            (4999, Some(4000), false),
            (5000, Some(4000), true),
        ] {
            assert_eq!(context.is_due(tokens, after), due, "{tokens} {after:?}");
        }
        assert!(!Context::default().is_due(i64::MAX, None));
    }
}
