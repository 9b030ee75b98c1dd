//! Agents of the service in the form of this protocol.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::tools::entries;
use crate::domain::agent::{AgentName, AgentVersion};
use crate::domain::ids::TenantId;
use crate::domain::permission::Rule;
use crate::domain::rfc3339;
use crate::http::error::ApiError;
use crate::http::state::Api;
use crate::service::agents::{Agent, AvailableProfile, find_agent};
use crate::service::{AgentError, Error};

/// An agent (`BetaManagedAgentsAgent`).
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub(in crate::http) struct ManagedAgent(pub(super) Value);

/// The members of a stored profile that this protocol shows.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ShownProfile {
    display_name: Option<String>,
    description: Option<String>,
    model: Option<String>,
    effort: Option<String>,
    system: Option<Value>,
    tools: Vec<Value>,
    permissions: Vec<Rule>,
    metadata: BTreeMap<String, String>,
}

/// The name for display and the description of an agent.
#[derive(Debug, Clone)]
pub(super) struct AgentTexts {
    pub(super) name: String,
    pub(super) description: Option<String>,
}

/// The agent of this id; an error if there is none.
pub(super) async fn existing_agent(
    api: &Api,
    tenant: TenantId,
    id: &str,
    version: Option<i32>,
) -> Result<Agent, ApiError> {
    let missing = || ApiError::Service(AgentError::NotFound(id.to_owned()).into());
    let name: AgentName = id.parse().map_err(|_| missing())?;
    find_agent(&api.service, tenant, &name, version).await?.ok_or_else(missing)
}

/// The texts of the agent of a session; none if it does not exist any more.
pub(super) async fn texts(
    api: &Api,
    tenant: TenantId,
    agent: &AgentVersion,
) -> Result<Option<AgentTexts>, ApiError> {
    let found = find_agent(&api.service, tenant, &agent.name, Some(agent.version)).await?;
    let Some(agent) = found else { return Ok(None) };
    let profile = shown(&agent)?;
    let name = profile.display_name.unwrap_or_else(|| agent.name.to_string());
    Ok(Some(AgentTexts { name, description: profile.description }))
}

fn shown(agent: &Agent) -> Result<ShownProfile, ApiError> {
    serde_json::from_str(agent.profile.get()).map_err(|error| Error::internal(error).into())
}

impl ManagedAgent {
    /// The agent as this protocol shows it.
    pub(super) async fn new(api: &Api, tenant: TenantId, agent: Agent) -> Result<Self, ApiError> {
        let AvailableProfile { tools_left_out, .. } = agent.available_profile(&api.service)?;
        let profile = shown(&agent)?;
        let (mut names, mut clients) = (Vec::new(), Vec::new());
        for tool in profile.tools {
            if tool.get("client").is_some() {
                clients.push(tool);
                continue;
            }
            // Tools with options or a description of their own are objects.
            let name = tool.as_str().filter(|name| !tools_left_out.iter().any(|left| left == name));
            names.extend(name.or_else(|| tool.get("name")?.as_str()).map(str::to_owned));
        }
        let updated_at = agent.created_at.unwrap_or(Timestamp::UNIX_EPOCH);
        let created_at = if agent.version == 1 || agent.created_at.is_none() {
            updated_at
        } else {
            let first = find_agent(&api.service, tenant, &agent.name, Some(1)).await?;
            first.and_then(|first| first.created_at).unwrap_or(updated_at)
        };
        let model = profile.model.unwrap_or_else(|| api.service.defaults.model.clone());
        Ok(Self(json!({
            "type": "agent",
            "id": agent.name,
            "name": profile.display_name.unwrap_or_else(|| agent.name.to_string()),
            "version": agent.version,
            "description": profile.description,
            "model": model_config(&model, profile.effort.as_deref()),
            "system": profile.system.as_ref().map(system_text),
            "tools": entries(&names, &clients, &profile.permissions),
            "metadata": profile.metadata,
            "mcp_servers": [],
            "skills": [],
            "multiagent": null,
            "execution_identity": { "type": "service_account" },
            "created_at": rfc3339::text(created_at),
            "updated_at": rfc3339::text(updated_at),
            "archived_at": null,
        })))
    }

    pub(super) fn raw(&self) -> Box<RawValue> {
        raw(&self.0)
    }
}

/// JSON that is not parsed again.
pub(super) fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The configuration of a model.
pub(super) fn model_config(model: &str, effort: Option<&str>) -> Value {
    match effort {
        Some(effort) => json!({ "id": model, "effort": { "type": effort } }),
        None => json!({ "id": model }),
    }
}

/// The text of a system prompt, which is a string or text blocks.
pub(super) fn system_text(system: &Value) -> String {
    match system {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}
