//! The deferred tools of a new session.

use std::collections::HashSet;

use serde_json::value::{RawValue, to_raw_value};

use super::model_rules::ModelRules;
use crate::domain::deferred_tools::{DeferredTools, TOOL_SEARCH, with_listing};
use crate::domain::model::ModelRef;
use crate::domain::server_tool::names_of_others;
use crate::domain::session::Settings;
use crate::service::error::{Error, FieldError};
use crate::service::state::Service;
use crate::tools::policy::ToolPattern;

/// Maximum number of patterns with `*`. The number of names is that of the tools at most.
const MAX_PATTERNS: usize = 200;
/// Maximum size of all these patterns together, in bytes: each is compared with the names of all tools.
const MAX_BYTES: usize = 16 * 1024;

impl ModelRules {
    /// Returns `true` if the server of a model is known to expand references to deferred tools.
    pub(super) fn has_tool_search(&self, model: ModelRef<'_>) -> bool {
        self.models.find_usable(model).tool_search == Some(true)
    }
}

/// Pins the tools that the names and patterns select as deferred, and adds the tool that finds them.
pub(super) fn pin_deferred(
    service: &Service,
    patterns: &[String],
    settings: &mut Settings,
) -> Result<(), Error> {
    if patterns.is_empty() {
        return Ok(());
    }
    let names = selected(patterns, settings)?;
    if settings.client_tools.iter().any(|name| name == TOOL_SEARCH) {
        let message = format!("needs the name {TOOL_SEARCH}, which a tool of the client has");
        return Err(Error::field("/deferred_tools", message));
    }
    let definition = service.tools.added_definition(TOOL_SEARCH);
    let missing = || Error::Internal(format!("the tool {TOOL_SEARCH} is missing"));
    let definition = with_listing(definition.ok_or_else(missing)?, &names);
    let definition = definition.map_err(Error::internal)?;
    let mut tools: Vec<&RawValue> =
        serde_json::from_str(settings.tools.get()).map_err(Error::internal)?;
    tools.push(&definition);
    let tools = to_raw_value(&tools).map_err(Error::internal)?;
    settings.tools = tools;
    let by_reference = service.defaults.model_rules.has_tool_search(settings.model_ref());
    settings.deferred_tools = Some(Box::new(DeferredTools { names, by_reference }));
    Ok(())
}

/// The names of the tools that match, in the order of the definitions.
fn selected(patterns: &[String], settings: &Settings) -> Result<Vec<String>, Error> {
    let wide = || patterns.iter().filter(|pattern| pattern.contains('*'));
    if wide().count() > MAX_PATTERNS {
        let message = format!("has more than {MAX_PATTERNS} patterns with *");
        return Err(Error::field("/deferred_tools", message));
    }
    if wide().map(String::len).sum::<usize>() > MAX_BYTES {
        let message = format!("has patterns with * of more than {MAX_BYTES} bytes together");
        return Err(Error::field("/deferred_tools", message));
    }
    let all = settings.tool_names();
    let candidates = names_of_others(&settings.tools);
    let (mut errors, mut compiled, mut named) = (Vec::new(), Vec::new(), HashSet::new());
    let known: HashSet<&str> = candidates.iter().map(String::as_str).collect();
    if patterns.len() > MAX_PATTERNS + known.len() {
        let message = "has more names than the session has tools";
        return Err(Error::field("/deferred_tools", message));
    }
    for (index, pattern) in patterns.iter().enumerate() {
        if known.contains(pattern.as_str()) {
            named.insert(pattern.as_str());
            continue;
        }
        let message = match ToolPattern::new(pattern) {
            Err(cause) => cause.to_owned(),
            Ok(tools) if candidates.iter().any(|name| tools.matches(name)) => {
                compiled.push(tools);
                continue;
            }
            Ok(tools) if all.iter().any(|name| tools.matches(name)) => {
                "matches only tools of the model provider, which cannot be deferred".to_owned()
            }
            Ok(_) => "matches no tool of the session".to_owned(),
        };
        errors.push(FieldError::new(format!("/deferred_tools/{index}"), message));
    }
    Error::if_any(errors)?;
    let is_selected = |name: &String| {
        named.contains(name.as_str()) || compiled.iter().any(|pattern| pattern.matches(name))
    };
    Ok(candidates.into_iter().filter(is_selected).collect())
}
