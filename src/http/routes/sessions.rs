//! Sessions.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::agents::resolve;
use super::client_tool::SessionTool;
use super::session_checks::{
    MAX_METADATA, NOT_READABLE, budget_errors, is_readable_object, limit_errors, title_problem,
    workspace,
};
use super::session_tools::session_tools;
use super::version;
use crate::domain::agent::AgentChoice;
use crate::domain::budget::Budget;
use crate::domain::context::Context;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::model::Effort;
use crate::domain::model_options::{ModelOptions, ServiceTier};
use crate::domain::permission::{PermissionMode, Rule};
use crate::domain::run::Limits;
use crate::domain::session::{Dispatch, Session, Settings};
use crate::domain::word::words;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, FieldError, Problem};
use crate::http::extract::conditions::not_modified;
use crate::http::extract::json_body::{object, object_lists, there};
use crate::http::extract::path::SessionPath;
use crate::http::permissions::{check_mode, check_rules};
use crate::http::resources::{ModelMetadata, SessionResource};
use crate::http::session_context::SessionContext;
use crate::http::session_system::SessionSystem;
use crate::http::state::{Api, Defaults};
use crate::http::sub_agents::{SessionSubAgent, pin};
use crate::store::sessions::{NewSession, find};

/// What a session is to be. All of it is optional; only title, metadata and permission mode can be
/// changed later.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CreateSession {
    /// The agent that it is to be: `coder`, the newest version, or `coder@3`. What the session does
    /// not say itself is as the agent has it.
    #[schema(value_type = Option<String>, pattern = "^[a-z0-9][a-z0-9_-]{0,63}(@[1-9][0-9]*)?$")]
    pub(super) agent: Option<AgentChoice>,
    /// A name for people, at most 500 characters.
    #[schema(max_length = 500)]
    title: Option<String>,
    /// Whatever the client wants to keep with the session, at most 16 kB.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
    /// The model's name.
    #[schema(min_length = 1, max_length = 200)]
    pub(super) model: Option<String>,
    /// The output budget of one request to the model.
    #[schema(minimum = 1, maximum = 128_000)]
    pub(super) max_tokens: Option<u32>,
    /// The system prompt: a text, or blocks of text.
    pub(super) system: Option<SessionSystem>,
    /// The names of the tools that the model may use; when absent, those that the operator chose,
    /// `read_file`, `write_file`, `list_files` and `get_time` unless they decide otherwise.
    ///
    /// Tools that the client runs itself are given by their definitions; they come behind the
    /// others, in their order.
    pub(super) tools: Option<Vec<SessionTool>>,
    /// Who runs the tools. `auto`: the service, but for those that the client has declared.
    /// `client`: the client, all of them.
    #[serde(default, deserialize_with = "words")]
    dispatch: Option<Dispatch>,
    /// The folder to work in: one that the operator allows, or a folder beneath it. When absent,
    /// the operator's folder for all sessions, or one of the session's own.
    workspace: Option<String>,
    /// The thinking setting, passed to the model as it is, where the model takes its `type`.
    #[schema(value_type = Option<Object>)]
    pub(super) thinking: Option<Box<RawValue>>,
    /// Strings that end an answer.
    #[serde(default, deserialize_with = "there")]
    #[schema(value_type = Vec<String>)]
    pub(super) stop_sequences: Option<Vec<String>>,
    /// How much work the model puts into an answer; the model's own default where absent.
    #[serde(default, deserialize_with = "words")]
    pub(super) effort: Option<Effort>,
    /// Which capacity requests to the model may use.
    #[serde(default, deserialize_with = "words")]
    pub(super) service_tier: Option<ServiceTier>,
    /// What the model's side is told of the user.
    #[serde(default, deserialize_with = "object")]
    model_metadata: ModelMetadata,
    /// A JSON Schema that answers have to fit, at most 32 kB; the run's `output` then has the
    /// answer, or its `output_error` says why there is none.
    #[schema(value_type = Option<Object>)]
    pub(super) output_schema: Option<Box<RawValue>>,
    /// Names of beta features of the model's API, at most 16.
    #[serde(default, deserialize_with = "there")]
    #[schema(value_type = Vec<String>, max_items = 16)]
    pub(super) betas: Option<Vec<String>>,
    /// How the conversation is kept within the model's window.
    #[serde(default, deserialize_with = "object")]
    pub(super) context: SessionContext,
    /// The limits of runs that name none.
    #[serde(default, deserialize_with = "object")]
    pub(super) limits: Limits,
    /// What the session may spend over its whole life. A request that may take more than what is
    /// left is not sent, and ends its run as `failed` with `budget_exceeded`.
    #[serde(default, deserialize_with = "object")]
    pub(super) budget: Budget,
    /// What becomes of calls that no rule speaks of; when absent, what the operator chose,
    /// `accept_edits` unless they decide otherwise. `bypass` must have been enabled by them.
    #[serde(default, deserialize_with = "words")]
    pub(super) permission_mode: Option<PermissionMode>,
    /// Rules for calls, at most 200. The first that matches decides; the operator's come before.
    #[serde(default, deserialize_with = "object_lists")]
    #[schema(value_type = Vec<Rule>, max_items = 200)]
    pub(super) permissions: Option<Vec<Rule>>,
    /// The sub-agents that the model may start with the tool `Task`, at most 16, besides `general`.
    #[serde(default, deserialize_with = "object_lists")]
    #[schema(value_type = Vec<SessionSubAgent>, max_items = 16)]
    pub(super) sub_agents: Option<Vec<SessionSubAgent>>,
}

