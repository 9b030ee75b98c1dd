//! The body of a posted message, and what may be in it.

use serde::{Deserialize, Serialize};

use crate::domain::message::Content;
use crate::domain::permission::PermissionMode;
use crate::domain::run::{Limits, OnBusy, RunOptions};
use crate::domain::tool::ToolChoice;
use crate::domain::word::{word, words};
use crate::http::error::{ApiError, FieldError};
use crate::http::json_body::{object, objects};
use crate::http::routes::client_tool::{ClientTool, definitions, problems};
use crate::http::routes::sessions::limit_errors;

/// A user message.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CreateMessage {
    /// A text, or text blocks.
    content: MessageContent,
    /// The client's own id of the message, 1 to 128 of letters, digits, `_`, `.` and `-`.
    /// A second post with the same id and content gives the same run.
    pub(super) id: Option<String>,
    /// Whether to answer with an event stream; `Accept: text/event-stream` says the same.
    #[serde(default)]
    pub(super) stream: bool,
    /// The limits of the run; the session's where absent.
    #[serde(default, deserialize_with = "object")]
    pub(super) limits: Limits,
    /// How the model may use tools in the first round.
    #[serde(default, deserialize_with = "object")]
    pub(super) tool_choice: ToolChoice,
    /// What happens if the session is busy. `queue`: the message waits its turn. `reject`: 409
    /// `session_busy`. `interrupt`: the live run is cancelled and the message is accepted, both or
    /// neither; messages that wait already keep their places before it. The operator's choice
    /// where absent, which is `queue` unless they decide otherwise.
    #[serde(default, deserialize_with = "words")]
    pub(super) on_busy: Option<OnBusy>,
    /// Tools that the client runs, for this run only, behind those of the session.
    #[serde(default, deserialize_with = "objects")]
    tools: Vec<ClientTool>,
    /// The permission mode of the session from this message on.
    #[serde(default, deserialize_with = "words")]
    pub(super) permission_mode: Option<PermissionMode>,
}

/// A text, or blocks.
#[derive(Debug, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(untagged, expecting = "expected a string or an array of text blocks")]
enum MessageContent {
    /// One text.
    Text(String),
    /// Text blocks.
    Blocks(#[serde(deserialize_with = "objects")] Vec<TextBlock>),
}

/// A block of text.
#[derive(Debug, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct TextBlock {
    /// `text`.
    #[serde(deserialize_with = "word")]
    r#type: TextType,
    /// The text.
    text: String,
}

#[derive(Debug, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum TextType {
    Text,
}

impl CreateMessage {
    pub(super) fn check(&self) -> Result<(), ApiError> {
        let mut errors = limit_errors(&self.limits, "/limits");
        let mut refuse = |pointer: String, message: &str| {
            errors.push(FieldError { pointer, message: message.to_owned() });
        };
        match &self.content {
            MessageContent::Text(text) => {
                if let Some(problem) = text_problem(text) {
                    refuse("/content".to_owned(), problem);
                }
            }
            MessageContent::Blocks(blocks) if blocks.is_empty() => {
                refuse("/content".to_owned(), "is empty");
            }
            MessageContent::Blocks(blocks) => {
                for (index, block) in blocks.iter().enumerate() {
                    if let Some(problem) = text_problem(&block.text) {
                        refuse(format!("/content/{index}/text"), problem);
                    }
                }
            }
        }
        errors.extend(self.tool_errors(&[]));
        let mut refuse = |pointer: String, message: &str| {
            errors.push(FieldError { pointer, message: message.to_owned() });
        };
        if self.id.as_deref().is_some_and(|id| !is_message_id(id)) {
            refuse("/id".to_owned(), "is not 1 to 128 of letters, digits, '_', '.' and '-'");
        }
        if errors.is_empty() { Ok(()) } else { Err(ApiError::Validation(errors)) }
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
        })
    }

    pub(super) fn content(&self) -> Result<Content, ApiError> {
        let content = match &self.content {
            MessageContent::Text(text) => Content::text(text),
            MessageContent::Blocks(blocks) => {
                serde_json::to_string(blocks).map_err(Into::into).and_then(Content::parse)
            }
        };
        content.map_err(|error| ApiError::Internal(error.to_string()))
    }
}

/// What the model or the database would not take.
fn text_problem(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        return Some("is blank");
    }
    text.contains('\0').then_some("has a NUL")
}

fn is_message_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=128).contains(&id.len()) && id.chars().all(is_plain)
}
