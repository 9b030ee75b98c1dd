//! The deferred tools of a session, and references to those that calls of a round have found.

use std::sync::Arc;

use super::plan::RoundResults;
use crate::domain::deferred_tools::{DeferredDefinition, TOOL_SEARCH};
use crate::domain::found_tools::references;
use crate::domain::session::Settings;
use crate::domain::tool::ToolCall;

impl RoundResults {
    /// The same results, in which those of searches for tools are references to the found tools. Their
    /// texts are in the ledger and the events, so results of an earlier attempt become the same
    /// references.
    #[must_use]
    pub(in crate::worker) fn with_references(
        mut self,
        calls: &[ToolCall],
        settings: &Settings,
    ) -> Self {
        if !settings.is_tool_search(TOOL_SEARCH) {
            return self;
        }
        for result in &mut self.results {
            let call = calls.iter().find(|call| call.tool_use_id == result.tool_use_id);
            if call.is_some_and(|call| call.name == TOOL_SEARCH) && !result.is_error() {
                result.content = references(&result.text, |name| settings.is_deferred(name));
            }
        }
        self
    }
}

/// The definitions of the deferred tools of a session.
pub(super) fn deferred_tools(settings: &Settings) -> Arc<[DeferredDefinition]> {
    if settings.deferred_tools.is_none() {
        return Arc::new([]);
    }
    // Pinned definitions can be read.
    settings.split_definitions().map(|split| split.deferred.into()).unwrap_or_default()
}