impl CreateSession {
    fn check(&self) -> Result<(), ApiError> {
        let mut errors = Vec::new();
        let mut refuse = |is_wrong: bool, pointer: &str, message: &str| {
            if is_wrong {
                let (pointer, message) = (pointer.to_owned(), message.to_owned());
                errors.push(FieldError { pointer, message });
            }
        };
        let is_long = |text: &Option<String>, max| {
            text.as_ref().is_some_and(|text| text.chars().count() > max)
        };
        let is_odd = |raw: &Option<Box<RawValue>>| {
            raw.as_ref().is_some_and(|raw| !is_readable_object(raw.get()))
        };
        let title = self.title.as_deref().and_then(title_problem);
        refuse(title.is_some(), "/title", title.unwrap_or_default());
        refuse(is_odd(&self.metadata), "/metadata", NOT_READABLE);
        let metadata_len = self.metadata.as_ref().map_or(0, |metadata| metadata.get().len());
        refuse(metadata_len > MAX_METADATA, "/metadata", "is larger than 16 kB");
        refuse(self.model.as_ref().is_some_and(String::is_empty), "/model", "is empty");
        refuse(is_long(&self.model, 200), "/model", "is longer than 200 characters");
        let has_control =
            self.model.as_ref().is_some_and(|model| model.chars().any(char::is_control));
        refuse(has_control, "/model", "has a control character");
        let max_tokens = self.max_tokens.unwrap_or(1);
        refuse(!(1..=128_000).contains(&max_tokens), "/max_tokens", "is not 1 to 128000");
        refuse(is_odd(&self.thinking), "/thinking", NOT_READABLE);
        let has_blank = self.stop_sequences.iter().flatten().any(|text| text.trim().is_empty());
        refuse(has_blank, "/stop_sequences", "has a blank string");
        refuse(is_odd(&self.output_schema), "/output_schema", NOT_READABLE);
        errors.extend(limit_errors(&self.limits, "/limits"));
        errors.extend(self.system.iter().flat_map(SessionSystem::problems));
        errors.extend(self.context.problems());
        errors.extend(budget_errors(&self.budget));
        if errors.is_empty() { Ok(()) } else { Err(ApiError::Validation(errors)) }
    }

    /// Checks what is asked for, with what its agent says, and makes all of it that is kept.
    pub(super) async fn make(self, api: &Api, tenant: TenantId) -> Result<Made, ApiError> {
        let (wanted, origin) = resolve(api, tenant, self).await?;
        let made = wanted.make_alone(api).await;
        let Some(origin) = origin else { return made };
        let mut made = made.map_err(|error| origin.blame(error))?;
        made.settings.agent = Some(Box::new(origin.agent));
        Ok(made)
    }

    /// The same where there is no agent.
    pub(super) async fn make_alone(mut self, api: &Api) -> Result<Made, ApiError> {
        self.check()?;
        let title = self.title.take();
        let metadata = self.metadata.take().unwrap_or_else(|| RawValue::NULL.to_owned());
        let metadata = if metadata.get() == "null" { empty_object()? } else { metadata };
        let workspace = workspace(api, self.workspace.take()).await?;
        let settings = self.settings(api)?;
        Ok(Made { title, metadata, settings, workspace })
    }

