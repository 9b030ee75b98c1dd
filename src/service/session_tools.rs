//! The tools of a new session: tools of the service, of the model provider and of the client.

use serde_json::value::{RawValue, to_raw_value};

use super::client_tool::{ClientTool, SessionTool, definitions, joined, problems};
use super::error::{Error, FieldError};
use super::server_tool::SessionServerTool;
use super::state::Service;
use crate::domain::tool::defined_names;

/// The tools that a session names, by kind. The numbers are indexes into the session's list.
#[derive(Default)]
struct Named<'a> {
    own: Vec<String>,
    servers: Vec<(usize, SessionServerTool)>,
    clients: Vec<(usize, &'a ClientTool)>,
}

/// The tools of a new session.
#[derive(Debug)]
pub(crate) struct SessionTools {
    /// The definitions of all tools, in a JSON array.
    pub(crate) definitions: Box<RawValue>,
    /// The names of the tools that the client runs.
    pub(crate) client_tools: Vec<String>,
}

/// Builds the definitions of the tools that a session names, or of the default tools.
pub(crate) fn session_tools(
    service: &Service,
    wanted: Option<&[SessionTool]>,
    defaults: Option<&[String]>,
) -> Result<SessionTools, Error> {
    let named = Named::of(service, wanted.unwrap_or_default());
    let names = if wanted.is_some() { Some(named.own.as_slice()) } else { defaults };
    let own = service.tools.definitions(names).map_err(|name| {
        Error::field("/tools", format!("names a tool that does not exist: {name:?}"))
    })?;
    let own = joined(&own, &named.server_definitions(service)?)?;
    let errors = problems(named.clients.iter().copied(), &defined_names(&own));
    if !errors.is_empty() {
        return Err(Error::Validation(errors));
    }
    let client_tools = named.clients.iter().map(|(_, tool)| tool.name.clone()).collect();
    let clients = definitions(named.clients.iter().map(|(_, tool)| *tool))?;
    Ok(SessionTools { definitions: joined(&own, &clients)?, client_tools })
}

impl<'a> Named<'a> {
    fn of(service: &Service, wanted: &'a [SessionTool]) -> Self {
        let is_servers = |name: &str| {
            service.defaults.model_rules.server_tools.iter().any(|tool| tool.name() == name)
        };
        let mut named = Self::default();
        for (index, tool) in wanted.iter().enumerate() {
            match tool {
                SessionTool::Name(name) if is_servers(name) => {
                    named.servers.push((index, SessionServerTool::bare(name)));
                }
                SessionTool::Name(name) => named.own.push(name.clone()),
                SessionTool::Server(tool) => named.servers.push((index, tool.clone())),
                SessionTool::Client(tool) => named.clients.push((index, tool)),
            }
        }
        named
    }

    /// The definitions of the tools of the model provider, in a JSON array.
    fn server_definitions(&self, service: &Service) -> Result<Box<RawValue>, Error> {
        let (mut definitions, mut errors) = (Vec::new(), Vec::new());
        let mut names: Vec<&str> = Vec::new();
        for (index, wanted) in &self.servers {
            let mut refuse = |message: String| {
                let pointer = format!("/tools/{index}/name");
                errors.push(FieldError { pointer, message });
            };
            let known = &service.defaults.model_rules.server_tools;
            let Some(tool) = known.iter().find(|tool| tool.name() == wanted.name) else {
                refuse(format!("is not a tool of the model provider: {:?}", wanted.name));
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
            to_raw_value(&definitions).map_err(Error::internal)
        } else {
            Err(Error::Validation(errors))
        }
    }
}
