//! The body of a request, and what it asks for.

use serde::Deserialize;
use serde_json::{Value, json};

use super::content::{blocks, text};
use super::side_request::is_side_request;
use super::tool_choice::tool_choice;
use super::transcript::Transcript;
use crate::http::adapters::call_answers::{CallAnswer, CallAnswers, CallReply};
use crate::http::adapters::turn::MessageDraft;
use crate::http::error::ApiError;
use crate::service::client_tool::ClientTool;
use crate::service::content::ContentInput;

/// A request for a chat completion. Members that are not listed here are ignored, among them the
/// parameters of sampling: an agent has its own.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(in crate::http) struct ChatCompletionBody {
    /// The agent of a new session, or `default`, or the name of a model.
    #[schema(min_length = 1, max_length = 200)]
    pub(super) model: String,
    /// The messages of the conversation. Only the last user message and the results after it have an
    /// effect; the service has the rest itself.
    #[schema(min_items = 1)]
    messages: Vec<CompletionMessage>,
    /// True for a stream of chunks.
    pub(super) stream: Option<bool>,
    /// Options of the stream.
    pub(super) stream_options: Option<StreamOptions>,
    /// Tools that the client runs, for this message only.
    tools: Option<Vec<CompletionTool>>,
    /// The use of tools in the first round: `none`, `auto`, `required` or one function.
    #[schema(value_type = Option<Object>)]
    tool_choice: Option<Value>,
    /// False if a reply may have at most one call.
    parallel_tool_calls: Option<bool>,
    /// The number of completions: 1.
    n: Option<u32>,
    /// The user, who becomes the `user` of a new session.
    #[schema(max_length = 255)]
    pub(super) user: Option<String>,
    /// `session_id` names the session.
    #[schema(value_type = Option<Object>)]
    pub(super) metadata: Option<Value>,
}

/// The options of a stream.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
pub(in crate::http) struct StreamOptions {
    /// True for a chunk with the usage before the end.
    pub(super) include_usage: Option<bool>,
}

/// A message of a transcript.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(in crate::http) struct CompletionMessage {
    pub(super) role: Role,
    /// A text, or an array of parts: `text`, `image_url` and `file`.
    #[serde(default)]
    pub(super) content: Value,
    /// The call of which a message with the role `tool` is the result.
    tool_call_id: Option<String>,
}

impl CompletionMessage {
    pub(super) const fn new(role: Role, content: Value) -> Self {
        Self { role, content, tool_call_id: None }
    }
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Role {
    #[serde(alias = "developer")]
    System,
    User,
    #[serde(alias = "function")]
    Assistant,
    Tool,
}

/// A tool of the client.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(in crate::http) struct CompletionTool {
    function: Function,
}

/// The definition of a tool.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(in crate::http) struct Function {
    name: String,
    description: Option<String>,
    /// The JSON Schema of the input.
    #[schema(value_type = Option<Object>)]
    parameters: Option<Value>,
}

/// A request that is understood.
#[derive(Debug)]
pub(super) struct CompletionRequest {
    /// The text of the system messages.
    pub(super) system: String,
    pub(super) transcript: Transcript,
    pub(super) action: CompletionAction,
    /// The results after the last assistant message.
    pub(super) answers: CallAnswers,
}

/// The intent of a client.
#[derive(Debug)]
pub(super) enum CompletionAction {
    /// A new message.
    Submit(MessageDraft),
    /// Results of waiting calls.
    Answer,
    /// A request that is no turn of a conversation.
    Side(MessageDraft),
}

impl ChatCompletionBody {
    /// True if the stream ends with the usage.
    pub(super) fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().and_then(|options| options.include_usage).unwrap_or(false)
    }

    /// Checks everything that does not depend on the session.
    pub(super) fn parse(&mut self) -> Result<CompletionRequest, ApiError> {
        if self.n.is_some_and(|n| n != 1) {
            return Err(ApiError::field("/n", "is not 1"));
        }
        let messages = std::mem::take(&mut self.messages);
        let transcript = Transcript::of(&messages, self.user.as_deref().unwrap_or_default());
        let missing = || ApiError::field("/messages", "have no message with the role `user`");
        let transcript = transcript.ok_or_else(missing)?;
        let system = messages.iter().filter(|it| it.role == Role::System);
        let system = system.map(|it| text(&it.content)).collect::<Vec<_>>().join("\n\n");
        let answers = answers(&messages)?;
        let is_last = |role| messages.last().is_some_and(|last| last.role == role);
        let action = if is_last(Role::Tool) {
            CompletionAction::Answer
        } else if let Some((index, message)) = last_of(&messages, Role::User) {
            let is_side = is_side_request(&self.model, &system, &text(&message.content));
            let draft = self.draft(message, format!("/messages/{index}/content"))?;
            if is_side { CompletionAction::Side(draft) } else { CompletionAction::Submit(draft) }
        } else {
            return Err(missing());
        };
        if is_last(Role::Assistant) {
            let problem =
                "must not be `assistant`: the last message is one of the user, or a result";
            return Err(ApiError::field(
                &format!("/messages/{}/role", messages.len() - 1),
                problem,
            ));
        }
        Ok(CompletionRequest { system, transcript, action, answers })
    }

    fn draft(
        &mut self,
        message: &CompletionMessage,
        pointer: String,
    ) -> Result<MessageDraft, ApiError> {
        let content = Value::from(blocks(&message.content, &pointer)?);
        let content = ContentInput::deserialize(content);
        let content = content.map_err(|error| ApiError::field(&pointer, error.to_string()))?;
        let tools = self.tools.take().unwrap_or_default();
        let tools = tools.into_iter().map(|CompletionTool { function }| {
            let Function { name, description, parameters } = function;
            let schema = parameters.unwrap_or_else(|| json!({ "type": "object" }));
            ClientTool::new(name, description, schema)
        });
        let tool_choice = tool_choice(self.tool_choice.as_ref(), self.parallel_tool_calls)?;
        Ok(MessageDraft { id: None, content, tools: tools.collect(), tool_choice, pointer })
    }
}

/// The last message of a role, and its position.
fn last_of(messages: &[CompletionMessage], role: Role) -> Option<(usize, &CompletionMessage)> {
    messages.iter().enumerate().rev().find(|(_, message)| message.role == role)
}

/// The results after the last assistant message.
fn answers(messages: &[CompletionMessage]) -> Result<CallAnswers, ApiError> {
    let first = messages.iter().rposition(|it| it.role == Role::Assistant).unwrap_or(0);
    let results = messages.iter().enumerate().skip(first).filter(|(_, it)| it.role == Role::Tool);
    let given = results.map(|(index, message)| {
        let pointer = format!("/messages/{index}");
        let missing = || ApiError::field(&pointer, "has no `tool_call_id`");
        let tool_use_id = message.tool_call_id.clone().ok_or_else(missing)?;
        let reply = CallReply::text(&text(&message.content), false)?;
        Ok(CallAnswer { tool_use_id, pointer, reply })
    });
    let given = given.collect::<Result<Vec<_>, ApiError>>()?;
    Ok(CallAnswers { given, pointer: "/messages".to_owned(), id_member: "tool_call_id" })
}
