//! Filtering and validation of a server's tool list.

use std::collections::HashSet;
use std::sync::Arc;

use rmcp::model::Tool as ListedTool;
use serde_json::Value;

use super::names::name_of;
use super::server::Server;
use super::settings::ServerSettings;
use super::tool::ServedTool;
use crate::domain::tool::ToolClass;
use crate::tools::definition::check_definition;
use crate::tools::policy::visible;
use crate::tools::tool::Tool;

/// Maximum number of tools of one server. Further tools are omitted.
pub(super) const MAX_TOOLS: usize = 128;
/// Maximum size of a tool's description and schema together, in bytes. They are part of every
/// model request of all sessions that have the tool.
const MAX_DEFINITION: usize = 32 * 1024;

/// Returns the valid tools of a list, sorted by name. Logs each tool that is omitted.
pub(super) fn usable_tools(server: &Arc<Server>, listed: Vec<ListedTool>) -> Vec<Arc<dyn Tool>> {
    let settings = server.settings();
    let (mut tools, mut names) = (Vec::new(), HashSet::new());
    for tool in listed.into_iter().filter(|tool| is_wanted(settings, &tool.name)) {
        let own = visible(&tool.name).into_owned();
        let refuse = |why: &str| {
            tracing::warn!(mcp.server = %settings.name, tool.name = %own, "tool omitted: {why}");
        };
        if tools.len() == MAX_TOOLS {
            refuse("the server has too many tools");
            break;
        }
        match served(server, tool) {
            Ok(tool) if names.insert(tool.name().to_owned()) => tools.push(tool),
            Ok(_) => refuse("another tool has the same name"),
            Err(why) => refuse(&why),
        }
    }
    if let Some(missing) = settings
        .only
        .iter()
        .flatten()
        .find(|own| !tools.iter().any(|tool: &Arc<ServedTool>| tool.own_name() == own.as_str()))
    {
        tracing::warn!(mcp.server = %settings.name, tool.name = %missing, "configured tool not \
            offered by the server");
    }
    // The order of the server's list can vary.
    tools.sort_by(|one, other| one.name().cmp(other.name()));
    tools.into_iter().map(|tool| tool as Arc<dyn Tool>).collect()
}

fn is_wanted(settings: &ServerSettings, own: &str) -> bool {
    let is_among = |names: &[String]| names.iter().any(|name| name == own);
    settings.only.as_deref().is_none_or(is_among) && !is_among(&settings.withheld)
}

fn served(server: &Arc<Server>, tool: ListedTool) -> Result<Arc<ServedTool>, String> {
    let settings = server.settings();
    let class = class(settings, &tool);
    let own = tool.name.into_owned();
    let name = name_of(&settings.name, &own).ok_or("its name is empty or too long")?;
    // Escaped, so that people and the model see invisible characters.
    let description = visible(tool.description.as_deref().unwrap_or_default()).into_owned();
    let schema = Value::Object((*tool.input_schema).clone());
    let size = description.len() + schema.to_string().len();
    if size > MAX_DEFINITION {
        return Err(format!("its definition has {size} bytes, more than {MAX_DEFINITION}"));
    }
    check_definition(&name, &schema).map_err(|error| error.to_string())?;
    Ok(Arc::new(ServedTool::new(server, name, own, description, schema, class)))
}

/// Returns the class of a tool. The read-only hint counts only from a server that the operator
/// trusts. The idempotent hint is not sufficient: such a tool can still be destructive.
fn class(settings: &ServerSettings, tool: &ListedTool) -> ToolClass {
    let hints = tool.annotations.as_ref();
    let only_reads = hints.and_then(|hints| hints.read_only_hint).unwrap_or(false);
    if settings.is_trusted && only_reads { ToolClass::Pure } else { ToolClass::Effect }
}
