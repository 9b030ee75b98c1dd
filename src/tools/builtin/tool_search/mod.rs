//! `ToolSearch`: finds deferred tools, whose definitions the model does not see at first. A session has
//! it if and only if it has deferred tools. It reads the definitions that the session pinned.

mod ranking;
mod words;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::deferred_tools::{DeferredDefinition, TOOL_SEARCH};
use crate::domain::found_tools::found_text;
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;
use ranking::ranked;

/// The beginning of a query that names tools.
const SELECT: &str = "select:";
/// Maximum number of tools that one call finds. Each definition stays in the conversation.
const MAX_FOUND: usize = 20;

#[derive(Debug)]
pub(in crate::tools) struct ToolSearch;

/// A search for deferred tools.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools) struct ToolSearchInput {
    /// Words that describe the task, such as `create calendar event`; or `select:` and the names of
    /// tools, separated by commas.
    #[schemars(length(min = 1, max = 2000))]
    query: String,
    /// The maximum number of tools that words find, 1 to 20. Each name after `select:` finds its tool.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 20))]
    max_results: usize,
}

const fn five() -> usize {
    5
}

impl TypedTool for ToolSearch {
    const NAME: &'static str = TOOL_SEARCH;
    const DESCRIPTION: &'static str = "Finds deferred tools and loads their definitions. The \
        parameters of a deferred tool are unknown until then, so search before you call one. A \
        query of words is compared with the names, descriptions and parameters of all deferred \
        tools; `select:` with names loads exactly these. A tool that was found stays loaded: do \
        not search for it again.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Model;
    type Input = ToolSearchInput;

    async fn run(
        &self,
        context: &ToolContext,
        input: ToolSearchInput,
    ) -> Result<Output, ToolError> {
        let tools = &context.deferred_tools;
        let query = input.query.trim();
        Ok(match query.strip_prefix(SELECT) {
            Some(names) => selected(tools, names),
            None => found(tools, query, input.max_results),
        }
        .into())
    }
}

fn found(tools: &[DeferredDefinition], query: &str, max_results: usize) -> String {
    let names = ranked(tools, query).into_iter().take(max_results);
    let mut names = names.map(|tool| tool.name.as_str()).peekable();
    let note = match names.peek() {
        Some(_) => "",
        None => "No deferred tool matches these words. Try other words, or `select:` with a name.",
    };
    found_text(names, note)
}

fn selected(tools: &[DeferredDefinition], names: &str) -> String {
    let mut found: Vec<&str> = Vec::new();
    let (mut unknown, mut left_out) = (0, 0);
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match tools.iter().find(|tool| tool.name.eq_ignore_ascii_case(name)) {
            None => unknown += 1,
            Some(tool) if found.contains(&tool.name.as_str()) => {}
            Some(_) if found.len() == MAX_FOUND => left_out += 1,
            Some(tool) => found.push(&tool.name),
        }
    }
    let mut notes = Vec::new();
    if unknown > 0 || found.is_empty() {
        // The names are not repeated: they are the model's own text.
        notes.push(format!(
            "{unknown} of the names belong to no deferred tool. Tools that are not deferred can be \
             called without a search."
        ));
    }
    if left_out > 0 {
        notes.push(format!(
            "{left_out} tools were left out: one call finds at most {MAX_FOUND}. Search for them again."
        ));
    }
    found_text(found, &notes.join(" "))
}

#[cfg(test)]
mod tests;
