//! The JSON form of an agent.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::domain::agent::{AgentName, AgentSource};
use crate::http::error::ApiError;
use crate::http::extract::conditions::etag;
use crate::http::state::Api;
use crate::service::agents::{Agent, AgentProfile, AvailableProfile};
use crate::service::{AgentError, Error};

/// A version of an agent.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct AgentResource {
    /// `agent`.
    r#type: &'static str,
    /// The name of the agent. Sessions are created from it by this name.
    #[schema(value_type = String)]
    name: AgentName,
    /// The version, from 1.
    version: i32,
    /// The owner of the agent.
    source: AgentSource,
    /// A description of the agent's purpose for users; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The settings that the agent supplies to sessions whose requests leave them out. A `PUT` of
    /// an agent has this form.
    #[schema(value_type = AgentProfile)]
    profile: Box<RawValue>,
    /// Tools of the profile that this service does not have. Sessions are created without them.
    /// Only built-in agents have such tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools_left_out: Vec<String>,
    /// The time when the version was created; absent unless the tenant owns the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::optional_time")]
    created_at: Option<Timestamp>,
}

impl AgentResource {
    pub(super) fn new(api: &Api, agent: Agent) -> Result<Self, ApiError> {
        let AvailableProfile { profile: AgentProfile { description, .. }, tools_left_out } =
            agent.available_profile(&api.service)?;
        let Agent { name, source, version, profile, created_at } = agent;
        let r#type = "agent";
        Ok(Self { r#type, name, version, source, description, profile, tools_left_out, created_at })
    }

    pub(super) fn respond(self, status: StatusCode) -> Response {
        (status, etag(self.version.into()), Json(self)).into_response()
    }
}

/// Parses the name in a path. A text that is not a name names no agent.
pub(super) fn parse_name(text: &str) -> Result<AgentName, ApiError> {
    text.parse().map_err(|_| not_found(text))
}

pub(super) fn not_found(name: &str) -> ApiError {
    Error::from(AgentError::NotFound(name.to_owned())).into()
}