    fn settings(mut self, api: &Api) -> Result<Settings, ApiError> {
        let Defaults { model, max_tokens, system, limits, prices, tools, model_rules, .. } =
            api.defaults.as_ref();
        let model_options = self.model_options();
        check_mode(api, self.permission_mode)?;
        let permissions = self.permissions.unwrap_or_default();
        check_rules(api, &permissions)?;
        let (tools, client_tools) = session_tools(api, self.tools.as_deref(), tools.as_deref())?;
        let offered_tools = api.tools.offered_beside(&tools);
        let model = self.model.unwrap_or_else(|| model.clone());
        let limits = self.limits.or(limits);
        let price = prices.get(&model).copied();
        let costs = [("/limits/cost", limits.cost), ("/budget/cost", self.budget.cost)];
        if let (None, Some((pointer, _))) = (price, costs.iter().find(|(_, cost)| cost.is_some())) {
            return Err(ApiError::field(
                pointer,
                format!("no price is known for {model}; the operator gives it with --prices"),
            ));
        }
        let system = match self.system {
            Some(system) => system.into_prompt()?,
            None => system.as_str().into(),
        };
        let compact_at = model_rules.compact_at(&model, &self.context);
        let compact_max_tokens = compact_at.and_then(|_| model_rules.compact_max_tokens(&model));
        let context = Context { compact_max_tokens, ..self.context.into_context(compact_at)? };
        let usual = model_rules.max_tokens(&model, *max_tokens);
        let mut settings = Settings {
            model,
            max_tokens: self.max_tokens.unwrap_or(usual),
            system,
            tools,
            thinking: self.thinking,
            stop_sequences: self.stop_sequences.unwrap_or_default(),
            model_options: Box::new(model_options),
            context: Box::new(context),
            limits,
            budget: self.budget,
            parent_budget: Budget::default(),
            price,
            permission_mode: self.permission_mode,
            permissions,
            offered_tools,
            client_tools,
            dispatch: self.dispatch.unwrap_or_default(),
            sub_agents: Vec::new(),
            agent: None,
        };
        pin(api, self.sub_agents.unwrap_or_default(), &mut settings)?;
        let errors = model_rules.problems(&settings);
        if errors.is_empty() { Ok(settings) } else { Err(ApiError::Validation(errors)) }
    }

    fn model_options(&mut self) -> ModelOptions {
        ModelOptions {
            effort: self.effort,
            service_tier: self.service_tier,
            user_id: self.model_metadata.user_id.take(),
            output_schema: self.output_schema.take(),
            betas: self.betas.take().unwrap_or_default(),
        }
    }
}

/// A session that may be stored.
pub(super) struct Made {
    title: Option<String>,
    metadata: Box<RawValue>,
    pub(super) settings: Settings,
    workspace: Option<String>,
}

impl Made {
    pub(super) fn row(&self, id: SessionId, tenant_id: TenantId) -> NewSession<'_> {
        NewSession {
            id,
            tenant_id,
            title: self.title.as_deref(),
            metadata: &self.metadata,
            settings: &self.settings,
            workspace: self.workspace.as_deref(),
            made_by: None,
        }
    }
}

fn empty_object() -> Result<Box<RawValue>, ApiError> {
    RawValue::from_string("{}".to_owned()).map_err(|error| ApiError::Internal(error.to_string()))
}

pub(super) fn resource(api: &Api, session: Session) -> Response {
    let version = version(session.last_seq);
    (version, Json(SessionResource::new(session, &api.permissions))).into_response()
}

/// Reads a session.
#[utoipa::path(
    get, path = "/sessions/{session_id}", operation_id = "get_session", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("If-None-Match" = Option<String>, Header,
         description = "An `ETag` of the session: 304 if nothing has happened in it since."),
    ),
    responses(
        (status = 200, description = "The session.", body = SessionResource,
         headers(("etag" = String, description = "Its version."))),
        (status = 304, description = "It is as the client knows it.",
         headers(("etag" = String, description = "Its version."))),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_session(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let SessionPath(id) = path;
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let session = find(&mut conn, caller.tenant, id).await?;
    conn.give_back();
    let session = session.ok_or_else(|| ApiError::SessionNotFound(id.to_string()))?;
    if let Some(status) = not_modified(&headers, session.last_seq) {
        return Ok((status, version(session.last_seq)).into_response());
    }
    Ok(resource(&api, session))
}
