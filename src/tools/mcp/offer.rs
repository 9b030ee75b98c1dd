//! A server's list of tools, as far as it is taken.

use std::collections::HashSet;
use std::sync::Arc;

use rmcp::model::Tool as ToldTool;
use serde_json::Value;

use super::names::name_of;
use super::server::Server;
use super::settings::ServerSettings;
use super::tool::ServedTool;
use crate::domain::tool::ToolClass;
use crate::tools::policy::visible;
use crate::tools::{Tool, check_definition};

/// Tools of one server, at most. The rest are left out.
pub(super) const MAX_TOOLS: usize = 128;
/// What a tool's description and schema may have together, in bytes: all sessions that have the
/// tool pay for it with every request.
const MAX_DEFINITION: usize = 32 * 1024;

/// The tools of a list that can be offered, by name. What cannot be is told in the log.
pub(super) fn offered(server: &Arc<Server>, told: Vec<ToldTool>) -> Vec<Arc<dyn Tool>> {
    let settings = server.settings();
    let (mut tools, mut names) = (Vec::new(), HashSet::new());
    for tool in told.into_iter().filter(|tool| is_wanted(settings, &tool.name)) {
        let own = visible(&tool.name).into_owned();
        let refuse = |why: &str| {
            tracing::warn!(mcp.server = %settings.name, tool.name = %own, "a tool is left out: {why}");
        };
        if tools.len() == MAX_TOOLS {
            refuse("the server has too many");
            break;
        }
        match served(server, tool) {
            Ok(tool) if names.insert(tool.name().to_owned()) => tools.push(tool),
            Ok(_) => refuse("another has the same name"),
            Err(why) => refuse(&why),
        }
    }
    if let Some(missing) = settings
        .only
        .iter()
        .flatten()
        .find(|own| !tools.iter().any(|tool: &Arc<ServedTool>| tool.own_name() == own.as_str()))
    {
        tracing::warn!(mcp.server = %settings.name, tool.name = %missing, "a tool is not offered");
    }
    // A server may list them in another order each time.
    tools.sort_by(|one, other| one.name().cmp(other.name()));
    tools.into_iter().map(|tool| tool as Arc<dyn Tool>).collect()
}

fn is_wanted(settings: &ServerSettings, own: &str) -> bool {
    let is_among = |names: &[String]| names.iter().any(|name| name == own);
    settings.only.as_deref().is_none_or(is_among) && !is_among(&settings.withheld)
}

fn served(server: &Arc<Server>, tool: ToldTool) -> Result<Arc<ServedTool>, String> {
    let settings = server.settings();
    let class = class(settings, &tool);
    let own = tool.name.into_owned();
    let name = name_of(&settings.name, &own).ok_or("its name is empty or too long")?;
    // People and the model see what is there, whoever hides it.
    let description = visible(tool.description.as_deref().unwrap_or_default()).into_owned();
    let schema = Value::Object((*tool.input_schema).clone());
    let size = description.len() + schema.to_string().len();
    if size > MAX_DEFINITION {
        return Err(format!("its definition has {size} bytes, more than {MAX_DEFINITION}"));
    }
    check_definition(&name, &schema).map_err(|error| error.to_string())?;
    Ok(Arc::new(ServedTool::new(server, name, own, description, schema, class)))
}

/// What a tool may do. Only a server that the operator trusts is believed that one does nothing;
/// that one may be repeated is not enough, for it may still destroy something once.
fn class(settings: &ServerSettings, tool: &ToldTool) -> ToolClass {
    let hints = tool.annotations.as_ref();
    let only_reads = hints.and_then(|hints| hints.read_only_hint).unwrap_or(false);
    if settings.is_trusted && only_reads { ToolClass::Pure } else { ToolClass::Effect }
}
