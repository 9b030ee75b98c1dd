//! The tools of a new session: tools of the service, of the model provider and of the client.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::client_tool::{ClientTool, DescribedTool, SessionTool, definitions, joined, problems};
use super::error::{Error, FieldError};
use super::server_tool::{SessionServerTool, unavailable_on};
use super::state::Service;
use crate::domain::deferred_tools::TOOL_SEARCH;
use crate::domain::model::ModelRef;
use crate::domain::tool::defined_names;

/// The tools that a session names, by kind. The numbers are indexes into the session's list.
#[derive(Default)]
struct Named<'a> {
    own: Vec<String>,
    servers: Vec<(usize, SessionServerTool)>,
    clients: Vec<(usize, &'a ClientTool)>,
    described: Vec<(usize, &'a DescribedTool)>,
}

/// The definition of a tool of the service, in the order of its members.
#[derive(Deserialize, Serialize)]
struct Definition {
    name: String,
    description: String,
    input_schema: Box<RawValue>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

/// The tools of a new session.
#[derive(Debug)]
pub(crate) struct SessionTools {
    /// The definitions of all tools, in a JSON array.
    pub(crate) definitions: Box<RawValue>,
    /// The names of the tools that the client runs.
    pub(crate) client_tools: Vec<String>,
    /// The names of the tools of the service whose descriptions the session changes.
    pub(crate) described_tools: Vec<String>,
}

/// Builds the definitions of the tools that a session with this model names, or of the default tools.
pub(crate) fn session_tools(
    service: &Service,
    model: ModelRef<'_>,
    wanted: Option<&[SessionTool]>,
    defaults: Option<&[String]>,
) -> Result<SessionTools, Error> {
    let named = Named::of(service, wanted.unwrap_or_default());
    let names = if wanted.is_some() { Some(named.own.as_slice()) } else { defaults };
    let own = service.tools.definitions(names).map_err(|name| {
        let message = if name == TOOL_SEARCH {
            format!("names {TOOL_SEARCH}, which a session has if it has `deferred_tools`")
        } else {
            format!("names a tool that does not exist: {name:?}")
        };
        Error::field("/tools", message)
    })?;
    let own = named.with_descriptions(service, own)?;
    let own = joined(&own, &named.server_definitions(service, model)?)?;
    let errors = problems(named.clients.iter().copied(), &defined_names(&own));
    if !errors.is_empty() {
        return Err(Error::Validation(errors));
    }
    let client_tools = named.clients.iter().map(|(_, tool)| tool.name.clone()).collect();
    let described = named.described.iter().filter(|(_, tool)| tool.description.is_some());
    let described_tools = described.map(|(_, tool)| tool.name.clone()).collect();
    let clients = definitions(named.clients.iter().map(|(_, tool)| *tool))?;
    Ok(SessionTools { definitions: joined(&own, &clients)?, client_tools, described_tools })
}

/// The definitions of the pinned server tools that a model needs in another version. An option that the
/// model does not accept is an error.
pub(crate) fn server_tools_for(
    service: &Service,
    model: ModelRef<'_>,
    pinned: &RawValue,
) -> Result<Vec<Box<RawValue>>, Error> {
    let rules = &service.defaults.model_rules;
    let platform = rules.models.platform(model);
    let model = rules.models.find(model);
    let definitions: Vec<&RawValue> =
        serde_json::from_str(pinned.get()).map_err(Error::internal)?;
    let (mut changed, mut errors) = (Vec::new(), Vec::new());
    for (index, before) in definitions.into_iter().enumerate() {
        let Some(pinned) = SessionServerTool::pinned(before) else { continue };
        if let Some(message) = unavailable_on(platform, &pinned.name) {
            errors.push(FieldError::new("/model", message));
        }
        // A tool that the operator does not enable any more stays as it is.
        let Some(tool) = rules.server_tools.iter().find(|tool| tool.name() == pinned.name) else {
            continue;
        };
        errors.extend(pinned.problems(tool, index, &model));
        let after = pinned.definition(tool, &model)?;
        if after.get() != before.get() {
            changed.push(after);
        }
    }
    Error::if_any(errors)?;
    Ok(changed)
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
                SessionTool::Described(tool) => {
                    named.own.push(tool.name.clone());
                    named.described.push((index, tool));
                }
                SessionTool::Server(tool) => named.servers.push((index, tool.clone())),
                SessionTool::Client(tool) => named.clients.push((index, tool)),
            }
        }
        named
    }

    /// The definitions of the tools of the service, with the descriptions of the session. The tools
    /// of MCP servers keep their descriptions: the session reports when a server changes them.
    fn with_descriptions(
        &self,
        service: &Service,
        definitions: Box<RawValue>,
    ) -> Result<Box<RawValue>, Error> {
        let mut errors = Vec::new();
        for (count, (index, tool)) in self.described.iter().enumerate() {
            let pointer = |member: &str| format!("/tools/{index}/{member}");
            if let Some(message) = tool.problem() {
                errors.push(FieldError::new(pointer("description"), message));
            }
            if tool.description.is_some() && service.tools.is_served(&tool.name) {
                let message = "is a tool of an MCP server, whose description cannot be changed";
                errors.push(FieldError::new(pointer("name"), message));
            }
            let mut earlier = self.described.iter().take(count);
            if earlier.any(|(_, other)| other.name == tool.name) {
                let message = format!("is the name of another tool: {}", tool.name);
                errors.push(FieldError::new(pointer("name"), message));
            }
        }
        Error::if_any(errors)?;
        if self.described.is_empty() {
            return Ok(definitions);
        }
        let read: Result<Vec<Definition>, _> = serde_json::from_str(definitions.get());
        let mut read = read.map_err(Error::internal)?;
        for definition in &mut read {
            let described = self.described.iter().find(|(_, tool)| tool.name == definition.name);
            if let Some((_, tool)) = described {
                definition.strict = tool.strict;
                if let Some(description) = &tool.description {
                    definition.description.clone_from(description);
                }
            }
        }
        to_raw_value(&read).map_err(Error::internal)
    }

    /// The definitions of the tools of the model provider, in a JSON array.
    fn server_definitions(
        &self,
        service: &Service,
        model: ModelRef<'_>,
    ) -> Result<Box<RawValue>, Error> {
        let platform = service.defaults.model_rules.models.platform(model);
        let model = service.defaults.model_rules.models.find(model);
        let (mut definitions, mut errors) = (Vec::new(), Vec::new());
        let mut names: Vec<&str> = Vec::new();
        for (index, wanted) in &self.servers {
            let mut refuse = |message: String| {
                let pointer = format!("/tools/{index}/name");
                errors.push(FieldError::new(pointer, message));
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
            if let Some(message) = unavailable_on(platform, &wanted.name) {
                refuse(message);
            }
            errors.extend(wanted.problems(tool, *index, &model));
            definitions.push(wanted.definition(tool, &model)?);
        }
        if errors.is_empty() {
            to_raw_value(&definitions).map_err(Error::internal)
        } else {
            Err(Error::Validation(errors))
        }
    }
}
