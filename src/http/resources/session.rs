//! The session as clients read it.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Map;
use serde_json::value::{RawValue, to_raw_value};

use crate::domain::agent::AgentVersion;
use crate::domain::budget::Budget;
use crate::domain::context::Context;
use crate::domain::fork::ForkedFrom;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::limits::Limits;
use crate::domain::model::Effort;
use crate::domain::model_options::ServiceTier;
use crate::domain::permission::{PermissionMode, Rule};
use crate::domain::session::{Dispatch, InterruptedReplies, Session, SessionStatus};
use crate::domain::stop_reason::StopReason;
use crate::domain::sub_agent::Parent;
use crate::domain::system::{SystemPrompt, shorten};
use crate::domain::tool::ToolChoice;
use crate::domain::usage::Usage;
use crate::service::session_settings::{ModelMetadata, SessionSubAgent, SessionSystem};
use crate::tools::policy::OperatorPolicy;

/// A session: a conversation with its settings.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct SessionResource {
    /// `session`.
    r#type: &'static str,
    /// The id of the session.
    #[schema(value_type = String, example = "ses_0193a7c2b8f07d3c9e41f2a6b5c8d7e0")]
    id: SessionId,
    /// The id of the session in the client's own system; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    /// The title; null without one.
    #[schema(required)]
    title: Option<String>,
    /// The current status.
    status: SessionStatus,
    /// The reason why the last run settled or waits for the client; null before that.
    #[schema(required)]
    stop_reason: Option<StopReason>,
    /// The agent that the session was created from; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentVersion>,
    /// The name of the user that the client or the token of its creator gave; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The model, pinned at creation.
    model: String,
    /// The models that answer while the model is unavailable, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fallback_models: Vec<String>,
    /// The system prompt, pinned at creation: a text or text blocks.
    #[schema(value_type = SessionSystem)]
    system: SystemPrompt,
    /// The members `system` and `sub_agents`, if they have a truncated system prompt: in lists of
    /// sessions after 200 characters, and for browser tokens whole. `GET …/{session_id}` with an API
    /// key returns it whole. Absent if nothing is truncated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    truncated: Vec<&'static str>,
    /// The maximum output tokens of one model request.
    max_tokens: u32,
    /// The thinking configuration; absent for the default of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    thinking: Option<Box<RawValue>>,
    /// Strings at which the model stops.
    stop_sequences: Vec<String>,
    /// The treatment of replies that the client interrupts.
    interrupted_replies: InterruptedReplies,
    /// True if the model makes a title after the first completed run, unless there is one.
    generate_title: bool,
    /// The temperature of sampling; absent for the default of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    /// The probability mass of nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    /// The number of most likely tokens that are sampled from.
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
    /// The seed of sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    /// Members that are added to model requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    extra_body: Option<Box<RawValue>>,
    /// The effort of the model; absent for the default of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    /// The service tier of model requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<ServiceTier>,
    /// Metadata that is sent with model requests.
    model_metadata: ModelMetadata,
    /// The JSON Schema that answers must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output_schema: Option<Box<RawValue>>,
    /// Beta features of the model API that are enabled.
    betas: Vec<String>,
    /// The tool choice of messages that have none; absent for the default, `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    /// The context management settings.
    context: Context,
    /// The names of the tools, pinned at creation, in their order.
    tools: Vec<String>,
    /// The names of the tools whose definitions the model has to find with `ToolSearch`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deferred_tools: Vec<String>,
    /// The workspace folder; null if the session has a folder of its own, and for browser tokens.
    #[schema(required)]
    workspace: Option<String>,
    /// The session and the message that it was forked from; absent if it is not a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<ForkedFrom>,
    /// The tool call that started this session as a sub-agent; absent for other sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Parent>,
    /// The sub-agents that the session can start, besides the general one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sub_agents: Vec<SessionSubAgent>,
    /// The names of the tools that the client runs.
    client_tools: Vec<String>,
    /// The side that runs the tools which the client has not declared.
    dispatch: Dispatch,
    /// The default limits of runs.
    limits: Limits,
    /// The budget of the session over its lifetime.
    budget: Budget,
    /// The current permission mode, which decides on tool calls that no rule matches.
    permission_mode: PermissionMode,
    /// The permission rules, pinned at creation.
    permissions: Vec<Rule>,
    /// Permission rules that were added by decisions with `remember`. They apply after all others.
    remembered: Vec<Rule>,
    /// Metadata of the client; empty for browser tokens.
    #[schema(value_type = Object)]
    metadata: Box<RawValue>,
    /// The id of the active run; null without one.
    #[schema(value_type = Option<String>, required)]
    active_run_id: Option<RunId>,
    /// The number of queued runs.
    queued: i32,
    /// The sequence number of the newest event.
    last_seq: i64,
    /// The token usage of all model requests.
    usage: Usage,
    /// The cost of all model requests in micro-dollars; absent if a price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<i64>,
    /// `true` if the session is archived. An archived session accepts no messages.
    archived: bool,
    /// The time at which the session was archived; absent if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::optional_time")]
    archived_at: Option<Timestamp>,
    /// The time of creation.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    created_at: Timestamp,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    updated_at: Timestamp,
}

