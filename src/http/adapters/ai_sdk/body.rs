//! The body of a request that starts or continues a turn.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::answers::answers_of;
use super::ids::run_of;
use super::message::ChatMessage;
use super::parts::blocks;
use crate::domain::agent::AgentChoice;
use crate::domain::ids::RunId;
use crate::http::adapters::call_answers::CallAnswers;
use crate::http::error::ApiError;
use crate::service::client_tool::ClientTool;
use crate::service::content::ContentInput;
use crate::service::json::some_object;
use crate::service::session_settings::{CreateSession, SessionSystem};

/// A request of `useChat` or of assistant-ui. Members that are not listed here are ignored.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct ChatBody {
    /// The id of the conversation, which the client has made: the `external_id` of its session, which
    /// the first request creates.
    #[schema(min_length = 1, max_length = 255)]
    id: String,
    /// The newest message: of the user, or the assistant message with answers to waiting calls.
    message: Option<ChatMessage>,
    /// The messages of the conversation. Only the newest user message and the answers to waiting calls
    /// have an effect; the service has the rest itself.
    #[serde(default)]
    messages: Vec<ChatMessage>,
    /// `submit-message`, the default; or `regenerate-message`, which answers the last user message
    /// again.
    trigger: Option<Trigger>,
    /// The id of the message to regenerate, of the user message that was edited, or of the assistant
    /// message with answers.
    message_id: Option<String>,
    /// The agent of a new session, as in `POST /v1/sessions`.
    #[schema(value_type = Option<String>)]
    agent: Option<AgentChoice>,
    /// The model of a new session. In a session that exists, the model of this message. Tokens of
    /// browsers cannot choose it.
    model: Option<String>,
    /// Other settings of a new session: the body of `POST /v1/sessions`.
    #[serde(default, deserialize_with = "some_object")]
    #[schema(value_type = Option<CreateSession>)]
    settings: Option<CreateSession>,
    /// The system prompt of a new session.
    system: Option<SessionSystem>,
    /// Tools that the client runs, for this message only, by their names.
    #[serde(default)]
    tools: BTreeMap<String, FrontEndTool>,
    /// Inputs that replace those of the model in approved calls, by the ids of the calls.
    #[serde(default, rename = "tool_inputs")]
    #[schema(value_type = Object)]
    tool_inputs: BTreeMap<String, Value>,
}

/// The cause of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::http) enum Trigger {
    SubmitMessage,
    RegenerateMessage,
}

/// A tool of the front end, as assistant-ui sends it.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(in crate::http) struct FrontEndTool {
    /// A description for the model.
    description: Option<String>,
    /// The JSON Schema of the input.
    #[schema(value_type = Option<Object>)]
    parameters: Option<Value>,
}

/// A request that is understood.
#[derive(Debug)]
pub(super) struct ChatRequest {
    /// The id of the conversation.
    pub(super) chat_id: String,
    /// The settings of its session, if it has none yet.
    pub(super) creation: CreateSession,
    /// The intent of the client.
    pub(super) action: ChatAction,
    /// Answers to calls, of which only those to waiting calls have an effect.
    pub(super) answers: CallAnswers,
    /// Tools that the client runs.
    pub(super) tools: Vec<ClientTool>,
}

/// The intent of a client.
#[derive(Debug)]
pub(super) enum ChatAction {
    /// A user message, new, repeated or edited.
    Submit {
        message: UserMessage,
        /// True if the request names the message as an edited one.
        is_edit: bool,
    },
    /// A new answer to the last user message.
    Regenerate {
        message: UserMessage,
        /// The run of the answer that is replaced, if the request names it.
        replaced: Option<RunId>,
    },
    /// Answers to waiting calls.
    Answer,
}

/// A message of the user.
#[derive(Debug)]
pub(super) struct UserMessage {
    pub(super) id: String,
    pub(super) content: ContentInput,
    /// The model that answers it, in place of the session's.
    pub(super) model: Option<String>,
    /// A JSON pointer to the message.
    pub(super) pointer: String,
}

impl ChatBody {
    /// Checks everything that does not depend on the session.
    pub(super) fn parse(self) -> Result<ChatRequest, ApiError> {
        let Self { id, message, messages, trigger, message_id, .. } = self;
        let settings = self.settings.unwrap_or_default().with_external_id(&id)?;
        let creation =
            settings.with_agent(self.agent, self.model.clone())?.with_default_system(self.system);
        let named: Vec<(String, ChatMessage)> = if let Some(message) = message {
            vec![("/message".to_owned(), message)]
        } else {
            let pointer = |index: usize| format!("/messages/{index}");
            messages.into_iter().enumerate().map(|(at, it)| (pointer(at), it)).collect()
        };
        let answers = answers_of(&named, message_id.as_deref(), self.tool_inputs)?;
        let last = named.last().ok_or_else(|| ApiError::field("/messages", "is empty"))?;
        let action = match (trigger, last.1.role.as_str()) {
            (Some(Trigger::RegenerateMessage), "user") => ChatAction::Regenerate {
                replaced: message_id.as_deref().and_then(run_of),
                message: user_message(last, self.model)?,
            },
            (_, "user") => ChatAction::Submit {
                is_edit: message_id.is_some_and(|id| id == last.1.id),
                message: user_message(last, self.model)?,
            },
            (Some(Trigger::RegenerateMessage), _) => {
                let problem =
                    "must be `user`: the message whose answer is regenerated is the last one";
                return Err(ApiError::field(&format!("{}/role", last.0), problem));
            }
            (_, "assistant") => ChatAction::Answer,
            _ => {
                let problem = "is not `user` or `assistant`";
                return Err(ApiError::field(&format!("{}/role", last.0), problem));
            }
        };
        let tools = self.tools.into_iter().map(|(name, tool)| {
            let schema = tool.parameters.unwrap_or_else(|| json!({ "type": "object" }));
            ClientTool::new(name, tool.description, schema)
        });
        Ok(ChatRequest { chat_id: id, creation, action, answers, tools: tools.collect() })
    }
}

fn user_message(
    (pointer, message): &(String, ChatMessage),
    model: Option<String>,
) -> Result<UserMessage, ApiError> {
    let content = blocks(&message.parts, pointer)?;
    let content = ContentInput::deserialize(Value::from(content));
    let content = content.map_err(|error| ApiError::field(pointer, error.to_string()))?;
    Ok(UserMessage { id: message.id.clone(), content, model, pointer: pointer.clone() })
}
