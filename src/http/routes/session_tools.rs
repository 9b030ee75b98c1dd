//! The tools of a new session: ours, those on the model's side, and the client's own.

use serde_json::value::{RawValue, to_raw_value};

use super::client_tool::{ClientTool, SessionTool, definitions, joined, problems};
use super::server_tool::SessionServerTool;
use crate::domain::tool::defined_names;
use crate::http::error::{ApiError, FieldError};
use crate::http::state::Api;

/// What a session names, sorted. The numbers are the places among all that it names.
#[derive(Default)]
struct Named<'a> {
    ours: Vec<String>,
    servers: Vec<(usize, SessionServerTool)>,
    clients: Vec<(usize, &'a ClientTool)>,
}

/// The definitions of the tools that a session names, or of the usual ones, and the names of
/// those that the client runs.
pub(super) fn session_tools(
    api: &Api,
    wanted: Option<&[SessionTool]>,
    usual: Option<&[String]>,
) -> Result<(Box<RawValue>, Vec<String>), ApiError> {
    let named = Named::of(api, wanted.unwrap_or_default());
    let names = if wanted.is_some() { Some(named.ours.as_slice()) } else { usual };
    let ours = api.tools.definitions(names).map_err(|name| {
        ApiError::field("/tools", format!("names a tool that does not exist: {name:?}"))
    })?;
    let theirs = named.server_definitions(api)?;
    let ours = joined(&ours, &theirs)?;
    let errors = problems(named.clients.iter().copied(), &defined_names(&ours));
    if !errors.is_empty() {
        return Err(ApiError::Validation(errors));
    }
    let client_tools = named.clients.iter().map(|(_, tool)| tool.name.clone()).collect();
    let clients = definitions(named.clients.iter().map(|(_, tool)| *tool))?;
    Ok((joined(&ours, &clients)?, client_tools))
}

impl<'a> Named<'a> {
    fn of(api: &Api, wanted: &'a [SessionTool]) -> Self {
        let is_servers = |name: &str| {
            api.defaults.model_rules.server_tools.iter().any(|tool| tool.name() == name)
        };
        let mut named = Self::default();
        for (index, tool) in wanted.iter().enumerate() {
            match tool {
                SessionTool::Name(name) if is_servers(name) => {
                    named.servers.push((index, SessionServerTool::bare(name)));
                }
                SessionTool::Name(name) => named.ours.push(name.clone()),
                SessionTool::Server(tool) => named.servers.push((index, tool.clone())),
                SessionTool::Client(tool) => named.clients.push((index, tool)),
            }
        }
        named
    }

    /// The definitions of the tools on the model's side, an array.
    fn server_definitions(&self, api: &Api) -> Result<Box<RawValue>, ApiError> {
        let (mut definitions, mut errors) = (Vec::new(), Vec::new());
        let mut names: Vec<&str> = Vec::new();
        for (index, wanted) in &self.servers {
            let mut refuse = |message: String| {
                let pointer = format!("/tools/{index}/name");
                errors.push(FieldError { pointer, message });
            };
            let known = &api.defaults.model_rules.server_tools;
            let Some(tool) = known.iter().find(|tool| tool.name() == wanted.name) else {
                refuse(format!("is not a tool of the model's side: {:?}", wanted.name));
                continue;
            };
            if names.contains(&wanted.name.as_str()) {
                refuse(format!("is the name of another tool: {}", wanted.name));
            }
            names.push(&wanted.name);
            errors.extend(wanted.problems(tool, *index));
            definitions.push(wanted.definition(tool)?);
        }
        if errors.is_empty() {
            to_raw_value(&definitions).map_err(|error| ApiError::Internal(error.to_string()))
        } else {
            Err(ApiError::Validation(errors))
        }
    }
}
