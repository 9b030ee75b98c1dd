//! The bodies of requests that create and change agents.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::tools::{Selection, ToolEntry};
use super::unsupported::refuse;
use crate::http::error::ApiError;
use crate::service::Service;
use crate::service::json::nullable;

/// The members of an agent. A new agent needs `name` and `model`; a change leaves absent members as they
/// are.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ManagedAgentBody {
    /// A name for display, at most 256 characters.
    name: Option<String>,
    /// The name of the model, or an object with the name as `id` and optionally `effort`.
    model: Option<Value>,
    /// A description, at most 500 characters.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    description: Option<Option<String>>,
    /// The system prompt. Without one, sessions get the operator's.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    system: Option<Option<String>>,
    /// Toolsets and tools that the client runs.
    #[expect(clippy::option_option, reason = "null differs from an absent member")]
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Option<Vec<ToolEntry>>>,
    /// At most 16 strings. In a change, null removes a member.
    #[schema(value_type = Option<Object>)]
    metadata: Option<BTreeMap<String, Option<String>>>,
    /// The version that a change expects.
    #[schema(minimum = 1)]
    pub(super) version: Option<i64>,
    /// Not supported: only empty.
    #[schema(value_type = Option<Vec<Object>>)]
    mcp_servers: Option<Value>,
    /// Not supported: only empty.
    #[schema(value_type = Option<Vec<Object>>)]
    skills: Option<Value>,
    /// Not supported: only null.
    #[schema(value_type = Option<Object>)]
    multiagent: Option<Value>,
    /// Only `{"type": "service_account"}`.
    #[schema(value_type = Option<Object>)]
    execution_identity: Option<Value>,
}

impl ManagedAgentBody {
    /// The name of a new agent.
    pub(super) fn required_name(&self) -> Result<&str, ApiError> {
        if self.model.is_none() {
            return Err(ApiError::field("/model", "is missing and required"));
        }
        let name = self.name.as_deref().filter(|name| !name.is_empty());
        name.ok_or_else(|| ApiError::field("/name", "is missing and required"))
    }

    /// Changes a profile.
    pub(super) fn apply(
        self,
        service: &Service,
        profile: &mut Map<String, Value>,
    ) -> Result<(), ApiError> {
        self.check_supported()?;
        if let Some(name) = self.name {
            if name.is_empty() {
                return Err(ApiError::field("/name", "is empty"));
            }
            profile.insert("display_name".to_owned(), name.into());
        }
        if let Some(model) = self.model {
            apply_model(&model, profile)?;
        }
        for (member, text) in [("description", self.description), ("system", self.system)] {
            match text {
                None => {}
                Some(Some(text)) if !text.is_empty() => {
                    profile.insert(member.to_owned(), text.into());
                }
                Some(_) => {
                    profile.shift_remove(member);
                }
            }
        }
        if let Some(tools) = self.tools {
            let Selection { tools, permissions } =
                Selection::of(service, tools.unwrap_or_default())?;
            profile.insert("tools".to_owned(), tools.into());
            profile.insert("permissions".to_owned(), permissions.into());
        }
        apply_metadata(self.metadata.unwrap_or_default(), profile);
        Ok(())
    }

    fn check_supported(&self) -> Result<(), ApiError> {
        let reason = "the operator configures MCP servers";
        refuse(self.mcp_servers.as_ref(), "/mcp_servers", reason)?;
        refuse(self.skills.as_ref(), "/skills", "this service has no skills")?;
        let reason = "this service has no rosters of agents";
        refuse(self.multiagent.as_ref(), "/multiagent", reason)?;
        match &self.execution_identity {
            None | Some(Value::Null) => Ok(()),
            Some(identity) if identity.get("type").is_some_and(|it| it == "service_account") => {
                Ok(())
            }
            Some(_) => Err(ApiError::field("/execution_identity/type", "is not `service_account`")),
        }
    }
}

/// Sets the model and the effort of settings.
pub(super) fn apply_model(
    model: &Value,
    settings: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    if let Value::String(name) = model {
        settings.insert("model".to_owned(), name.as_str().into());
        settings.shift_remove("effort");
        return Ok(());
    }
    let Some(Value::String(name)) = model.get("id") else {
        return Err(ApiError::field("/model", "is neither a name nor an object with an `id`"));
    };
    settings.insert("model".to_owned(), name.as_str().into());
    match model.get("effort") {
        None | Some(Value::Null) => settings.shift_remove("effort"),
        Some(Value::Object(effort)) => {
            settings.insert("effort".to_owned(), effort.get("type").cloned().unwrap_or_default())
        }
        Some(effort) => settings.insert("effort".to_owned(), effort.clone()),
    };
    if model.get("speed").is_some_and(|speed| !speed.is_null() && speed != "standard") {
        return Err(ApiError::field("/model/speed", "is not `standard`"));
    }
    refuse(model.get("inference_geo"), "/model/inference_geo", "the operator chooses the server")
}

fn apply_metadata(patch: BTreeMap<String, Option<String>>, profile: &mut Map<String, Value>) {
    if patch.is_empty() {
        return;
    }
    let metadata = profile.entry("metadata").or_insert_with(|| Map::new().into());
    let Value::Object(metadata) = metadata else { return };
    for (name, value) in patch {
        match value {
            Some(value) => metadata.insert(name, value.into()),
            None => metadata.shift_remove(&name),
        };
    }
}
