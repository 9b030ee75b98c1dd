//! The body of a request, and what it asks for.

use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use super::mapper::RunIds;
use crate::domain::permission::Decision;
use crate::http::adapters::call_answers::{CallAnswer, CallAnswers, CallReply};
use crate::http::adapters::media::{ContentPart, FileUrl, blocks, uploaded_file};
use crate::http::adapters::turn::MessageDraft;
use crate::http::error::ApiError;
use crate::service::answers::ApprovalDecision;
use crate::service::client_tool::ClientTool;
use crate::service::content::ContentInput;

/// The input of a run (`RunAgentInput`). Members that are not listed here are ignored.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct AgUiInput {
    /// The id of the conversation, which the client has made: the `external_id` of its session, which
    /// the first request creates.
    #[schema(min_length = 1, max_length = 255)]
    pub(super) thread_id: String,
    /// The client's id of the run, which the events repeat.
    run_id: String,
    /// The version of the protocol; absent for versions before 1.0.
    protocol_version: Option<String>,
    /// The messages of the conversation. Only the last user message and the results after the last
    /// assistant message have an effect; the service has the rest itself.
    #[serde(default)]
    messages: Vec<AgUiMessage>,
    /// Tools that the client runs, for this message only.
    #[serde(default)]
    tools: Vec<AgUiTool>,
    /// Answers to interrupts.
    resume: Option<Vec<ResumeEntry>>,
}

/// A message of a conversation.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct AgUiMessage {
    /// The client's id of the message. A user message with an id that the conversation has already
    /// starts no second run.
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    id: String,
    /// `user`, `assistant`, `tool` or another role.
    role: String,
    /// A text, or an array of parts.
    #[serde(default)]
    content: Value,
    /// The call of which a message with the role `tool` is the result.
    tool_call_id: Option<String>,
    /// The error of the call, if it has failed.
    error: Option<String>,
}

/// A tool of the client.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(in crate::http) struct AgUiTool {
    name: String,
    description: Option<String>,
    /// The JSON Schema of the input.
    #[schema(value_type = Option<Object>)]
    parameters: Option<Map<String, Value>>,
}

/// An answer to an interrupt.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct ResumeEntry {
    /// The id of the call.
    interrupt_id: String,
    /// `resolved`, or `cancelled` for a denial.
    status: String,
    /// `approved`, `message` for a denial, and `editedArgs`, the input that replaces the model's.
    #[schema(value_type = Option<Object>)]
    payload: Option<Map<String, Value>>,
}

/// The intent of a client.
#[derive(Debug)]
pub(super) enum AgUiAction {
    /// A message of the user.
    Submit(MessageDraft),
    /// Decisions on calls, and results of calls.
    Answer,
}

/// The conversation to which a client connects. Other members of `RunAgentInput` are ignored.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct AgUiConnectInput {
    /// The id of the conversation. One that has no messages yet has empty snapshots.
    pub(super) thread_id: String,
    /// The client's id of the run, which the events repeat.
    run_id: String,
    /// The version of the protocol; absent for versions before 1.0.
    protocol_version: Option<String>,
}

impl AgUiConnectInput {
    pub(super) fn ids(&self) -> RunIds {
        RunIds {
            thread_id: self.thread_id.clone(),
            run_id: self.run_id.clone(),
            has_outcomes: self.protocol_version.is_some(),
        }
    }
}

impl AgUiInput {
    pub(super) fn ids(&self) -> RunIds {
        RunIds {
            thread_id: self.thread_id.clone(),
            run_id: self.run_id.clone(),
            has_outcomes: self.protocol_version.is_some(),
        }
    }

    /// Checks everything that does not depend on the session.
    pub(super) fn parse(&mut self) -> Result<(AgUiAction, CallAnswers), ApiError> {
        let messages = std::mem::take(&mut self.messages);
        let mut given = decisions(self.resume.take().unwrap_or_default())?;
        let is_resumed = !given.is_empty();
        given.extend(results(&messages)?);
        let answers =
            CallAnswers { given, pointer: "/messages".to_owned(), id_member: "toolCallId" };
        let is_turn = |it: &AgUiMessage| ["user", "tool", "assistant"].contains(&it.role.as_str());
        let last = messages.iter().enumerate().rev().find(|(_, message)| is_turn(message));
        let action = match last {
            Some((index, message)) if message.role == "user" && !is_resumed => {
                AgUiAction::Submit(self.draft(message, format!("/messages/{index}/content"))?)
            }
            _ if !answers.is_empty() => AgUiAction::Answer,
            _ => {
                let problem = "end with no message of the user and no result";
                return Err(ApiError::field("/messages", problem));
            }
        };
        Ok((action, answers))
    }

