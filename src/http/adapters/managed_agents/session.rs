//! Sessions of the service in the form of this protocol.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::agent::{AgentTexts, model_config, system_text, texts};
use super::environment::DEFAULT;
use super::session_body::money;
use super::tools::entries;
use crate::domain::ids::TenantId;
use crate::domain::rfc3339;
use crate::domain::session::{Session, SessionStatus, Settings};
use crate::domain::usage::Usage;
use crate::http::error::ApiError;
use crate::http::state::Api;

/// A session (`BetaManagedAgentsSession`).
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub(in crate::http) struct ManagedSession(pub(super) Value);

/// Renders sessions, and reads each of their agents once.
pub(super) struct Sessions<'a> {
    api: &'a Api,
    tenant: TenantId,
    agents: HashMap<String, Option<AgentTexts>>,
}

impl<'a> Sessions<'a> {
    pub(super) fn new(api: &'a Api, tenant: TenantId) -> Self {
        Self { api, tenant, agents: HashMap::new() }
    }

    /// A session as this protocol shows it.
    pub(super) async fn render(&mut self, session: &Session) -> Result<ManagedSession, ApiError> {
        let settings = &session.settings;
        let texts = match &settings.agent {
            None => None,
            Some(agent) => {
                if let Some(known) = self.agents.get(&agent.to_string()) {
                    known.clone()
                } else {
                    let found = texts(self.api, self.tenant, agent).await?;
                    self.agents.insert(agent.to_string(), found.clone());
                    found
                }
            }
        };
        let status = match session.status() {
            SessionStatus::Idle => "idle",
            SessionStatus::Queued | SessionStatus::Running => "running",
        };
        let environment = settings.environment.map(|id| id.to_string());
        let budget = settings
            .budget
            .cost
            .map(|cost| json!({ "type": "limit", "max_list_cost": money(cost) }));
        Ok(ManagedSession(json!({
            "type": "session",
            "id": session.id,
            "agent": agent(settings, texts),
            "environment_id": environment.as_deref().unwrap_or(DEFAULT),
            "title": session.title,
            "metadata": metadata(session.metadata.get()),
            "status": status,
            "budget": budget,
            "usage": usage(&session.usage, session.cost),
            "stats": {},
            "resources": [],
            "outcome_evaluations": [],
            "vault_ids": [],
            "deployment_id": null,
            "created_at": rfc3339::text(session.created_at),
            "updated_at": rfc3339::text(session.updated_at),
            "archived_at": session.archived_at.map(rfc3339::text),
        })))
    }
}

/// The agent of a session with the settings that the session has pinned.
fn agent(settings: &Settings, texts: Option<AgentTexts>) -> Value {
    let clients = settings.client_tool_names();
    let definitions: Vec<Value> = serde_json::from_str(settings.tools.get()).unwrap_or_default();
    let is_client = |definition: &Value| {
        let name = definition["name"].as_str().unwrap_or_default();
        clients.iter().any(|client| client == name)
    };
    let (clients, own): (Vec<Value>, Vec<Value>) = definitions.into_iter().partition(is_client);
    let names: Vec<String> =
        own.iter().filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect();
    let effort = settings.model_options.effort.as_ref().map(|effort| json!(effort));
    let (id, version) = match &settings.agent {
        Some(agent) => (agent.name.to_string(), agent.version),
        None => (String::new(), 0),
    };
    let system: Value = serde_json::from_str(settings.system.json().get()).unwrap_or_default();
    let system = Some(system_text(&system)).filter(|text| !text.is_empty());
    let (name, description) = match texts {
        Some(AgentTexts { name, description }) => (name, description),
        None => (id.clone(), None),
    };
    json!({
        "type": "agent",
        "id": id,
        "name": name,
        "version": version,
        "description": description,
        "model": model_config(&settings.model, effort.as_ref().and_then(Value::as_str)),
        "system": system,
        "tools": entries(&names, &clients, &settings.permissions),
        "mcp_servers": [],
        "skills": [],
        "multiagent": null,
        "execution_identity": { "type": "service_account" },
    })
}

/// Metadata as strings. Other values are shown as JSON.
pub(super) fn metadata(json: &str) -> Map<String, Value> {
    let mut metadata: Map<String, Value> = serde_json::from_str(json).unwrap_or_default();
    for value in metadata.values_mut().filter(|value| !value.is_string()) {
        *value = value.to_string().into();
    }
    metadata
}

fn usage(usage: &Usage, cost: Option<i64>) -> Value {
    let for_an_hour = usage.cache_creation_1h_input_tokens;
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "cache_creation": {
            "ephemeral_1h_input_tokens": for_an_hour,
            "ephemeral_5m_input_tokens": usage.cache_creation_input_tokens - for_an_hour,
        },
        "server_tool_use": {
            "web_search_requests": usage.web_search_requests,
            "web_fetch_requests": usage.web_fetch_requests,
        },
        "list_cost": cost.map(money),
    })
}
