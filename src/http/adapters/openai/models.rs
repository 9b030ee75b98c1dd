//! Agents as models.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::turn::DEFAULT_MODEL;
use crate::domain::agent::{AgentChoice, AgentName};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, OpenAiError};
use crate::http::extract::path::AgentPath;
use crate::http::state::Api;
use crate::service::agents::{AgentEntry, find_agent, list_agents};
use crate::service::paging::PageRequest;
use crate::service::{AgentError, Error};

/// The maximum number of listed agents: all that a tenant may have, and those of the operator.
const MAX_MODELS: i64 = 1000;

/// A model: an agent, or the operator's defaults.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct OpenAiModel {
    /// The name of the agent, or `default`.
    id: String,
    /// `model`.
    object: &'static str,
    /// The time when the newest version of the agent was created, in seconds since 1970; 0 if it is not
    /// known.
    created: i64,
    /// `twostep`.
    owned_by: &'static str,
}

/// All models.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct OpenAiModels {
    /// `list`.
    object: &'static str,
    data: Vec<OpenAiModel>,
}

impl OpenAiModel {
    fn new(id: impl Into<String>, created: i64) -> Self {
        Self { id: id.into(), object: "model", created, owned_by: "twostep" }
    }
}

impl From<AgentEntry> for OpenAiModel {
    fn from(agent: AgentEntry) -> Self {
        Self::new(agent.name.to_string(), agent.created_at.map_or(0, jiff::Timestamp::as_second))
    }
}

/// Lists the agents as models, after `default`, the operator's defaults.
#[utoipa::path(
    get, path = "/openai/v1/models", operation_id = "list_openai_models", tag = "openai",
    responses((status = 200, description = "The models.", body = OpenAiModels))
)]
pub(in crate::http) async fn list_openai_models(
    State(api): State<Arc<Api>>,
    caller: Caller,
) -> Result<Json<OpenAiModels>, ApiError> {
    let request = PageRequest::<AgentName> {
        limit: MAX_MODELS,
        from: None,
        is_before: false,
        is_ascending: true,
    };
    let page = list_agents(&api.service, caller.tenant, request).await?;
    let agents = page.items.into_iter().map(OpenAiModel::from);
    let data = std::iter::once(OpenAiModel::new(DEFAULT_MODEL, 0)).chain(agents).collect();
    Ok(Json(OpenAiModels { object: "list", data }))
}

/// Returns an agent as a model.
#[utoipa::path(
    get, path = "/openai/v1/models/{name}", operation_id = "get_openai_model", tag = "openai",
    params(("name" = String, Path, description = "The name of the agent, or `default`.")),
    responses(
        (status = 200, description = "The model.", body = OpenAiModel),
        (status = 404, description = "`model_not_found`", body = OpenAiError),
    )
)]
pub(in crate::http) async fn get_openai_model(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: AgentPath,
) -> Result<Json<OpenAiModel>, ApiError> {
    let AgentPath(name) = path;
    if name == DEFAULT_MODEL {
        return Ok(Json(OpenAiModel::new(name, 0)));
    }
    let missing = || ApiError::from(Error::from(AgentError::NotFound(name.clone())));
    let AgentChoice { name: agent, version } = name.parse().map_err(|_| missing())?;
    let found = find_agent(&api.service, caller.tenant, &agent, version).await?;
    found.map(|_| Json(OpenAiModel::new(&name, 0))).ok_or_else(missing)
}
