//! Sessions: one conversation with the settings pinned at its creation.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::agent::AgentVersion;
use super::budget::Budget;
use super::context::Context;
use super::deferred_tools::DeferredTools;
use super::fallback_model::FallbackModel;
use super::fork::ForkedFrom;
use super::ids::{EnvironmentId, RunId, SessionId};
use super::limits::Limits;
use super::model::{Capabilities, ModelRef};
use super::model_options::ModelOptions;
use super::permission::{PermissionMode, Rule};
use super::price::Price;
use super::provenance::TaskProvenance;
use super::run_options::RunOptions;
use super::server_tool::names_of_others;
use super::stop_reason::StopReason;
use super::sub_agent::{Parent, SubAgent};
use super::system::SystemPrompt;
use super::tool::{ToolChoice, defined_names};
use super::usage::Usage;

/// The settings that every request of a session repeats byte for byte.
///
/// Thinking blocks are bound to the exact system prompt and tools of their request, and a prompt
/// cache hits only on an unchanged prefix. The texts are therefore fixed when the session is
/// created, and a later change of the service's configuration does not affect them. A client can change
/// only the [model settings](super::model_settings::ModelSettings).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Settings {
    /// The model's name, which begins with that of its provider and a slash unless it is a model of the
    /// default provider.
    pub model: String,
    /// The name of the model's provider; none for the default provider. Pinned, because a name with a
    /// slash may also be a model of the default provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Box<str>>,
    /// The models that answer while the model is unavailable, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_models: Vec<FallbackModel>,
    /// The output budget of one request.
    pub max_tokens: u32,
    /// The system prompt.
    pub system: SystemPrompt,
    /// The tool definitions, an array, in the order of the catalog.
    pub tools: Box<RawValue>,
    /// The thinking setting, if the client set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Box<RawValue>>,
    /// Strings that end an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Further model options. Boxed, because settings are part of many large futures.
    #[serde(default, skip_serializing_if = "ModelOptions::is_unset")]
    pub model_options: Box<ModelOptions>,
    /// The context management: compaction and edits of the history that the model receives.
    #[serde(default, skip_serializing_if = "Context::is_unset")]
    pub context: Box<Context>,
    /// Limits of runs that set none.
    #[serde(default)]
    pub limits: Limits,
    /// The budget of the session's whole life.
    #[serde(default, skip_serializing_if = "Budget::is_open")]
    pub budget: Budget,
    /// The budget that the parent session and all its sub-agents share.
    #[serde(default, skip_serializing_if = "Budget::is_open")]
    pub parent_budget: Budget,
    /// The price of the model's tokens, if the operator configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The permission mode; if the client set none, the operator's default applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// The session's own rules, evaluated after the operator's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Rule>,
    /// The names of all tools that the session's tool servers offered at creation, so that tools
    /// that a server adds later are distinguished from tools that the session did not select.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offered_tools: Vec<String>,
    /// The names of the tools that the client runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<String>,
    /// The names of the tools of the service whose descriptions the session has changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub described_tools: Vec<String>,
    /// The tools whose definitions the model has to find; none if there are no such tools. Boxed, because
    /// settings are part of many large futures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred_tools: Option<Box<DeferredTools>>,
    /// The party that runs the tools.
    #[serde(default, skip_serializing_if = "Dispatch::is_auto")]
    pub dispatch: Dispatch,
    /// The treatment of replies that the client interrupts.
    #[serde(default, skip_serializing_if = "InterruptedReplies::is_keep")]
    pub interrupted_replies: InterruptedReplies,
    /// True if the model makes a title for the session after its first completed run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub generate_title: bool,
    /// The sub-agents that the session can start, in addition to the general one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_agents: Vec<SubAgent>,
    /// The name of the user, if the client or the token of the session's creator gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The API key that created the session, if one did. A UUID without the prefix of keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<Uuid>,
    /// The provenance of the task, if this is the session of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<TaskProvenance>>,
    /// The agent version that the session was created from, if any; its settings are copied above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<AgentVersion>>,
    /// The environment that the client named in the protocol of Claude Managed Agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentId>,
}

/// The party that runs the tools of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// The service runs the tools, except those that the client declared as its own.
    #[default]
    Auto,
    /// The client runs all tools.
    Client,
}

impl Dispatch {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde takes")]
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// The treatment of a reply during which the client stops its run.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum InterruptedReplies {
    /// The text that was received becomes a message of the history.
    #[default]
    Keep,
    /// Nothing of the reply is stored.
    Discard,
}

