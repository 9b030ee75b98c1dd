//! Sessions: one conversation with the settings pinned at its creation.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ids::{RunId, SessionId};
use super::model::refuses_forced_tool_choice;
use super::price::Price;
use super::run::{Limits, StopReason, Usage};
use super::tool::ToolChoice;

/// What every request of a session repeats byte for byte.
///
/// Thinking blocks are bound to the exact system prompt and tools they were made with, and a
/// prompt cache hits only on an unchanged prefix. So the texts are fixed when the session is
/// made, and a later change of the service's configuration does not reach it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// The model's name.
    pub model: String,
    /// The output budget of one request.
    pub max_tokens: u32,
    /// The system prompt.
    pub system: String,
    /// The tool definitions, an array, in the order of the catalogue.
    pub tools: Box<RawValue>,
    /// The thinking setting, if the client named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Box<RawValue>>,
    /// Strings that end an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Limits for runs that name none.
    #[serde(default)]
    pub limits: Limits,
    /// What the model's tokens cost, if the operator said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// What a session does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Nothing runs and nothing waits.
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
    /// The live run.
    pub active_run_id: Option<RunId>,
    /// Runs that wait.
    pub queued: i32,
    /// The number of the newest event.
    pub last_seq: i64,
    /// Sums over all requests.
    pub usage: Usage,
    /// Why the session last came to rest.
    pub stop_reason: Option<StopReason>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Session {
    /// What it does at the moment.
    pub const fn status(&self) -> SessionStatus {
        match (&self.active_run_id, self.queued) {
            (Some(_), _) => SessionStatus::Running,
            (None, 0) => SessionStatus::Idle,
            (None, _) => SessionStatus::Queued,
        }
    }
}

impl Settings {
    /// The names of the pinned tools, in their order.
    pub fn tool_names(&self) -> Vec<String> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        serde_json::from_str::<Vec<Named>>(self.tools.get())
            .map(|tools| tools.into_iter().map(|tool| tool.name).collect())
            .unwrap_or_default()
    }

    /// Why a tool choice cannot be asked of this session; none if it can.
    pub fn refuses(&self, choice: &ToolChoice) -> Option<String> {
        #[derive(Deserialize)]
        struct Thinking {
            r#type: String,
        }
        if !choice.is_forced() {
            return None;
        }
        let names = self.tool_names();
        if names.is_empty() {
            return Some("the session has no tools".to_owned());
        }
        if let ToolChoice::Tool { name } = choice
            && !names.contains(name)
        {
            return Some(format!("the session has no tool {name:?}"));
        }
        if refuses_forced_tool_choice(&self.model) {
            return Some(format!("the model {} refuses a forced tool choice", self.model));
        }
        let thinking = self.thinking.as_ref();
        let thinks = thinking
            .and_then(|thinking| serde_json::from_str::<Thinking>(thinking.get()).ok())
            .is_some_and(|thinking| thinking.r#type == "enabled");
        thinks.then(|| "a forced tool choice does not go together with thinking".to_owned())
    }
}
