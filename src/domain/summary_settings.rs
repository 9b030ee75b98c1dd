//! The settings of a request for a summary.

use super::context::SUMMARY_TOKENS;
use super::session::Settings;

impl Settings {
    /// Returns the settings of a request for a summary: with an output budget for it, and without
    /// the settings that shape an answer, with which the provider refuses such a request.
    #[must_use]
    pub fn for_summary(&self) -> Self {
        let mut settings = self.clone();
        settings.stop_sequences.clear();
        settings.model_options.output_schema = None;
        settings.context.edits = None;
        let usual = self.max_tokens.max(SUMMARY_TOKENS);
        settings.max_tokens = self.context.compact_max_tokens.unwrap_or(usual);
        settings
    }
}