/// The maximum number of characters of a system prompt in a list of sessions.
const MAX_LISTED: usize = 200;

impl SessionResource {
    /// The session as an item of a list, with long system prompts truncated.
    pub(in crate::http) fn in_list(session: Session, operator: &OperatorPolicy) -> Self {
        Self::shortened(session, operator, MAX_LISTED)
    }

    /// The session for the browser of an end user, without system prompts, metadata and paths.
    pub(in crate::http) fn for_browser(session: Session, operator: &OperatorPolicy) -> Self {
        let metadata = to_raw_value(&Map::new()).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self { workspace: None, metadata, ..Self::shortened(session, operator, 0) }
    }

    fn shortened(mut session: Session, operator: &OperatorPolicy, max: usize) -> Self {
        let mut truncated = Vec::new();
        if let Some(short) = session.settings.system.shortened(max) {
            session.settings.system = short;
            truncated.push("system");
        }
        for agent in &mut session.settings.sub_agents {
            let Some(prompt) = &mut agent.system else { continue };
            let mut left = max;
            if shorten(prompt, &mut left) && !truncated.contains(&"sub_agents") {
                truncated.push("sub_agents");
            }
        }
        Self { truncated, ..Self::new(session, operator) }
    }

    pub(in crate::http) fn new(session: Session, operator: &OperatorPolicy) -> Self {
        let status = session.status();
        let pinned = session.settings.permission_mode;
        let tools = session.settings.tool_names();
        let client_tools = session.settings.client_tool_names();
        let fallback_models = session.settings.fallback_names();
        let options = *session.settings.model_options;
        Self {
            r#type: "session",
            id: session.id,
            external_id: session.external_id,
            title: session.title,
            status,
            stop_reason: session.stop_reason,
            tools,
            client_tools,
            dispatch: session.settings.dispatch,
            interrupted_replies: session.settings.interrupted_replies,
            generate_title: session.settings.generate_title,
            agent: session.settings.agent.map(|agent| *agent),
            user: session.settings.user,
            model: session.settings.model,
            fallback_models,
            system: session.settings.system,
            truncated: Vec::new(),
            max_tokens: session.settings.max_tokens,
            thinking: session.settings.thinking,
            stop_sequences: session.settings.stop_sequences,
            temperature: options.generation.temperature,
            top_p: options.generation.top_p,
            top_k: options.generation.top_k,
            seed: options.generation.seed,
            extra_body: options.generation.extra_body,
            effort: options.effort,
            service_tier: options.service_tier,
            model_metadata: ModelMetadata { user_id: options.user_id },
            output_schema: options.output_schema,
            betas: options.betas,
            tool_choice: options.tool_choice,
            context: *session.settings.context,
            deferred_tools: session.settings.deferred_tools.map(|it| it.names).unwrap_or_default(),
            workspace: session.workspace,
            forked_from: session.forked_from,
            parent: session.parent,
            sub_agents: session.settings.sub_agents.into_iter().map(Into::into).collect(),
            limits: session.settings.limits,
            budget: session.settings.budget,
            permission_mode: operator.mode(session.permission_mode, pinned),
            permissions: session.settings.permissions,
            remembered: session.remembered,
            metadata: session.metadata,
            active_run_id: session.active_run_id,
            queued: session.queued,
            last_seq: session.last_seq,
            usage: session.usage,
            cost: session.cost,
            archived: session.archived_at.is_some(),
            archived_at: session.archived_at,
            created_at: session.created_at,
            updated_at: session.updated_at,
        }
    }
}