impl InterruptedReplies {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde takes")]
    fn is_keep(&self) -> bool {
        *self == Self::Keep
    }
}

/// The activity of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// No run is active or queued, or the active run waits for answers to its calls.
    Idle,
    /// A message is queued for a worker.
    Queued,
    /// A run is live.
    Running,
}

/// A session as stored.
#[derive(Debug, Clone)]
pub struct Session {
    /// The id.
    pub id: SessionId,
    /// The id of the session in the client's own system, unique in the tenant.
    pub external_id: Option<String>,
    /// The display name.
    pub title: Option<String>,
    /// The client's metadata.
    pub metadata: Box<RawValue>,
    /// The settings pinned at creation, with the present model settings.
    pub settings: Settings,
    /// The workspace folder; none if the session has a folder of its own.
    pub workspace: Option<String>,
    /// The point at which it was forked from another session, if it was.
    pub forked_from: Option<ForkedFrom>,
    /// The parent's call that this sub-agent session works for, if it is one.
    pub parent: Option<Parent>,
    /// The permission mode, if it was changed after creation.
    pub permission_mode: Option<PermissionMode>,
    /// Rules that people added when they decided on calls.
    pub remembered: Vec<Rule>,
    /// The active run.
    pub active_run_id: Option<RunId>,
    /// True if the active run waits for answers to its calls.
    pub is_waiting: bool,
    /// Number of queued runs.
    pub queued: i32,
    /// The sequence number of the newest event.
    pub last_seq: i64,
    /// Token usage of all requests.
    pub usage: Usage,
    /// Cost of all requests in micro-dollars; none when no price is known.
    pub cost: Option<i64>,
    /// The reason why the session last became idle.
    pub stop_reason: Option<StopReason>,
    /// Time of archiving, if the session is archived.
    pub archived_at: Option<Timestamp>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

impl Session {
    /// Returns the current activity.
    pub const fn status(&self) -> SessionStatus {
        match (&self.active_run_id, self.queued) {
            (Some(_), _) if self.is_waiting => SessionStatus::Idle,
            (Some(_), _) => SessionStatus::Running,
            (None, 0) => SessionStatus::Idle,
            (None, _) => SessionStatus::Queued,
        }
    }
}

impl Settings {
    /// Returns the model at its provider.
    pub fn model_ref(&self) -> ModelRef<'_> {
        ModelRef::pinned(&self.model, self.provider.as_deref())
    }

    /// Returns the names of the pinned tools, in their order.
    pub fn tool_names(&self) -> Vec<String> {
        defined_names(&self.tools)
    }

    /// Returns the names of the pinned tools that the client runs.
    pub fn client_tool_names(&self) -> Vec<String> {
        match self.dispatch {
            Dispatch::Auto => self.client_tools.clone(),
            Dispatch::Client => {
                let mut names = names_of_others(&self.tools);
                names.retain(|name| !self.is_tool_search(name));
                names
            }
        }
    }

    /// Returns `true` if the client runs calls of this tool.
    pub fn is_client_tool(&self, options: &RunOptions, name: &str) -> bool {
        (self.dispatch == Dispatch::Client && !self.is_tool_search(name))
            || self.client_tools.iter().any(|tool| tool == name)
            || options.tool_names().iter().any(|tool| tool == name)
    }

    /// Returns the reason why the session does not support a tool choice, for a message with these
    /// options and a model with these capabilities; none if it does.
    pub fn refuses(
        &self,
        model: &Capabilities,
        choice: &ToolChoice,
        options: &RunOptions,
    ) -> Option<String> {
        if !choice.is_forced() {
            return None;
        }
        let mut names = self.tool_names();
        names.extend(options.tool_names());
        if names.is_empty() {
            return Some("the session has no tools".to_owned());
        }
        if let ToolChoice::Tool { name, .. } = choice
            && !names.contains(name)
        {
            return Some(format!("the session has no tool {name:?}"));
        }
        if let ToolChoice::Tool { name, .. } = choice
            && self.is_deferred(name)
        {
            return Some(format!(
                "the tool {name} is deferred: the model calls it when it has found it, and cannot be \
                 forced to"
            ));
        }
        if model.forced_tool_choice == Some(false) {
            return Some(format!("the model {} refuses a forced tool choice", self.model));
        }
        self.thinks().then(|| "a forced tool choice cannot be combined with thinking".to_owned())
    }
}
