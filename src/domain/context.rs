//! How a conversation is kept within the model's window.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::session::Settings;
use super::usage::Usage;

/// The output budget of a summary at least: it caps what is thought before it is written as well.
pub const SUMMARY_TOKENS: u32 = 16_384;

/// What a session asks for, to keep its conversation within the model's window.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Context {
    /// Edits that the model's side makes of what it is sent: an array, as it was pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub edits: Option<Box<RawValue>>,
    /// A run whose first request would have so many tokens has the history summed up before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_at: Option<i64>,
    /// What is asked of the summary; the model's side has words of its own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_instructions: Option<String>,
    /// The output budget of a summary at most, where the model gives little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_max_tokens: Option<u32>,
}

impl Context {
    /// Whether nothing is asked.
    pub fn is_unset(&self) -> bool {
        let Self { edits, compact_at, compact_instructions, compact_max_tokens } = self;
        edits.is_none()
            && compact_at.is_none()
            && compact_instructions.is_none()
            && compact_max_tokens.is_none()
    }

    /// Whether the model's side may sum up within a reply: it then reads what it is sent twice.
    pub fn sums_up_within(&self) -> bool {
        self.edits.as_ref().is_some_and(|edits| edits.get().contains(r#""compact_"#))
    }

    /// Whether a next request of so many tokens has the history summed up before, where the last
    /// summary left it at `after` tokens.
    ///
    /// A summary that did not make it short enough is not made again before much has come since:
    /// else each run would have one, and pay for it.
    pub fn is_due(&self, tokens: i64, after: Option<i64>) -> bool {
        let Some(at) = self.compact_at else { return false };
        let enough = |after: i64| after.saturating_add(at.max(after) / 4);
        tokens >= at && after.is_none_or(|after| tokens >= enough(after))
    }
}

/// A summary that is sent in place of the beginning of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// The number of the last message that it stands for.
    pub up_to: i32,
    /// The JSON array of its blocks.
    pub content: String,
    /// Tokens of the next request without it.
    pub tokens_before: i64,
    /// Tokens of that request with it.
    pub tokens_after: i64,
}

/// What the model's side said when it summed up what it was sent, by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummedUp {
    /// Tokens of the request as it was sent.
    pub tokens_before: i64,
    /// Tokens of what it answered to; none if it stopped before.
    pub tokens_after: Option<i64>,
    /// What the summary used, of all that the reply did.
    pub usage: Usage,
}

impl Settings {
    /// The settings of a request for a summary: with room for one, and without what shapes an
    /// answer, which such a request is refused with.
    #[must_use]
    pub fn for_summary(&self) -> Self {
        let mut settings = self.clone();
        settings.stop_sequences.clear();
        settings.model_options.output_schema = None;
        settings.context.edits = None;
        let most = self.context.compact_max_tokens.unwrap_or(SUMMARY_TOKENS);
        settings.max_tokens = self.max_tokens.max(most);
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_due_when_the_window_is_near_and_not_again_at_once() {
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
