//! The input of a message and its validation.

use serde_json::value::RawValue;

use crate::domain::generation::Generation;
use crate::domain::ids::RunId;
use crate::domain::limits::Limits;
use crate::domain::message::Content;
use crate::domain::model_settings::ModelSettings;
use crate::domain::permission::PermissionMode;
use crate::domain::run_options::{OnBusy, RunOptions};
use crate::domain::tool::ToolChoice;
use crate::service::client_tool::{ClientTool, definitions, problems};
use crate::service::content::{ContentInput, parse_message};
use crate::service::error::{Error, FieldError};
use crate::service::session_settings::{ModelChange, generation_errors, limit_errors};

/// A message as a client writes it. Its errors name the members of `POST …/messages`.
#[derive(Debug)]
pub(crate) struct MessageInput {
    /// The content.
    pub(crate) content: ContentInput,
    /// The client's own id of the message.
    pub(crate) id: Option<String>,
    /// The limits of the run; the session's where absent.
    pub(crate) limits: Limits,
    /// The use of tools in the first round; the session's where absent.
    pub(crate) tool_choice: Option<ToolChoice>,
    /// The effect on a busy session; the operator's choice when absent.
    pub(crate) on_busy: Option<OnBusy>,
    /// Tools that the client runs, for this run only.
    pub(crate) tools: Vec<ClientTool>,
    /// The permission mode of the session from this message on.
    pub(crate) permission_mode: Option<PermissionMode>,
    /// The parameters of the generation of replies; the session's where absent.
    pub(crate) generation: Generation,
    /// The strings that end an answer; the session's where absent.
    pub(crate) stop_sequences: Option<Vec<String>>,
    /// The model, the effort and the thinking setting; the session's where absent.
    pub(crate) model_change: ModelChange,
}

/// A message with valid content, limits, id and tools.
#[derive(Debug)]
pub(crate) struct NewMessage {
    pub(super) content: Content,
    pub(super) id: Option<String>,
    pub(super) limits: Limits,
    pub(super) tool_choice: Option<ToolChoice>,
    pub(super) on_busy: Option<OnBusy>,
    pub(super) tools: Vec<ClientTool>,
    /// The definitions of the tools of an earlier message, in place of `tools`.
    pub(super) defined_tools: Option<Box<RawValue>>,
    /// The permission mode of the session from this message on.
    pub(crate) permission_mode: Option<PermissionMode>,
    /// The run whose message this one repeats.
    pub(super) retry_of: Option<RunId>,
    pub(super) generation: Box<Generation>,
    pub(super) stop_sequences: Option<Vec<String>>,
    pub(super) model_change: ModelChange,
    /// The model settings of an earlier message, in place of `model_change`.
    pub(super) model_settings: Option<Box<ModelSettings>>,
}

impl MessageInput {
    /// Checks everything that does not depend on the session.
    pub(crate) fn validate(self) -> Result<NewMessage, Error> {
        let Self { content, id, limits, tool_choice, on_busy, tools, permission_mode, .. } = self;
        let (generation, stop_sequences) = (Box::new(self.generation), self.stop_sequences);
        let model_change = self.model_change;
        let mut errors = limit_errors(&limits, "/limits");
        errors.extend(generation_errors(&generation));
        errors.extend(model_change.problems());
        if stop_sequences.iter().flatten().any(|text| text.trim().is_empty()) {
            errors.push(FieldError::new("/stop_sequences", "has a blank string"));
        }
        let content = parse_message(content, "/content");
        let is_empty = content.blocks.is_empty() && content.errors.is_empty();
        errors.extend(content.errors);
        if is_empty {
            errors.push(FieldError::new("/content", "is empty"));
        }
        if id.as_deref().is_some_and(|id| !is_message_id(id)) {
            let message = "is not 1 to 128 of letters, digits, '_', '.' and '-'";
            errors.push(FieldError::new("/id", message));
        }
        errors.extend(problems(tools.iter().enumerate(), &[]));
        Error::if_any(errors)?;
        let text = serde_json::to_string(&content.blocks).map_err(Into::into);
        let content = text.and_then(Content::parse).map_err(Error::internal)?;
        Ok(NewMessage {
            content,
            id,
            limits,
            tool_choice,
            on_busy,
            tools,
            defined_tools: None,
            permission_mode,
            retry_of: None,
            generation,
            stop_sequences,
            model_change,
            model_settings: None,
        })
    }
}

impl NewMessage {
    /// The content.
    pub(crate) const fn content(&self) -> &Content {
        &self.content
    }

    /// The same message with another id of the client, or none.
    #[must_use]
    pub(crate) fn with_id(self, id: Option<String>) -> Self {
        Self { id, ..self }
    }

    /// The same message with another model than that of its session, or not.
    #[must_use]
    pub(crate) fn with_model(self, model: Option<String>) -> Self {
        Self { model_change: ModelChange::to_model(model), ..self }
    }

    /// The client's own id.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The errors in its tools next to tools of these names.
    pub(super) fn tool_errors(&self, other_tools: &[String]) -> Vec<FieldError> {
        problems(self.tools.iter().enumerate(), other_tools)
    }

    /// The options of its run.
    pub(super) fn options(&self) -> Result<RunOptions, Error> {
        let has_tools = !self.tools.is_empty();
        let tools = has_tools.then(|| definitions(self.tools.iter()));
        Ok(RunOptions {
            limits: self.limits.clone(),
            tool_choice: self.tool_choice.clone(),
            tools: tools.transpose()?.or_else(|| self.defined_tools.clone()),
            permission_mode: self.permission_mode,
            retry_of: self.retry_of,
            generation: self.generation.clone(),
            stop_sequences: self.stop_sequences.clone(),
            model_settings: self.model_settings.clone(),
            trace: None,
        })
    }
}

fn is_message_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=128).contains(&id.len()) && id.chars().all(is_plain)
}
