//! Sessions: one conversation with the settings pinned at its creation.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::agent::AgentVersion;
use super::budget::Budget;
use super::context::Context;
use super::fork::ForkedFrom;
use super::ids::{RunId, SessionId};
use super::model::Capabilities;
use super::model_options::ModelOptions;
use super::permission::{PermissionMode, Rule};
use super::price::Price;
use super::run::{Limits, RunOptions, StopReason};
use super::server_tool::names_of_others;
use super::sub_agent::{Parent, SubAgent};
use super::system::SystemPrompt;
use super::tool::{ToolChoice, defined_names};
use super::usage::Usage;

/// What every request of a session repeats byte for byte.
///
/// Thinking blocks are bound to the exact system prompt and tools they were made with, and a
/// prompt cache hits only on an unchanged prefix. So the texts are fixed when the session is
/// made, and a later change of the service's configuration does not reach it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Settings {
    /// The model's name.
    pub model: String,
    /// The output budget of one request.
    pub max_tokens: u32,
    /// The system prompt.
    pub system: SystemPrompt,
    /// The tool definitions, an array, in the order of the catalogue.
    pub tools: Box<RawValue>,
    /// The thinking setting, if the client named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Box<RawValue>>,
    /// Strings that end an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// What else is asked of the model. Boxed, because settings are a part of many large futures.
    #[serde(default, skip_serializing_if = "ModelOptions::is_unset")]
    pub model_options: Box<ModelOptions>,
    /// How the conversation is kept within the model's window.
    #[serde(default, skip_serializing_if = "Context::is_unset")]
    pub context: Box<Context>,
    /// Limits for runs that name none.
    #[serde(default)]
    pub limits: Limits,
    /// What the session may spend over its whole life.
    #[serde(default, skip_serializing_if = "Budget::is_open")]
    pub budget: Budget,
    /// What the session that it works for, and all that work for that one, may spend together.
    #[serde(default, skip_serializing_if = "Budget::is_open")]
    pub parent_budget: Budget,
    /// What the model's tokens cost, if the operator said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The permission mode, if the client named one; else it is the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// The session's own rules, asked after the operator's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Rule>,
    /// All tools that the tool servers offered of which the session has some, by name, so that
    /// later ones can be told from those that it did not want.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offered_tools: Vec<String>,
    /// The names of those tools that the client runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<String>,
    /// Who runs the tools.
    #[serde(default, skip_serializing_if = "Dispatch::is_auto")]
    pub dispatch: Dispatch,
    /// The sub-agents that it may start, besides the general one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_agents: Vec<SubAgent>,
    /// The agent that it was made as, if it was made as one. What that said is above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<AgentVersion>>,
}

/// Who runs the tools of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// The service, but for those that the client has declared as its own.
    #[default]
    Auto,
    /// The client, all of them.
    Client,
}

impl Dispatch {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde takes")]
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// What a session does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Nothing runs and nothing waits, or the live run waits for somebody to answer its calls.
    Idle,
    /// A message waits for a worker.
    Queued,
    /// A run is live.
    Running,
}

/// A session as stored.
#[derive(Debug, Clone)]
pub struct Session {
    /// The id.
    pub id: SessionId,
    /// A name for people.
    pub title: Option<String>,
    /// What the client attached.
    pub metadata: Box<RawValue>,
    /// What was pinned at creation.
    pub settings: Settings,
    /// The folder that it works in, if not one of its own.
    pub workspace: Option<String>,
    /// Where it left the session that it was forked from, if it was.
    pub forked_from: Option<ForkedFrom>,
    /// The call whose sub-agent works in it, if there is one.
    pub parent: Option<Parent>,
    /// The permission mode, if something has changed it since.
    pub permission_mode: Option<PermissionMode>,
    /// Rules that people made while they decided on calls.
    pub remembered: Vec<Rule>,
    /// The live run.
    pub active_run_id: Option<RunId>,
    /// Whether the live run waits for somebody to answer its calls.
    pub is_waiting: bool,
    /// Runs that wait.
    pub queued: i32,
    /// The number of the newest event.
    pub last_seq: i64,
    /// Sums over all requests.
    pub usage: Usage,
    /// What they cost, in micro-dollars; none where no price is known.
    pub cost: Option<i64>,
    /// Why the session last came to rest.
    pub stop_reason: Option<StopReason>,
    /// When it was put away, if it is.
    pub archived_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Session {
    /// What it does at the moment.
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
    /// The names of the pinned tools, in their order.
    pub fn tool_names(&self) -> Vec<String> {
        defined_names(&self.tools)
    }

    /// The names of those of them that the client runs.
    pub fn clients_tool_names(&self) -> Vec<String> {
        match self.dispatch {
            Dispatch::Auto => self.client_tools.clone(),
            Dispatch::Client => names_of_others(&self.tools),
        }
    }

    /// Whether calls of a tool are the client's to run.
    pub fn is_clients(&self, options: &RunOptions, name: &str) -> bool {
        self.dispatch == Dispatch::Client
            || self.client_tools.iter().any(|tool| tool == name)
            || options.tool_names().iter().any(|tool| tool == name)
    }

    /// Why a tool choice cannot be asked of this session, whose model accepts this, for a message
    /// that brings these tools; none if it can.
    pub fn refuses(
        &self,
        model: &Capabilities,
        choice: &ToolChoice,
        options: &RunOptions,
    ) -> Option<String> {
        #[derive(Deserialize)]
        struct Thinking {
            r#type: String,
        }
        if !choice.is_forced() {
            return None;
        }
        let mut names = self.tool_names();
        names.extend(options.tool_names());
        if names.is_empty() {
            return Some("the session has no tools".to_owned());
        }
        if let ToolChoice::Tool { name } = choice
            && !names.contains(name)
        {
            return Some(format!("the session has no tool {name:?}"));
        }
        if model.forced_tool_choice == Some(false) {
            return Some(format!("the model {} refuses a forced tool choice", self.model));
        }
        let thinking = self.thinking.as_ref();
        let thinks = thinking
            .and_then(|thinking| serde_json::from_str::<Thinking>(thinking.get()).ok())
            .is_some_and(|thinking| thinking.r#type == "enabled");
        thinks.then(|| "a forced tool choice does not go together with thinking".to_owned())
    }
}
