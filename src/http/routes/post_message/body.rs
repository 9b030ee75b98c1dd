//! The body of a posted message, and what may be in it.

use serde::Deserialize;

use crate::domain::message::Content;
use crate::domain::permission::PermissionMode;
use crate::domain::run::{Limits, OnBusy, RunOptions};
use crate::domain::tool::ToolChoice;
use crate::domain::word::words;
use crate::http::error::{ApiError, FieldError};

use crate::service::Error;
use crate::service::client_tool::{ClientTool, definitions, problems};
use crate::service::content::{ContentInput, GivenContent, parse as read};
use crate::service::json::{object, objects};
use crate::service::session_settings::limit_errors;

/// A user message.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CreateMessage {
    /// A text, or blocks: one or more, with at most 100 images and 4 MiB of text.
    #[schema(value_type = GivenContent)]
    pub(in crate::http::routes) content: ContentInput,
    /// The client's own id of the message, 1 to 128 of letters, digits, `_`, `.` and `-`.
    /// A second post with the same id and content gives the same run.
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    pub(in crate::http::routes) id: Option<String>,
    /// Whether to answer with an event stream; `Accept: text/event-stream` says the same.
    #[serde(default)]
    pub(in crate::http::routes) stream: bool,
    /// The limits of the run; the session's where absent.
    #[serde(default, deserialize_with = "object")]
    pub(in crate::http::routes) limits: Limits,
    /// How the model may use tools in the first round.
    #[serde(default, deserialize_with = "object")]
    pub(in crate::http::routes) tool_choice: ToolChoice,
    /// What happens if the session is busy. `queue`: the message waits its turn. `reject`: 409
    /// `session_busy`. `interrupt`: the live run is cancelled and the message is accepted, both or
    /// neither; messages that wait already keep their places before it. The operator's choice
    /// where absent, which is `queue` unless they decide otherwise.
    #[serde(default, deserialize_with = "words")]
    pub(in crate::http::routes) on_busy: Option<OnBusy>,
    /// Tools that the client runs, for this run only, behind those of the session.
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 64)]
    pub(in crate::http::routes) tools: Vec<ClientTool>,
    /// The permission mode of the session from this message on.
    #[serde(default, deserialize_with = "words")]
    pub(in crate::http::routes) permission_mode: Option<PermissionMode>,
}

impl CreateMessage {
    /// Checks what can be checked without its session, and takes the content out.
    pub(in crate::http::routes) fn check(mut self) -> Result<(Self, Content), ApiError> {
        let mut errors = limit_errors(&self.limits, "/limits");
        let given = std::mem::replace(&mut self.content, ContentInput::Blocks(Vec::new()));
        let content = read(given, "/content");
        let is_empty = content.blocks.is_empty() && content.errors.is_empty();
        errors.extend(content.errors);
        let mut refuse = |pointer: &str, message: &str| {
            errors.push(FieldError { pointer: pointer.to_owned(), message: message.to_owned() });
        };
        if is_empty {
            refuse("/content", "is empty");
        }
        if self.id.as_deref().is_some_and(|id| !is_message_id(id)) {
            refuse("/id", "is not 1 to 128 of letters, digits, '_', '.' and '-'");
        }
        errors.extend(self.tool_errors(&[]));
        if !errors.is_empty() {
            return Err(ApiError::Service(Error::Validation(errors)));
        }
        let text = serde_json::to_string(&content.blocks).map_err(Into::into);
        let content = text.and_then(Content::parse);
        let content = content.map_err(|error| ApiError::Internal(error.to_string()))?;
        Ok((self, content))
    }

    /// What is wrong with the tools that it brings to those of its session.
    pub(super) fn tool_errors(&self, beside: &[String]) -> Vec<FieldError> {
        problems(self.tools.iter().enumerate(), beside)
    }

    /// What it asks of its run.
    pub(super) fn options(&self) -> Result<RunOptions, ApiError> {
        let has_tools = !self.tools.is_empty();
        let tools = has_tools.then(|| definitions(self.tools.iter()));
        Ok(RunOptions {
            limits: self.limits.clone(),
            tool_choice: self.tool_choice.clone(),
            tools: tools.transpose()?,
            permission_mode: self.permission_mode,
            trace: None,
        })
    }
}

fn is_message_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=128).contains(&id.len()) && id.chars().all(is_plain)
}
