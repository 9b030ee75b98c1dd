//! Options of a message for its run.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::generation::Generation;
use super::ids::RunId;
use super::limits::Limits;
use super::model_settings::ModelSettings;
use super::permission::PermissionMode;
use super::tool::{ToolChoice, defined_names};
use super::trace::Trace;

/// The treatment of a message for a busy session: a run is active, or messages are queued.
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
pub enum OnBusy {
    /// Queue the message.
    #[default]
    Queue,
    /// Reject the message with a conflict.
    Reject,
    /// Cancel the active run and queue the message.
    Interrupt,
}

/// The options of a message for its run, stored with the run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunOptions {
    /// Limits of the run.
    #[serde(default)]
    pub limits: Limits,
    /// The tool choice of round 1; the session's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The definitions of the tools that the client runs in this run only, as an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Box<RawValue>>,
    /// The permission mode of the session, from this message on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// The run whose message this one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// The parameters of the generation of replies; the session's where absent. Boxed, because
    /// options are part of many large futures.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub generation: Box<Generation>,
    /// The strings that end an answer; the session's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_sequences: Option<Vec<String>>,
    /// The model of the run and the settings that follow from it, in place of those that the session
    /// had when the message was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_settings: Option<Box<ModelSettings>>,
    /// The trace context of the request that posted the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

#[expect(clippy::borrowed_box, reason = "the shape that serde takes")]
fn is_unset(generation: &Box<Generation>) -> bool {
    generation.is_unset()
}

impl RunOptions {
    /// Returns the names of the tools that the client runs in this run only.
    pub fn tool_names(&self) -> Vec<String> {
        self.tools.as_deref().map(defined_names).unwrap_or_default()
    }
}