    fn draft(&mut self, message: &AgUiMessage, pointer: String) -> Result<MessageDraft, ApiError> {
        let content = Value::from(blocks::<Part>(&message.content, &pointer)?);
        let content = ContentInput::deserialize(content);
        let content = content.map_err(|error| ApiError::field(&pointer, error.to_string()))?;
        let tools = std::mem::take(&mut self.tools).into_iter().map(|tool| {
            let schema = tool.parameters.map_or_else(|| json!({ "type": "object" }), Value::Object);
            ClientTool::new(tool.name, tool.description, schema)
        });
        let id = Some(message.id.clone());
        Ok(MessageDraft { id, content, tools: tools.collect(), tool_choice: None, pointer })
    }
}

/// The decisions on calls that wait for an approval.
fn decisions(resume: Vec<ResumeEntry>) -> Result<Vec<CallAnswer>, ApiError> {
    let decision = |(index, entry): (usize, ResumeEntry)| {
        let pointer = format!("/resume/{index}");
        let ResumeEntry { interrupt_id, status, payload } = entry;
        let payload = payload.unwrap_or_default();
        let approved = payload.get("approved").and_then(Value::as_bool);
        let is_allowed = match (status.as_str(), approved) {
            ("cancelled", _) => false,
            ("resolved", Some(approved)) => approved,
            _ => return Err(ApiError::field(&format!("{pointer}/payload"), "has no `approved`")),
        };
        let raw = |value: &Value| {
            to_raw_value(value).map_err(|error| ApiError::Internal(error.to_string()))
        };
        let input = payload.get("editedArgs").filter(|args| is_allowed && !args.is_null());
        let message = payload.get("message").and_then(Value::as_str).map(str::to_owned);
        let reply = CallReply::Decision(ApprovalDecision {
            decision: if is_allowed { Decision::Allow } else { Decision::Deny },
            message: message.filter(|_| !is_allowed),
            input: input.map(raw).transpose()?,
            remember: None,
        });
        Ok(CallAnswer { tool_use_id: interrupt_id, pointer, reply })
    };
    resume.into_iter().enumerate().map(decision).collect()
}

/// The results after the last assistant message.
fn results(messages: &[AgUiMessage]) -> Result<Vec<CallAnswer>, ApiError> {
    let first = messages.iter().rposition(|it| it.role == "assistant").unwrap_or(0);
    let results = messages.iter().enumerate().skip(first).filter(|(_, it)| it.role == "tool");
    let result = |(index, message): (usize, &AgUiMessage)| {
        let pointer = format!("/messages/{index}");
        let missing = || ApiError::field(&pointer, "has no `toolCallId`");
        let tool_use_id = message.tool_call_id.clone().ok_or_else(missing)?;
        let json = || message.content.to_string();
        let content = message.content.as_str().map_or_else(json, str::to_owned);
        let error = message.error.as_deref().filter(|error| !error.is_empty());
        let reply = CallReply::text(error.unwrap_or(&content), error.is_some())?;
        Ok(CallAnswer { tool_use_id, pointer, reply })
    };
    results.map(result).collect()
}

/// A part of a user message, in the forms of the versions of the protocol.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Part {
    r#type: String,
    text: String,
    source: Option<PartSource>,
    mime_type: Option<String>,
    /// An uploaded file.
    id: Option<String>,
    url: Option<String>,
    data: Option<String>,
    filename: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartSource {
    r#type: String,
    value: String,
    mime_type: Option<String>,
}

impl ContentPart for Part {
    const MEDIA: &'static [&'static str] = &["image", "document", "binary"];

    fn kind(&self) -> &str {
        &self.r#type
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn media(self) -> Result<Value, &'static str> {
        let Self { source, mime_type, id, url, data, filename, r#type, .. } = self;
        let (url, data, mime_type) = match source {
            Some(PartSource { r#type, value, mime_type: own }) if r#type == "url" => {
                (Some(value), None, own.or(mime_type))
            }
            Some(PartSource { value, mime_type: own, .. }) => {
                (None, Some(value), own.or(mime_type))
            }
            None => (url, data, mime_type),
        };
        let default = if r#type == "image" { "image/*" } else { "application/pdf" };
        let mime_type = mime_type.unwrap_or_else(|| default.to_owned());
        let url = match (url, data, id) {
            (Some(url), ..) => url,
            (None, Some(data), _) => format!("data:{mime_type};base64,{data}"),
            (None, None, Some(id)) => {
                let is_image = mime_type.starts_with("image/");
                return Ok(uploaded_file(&id, is_image, filename));
            }
            (None, None, None) => return Err("has no `source`"),
        };
        FileUrl { url: &url, media_type: Some(&mime_type), filename }.into_block()
    }
}
