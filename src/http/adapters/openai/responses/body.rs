//! The body of a request for a response.

use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::input::{InputItems, ResponseRequest};
use crate::http::adapters::openai::body::{CompletionAction, CompletionRequest, Role};
use crate::http::adapters::openai::content::{blocks, text};
use crate::http::adapters::openai::conversation::ConversationName;
use crate::http::adapters::openai::tool_choice::tool_choice;
use crate::http::adapters::openai::transcript::Transcript;
use crate::http::adapters::openai::turn::DEFAULT_MODEL;
use crate::http::adapters::turn::MessageDraft;
use crate::http::error::ApiError;
use crate::service::client_tool::ClientTool;
use crate::service::content::ContentInput;

/// A request for a response. Members that are not listed here are ignored, among them the parameters of
/// sampling: an agent has its own.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(in crate::http) struct ResponseBody {
    /// The agent of a new session, or `default`, or the name of a model. When absent, `default`.
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
    /// A text, or items: messages, and the outputs of calls of functions. Of items that the client sends
    /// again, only the new ones have an effect.
    input: Value,
    /// The system prompt of a new session.
    pub(super) instructions: Option<String>,
    /// The response that this one continues.
    pub(super) previous_response_id: Option<String>,
    /// The session: its `external_id`, which the first request creates, or its own id; or an object with
    /// such an `id`. It excludes `previous_response_id`.
    conversation: Option<Value>,
    /// True for a stream of events.
    pub(super) stream: Option<bool>,
    /// True if the run goes on when the client closes the connection. Without `stream`, the reply is sent
    /// at once.
    pub(super) background: Option<bool>,
    /// Tools that the client runs, for this message only: functions.
    #[schema(value_type = Option<Vec<Object>>)]
    pub(super) tools: Option<Vec<Value>>,
    /// The use of tools in the first round: `none`, `auto`, `required` or one function.
    pub(super) tool_choice: Option<Value>,
    /// False if a reply may have at most one call.
    pub(super) parallel_tool_calls: Option<bool>,
    /// The user, who becomes the `user` of a new session.
    #[schema(max_length = 255)]
    pub(super) user: Option<String>,
    /// Returned with the response. `session_id` names the session.
    #[schema(value_type = Option<Object>)]
    pub(super) metadata: Option<Value>,
    /// Plain text, which is also the default.
    #[schema(value_type = Option<Object>)]
    text: Option<Value>,
    /// Refused: there are no stored prompts.
    #[schema(value_type = Option<Object>)]
    prompt: Option<Value>,
    /// Refused: an agent has its own limits.
    max_tool_calls: Option<Value>,
}

/// A tool of the client.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponseTool {
    r#type: String,
    name: String,
    description: Option<String>,
    parameters: Option<Value>,
}

impl ResponseBody {
    /// The model of the request.
    pub(super) fn model(&self) -> &str {
        self.model.as_deref().filter(|model| !model.is_empty()).unwrap_or(DEFAULT_MODEL)
    }

    /// The name of the conversation; none if the request has none.
    pub(super) fn conversation_name(&self, headers: &HeaderMap) -> Option<ConversationName> {
        let given = self.conversation_id().map(ConversationName::given);
        given.or_else(|| ConversationName::of(headers, self.metadata.as_ref()))
    }

    fn conversation_id(&self) -> Option<&str> {
        let conversation = self.conversation.as_ref()?;
        let id = conversation.as_str().or_else(|| conversation.get("id")?.as_str())?;
        Some(id).filter(|id| !id.is_empty())
    }

    /// Checks everything that does not depend on the session.
    pub(super) fn parse(&mut self) -> Result<ResponseRequest, ApiError> {
        self.refuse_unsupported()?;
        let InputItems { messages, answers, last } = InputItems::of(self.input.take())?;
        let has_new_items_only =
            self.previous_response_id.is_some() || self.conversation_id().is_some();
        let user = self.user.as_deref().unwrap_or_default();
        let mut transcript = Transcript::of(&messages, user).unwrap_or_default();
        if has_new_items_only {
            transcript = transcript.without_history();
        }
        let prompts = messages.iter().filter(|it| it.role == Role::System);
        let prompts = prompts.map(|it| text(&it.content));
        let system = self.instructions.iter().cloned().chain(prompts).collect::<Vec<_>>();
        let message = messages.iter().rfind(|it| it.role == Role::User);
        let action = match (last, message) {
            (Some(Role::Tool), _) => CompletionAction::Answer,
            (Some(Role::User), Some(message)) => {
                CompletionAction::Submit(self.draft(&message.content)?)
            }
            _ => {
                let problem = "does not end with a message of the user, or an output of a call";
                return Err(ApiError::field("/input", problem));
            }
        };
        let system = system.join("\n\n");
        let request = CompletionRequest { system, transcript, action, answers };
        Ok(ResponseRequest { previous: self.previous_response_id.clone(), request })
    }

    /// Refuses members that would change the result.
    fn refuse_unsupported(&self) -> Result<(), ApiError> {
        let has = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_null());
        let format = self.text.as_ref().and_then(|text| text.pointer("/format/type"));
        let problem = if has(&self.prompt) {
            ("/prompt", "is not supported: use an agent as `model`")
        } else if has(&self.max_tool_calls) {
            ("/max_tool_calls", "is not supported: an agent has its own limits")
        } else if format.is_some_and(|format| format != "text") {
            ("/text/format", "is not `text`, the only supported format")
        } else if self.previous_response_id.is_some() && has(&self.conversation) {
            ("/conversation", "is not allowed together with `previous_response_id`")
        } else if has(&self.conversation) && self.conversation_id().is_none() {
            ("/conversation", "is not an id, and not an object with an `id`")
        } else {
            return Ok(());
        };
        Err(ApiError::field(problem.0, problem.1))
    }

    fn draft(&self, content: &Value) -> Result<MessageDraft, ApiError> {
        let pointer = "/input".to_owned();
        let content = Value::from(blocks(content, &pointer)?);
        let content = ContentInput::deserialize(content);
        let content = content.map_err(|error| ApiError::field(&pointer, error.to_string()))?;
        let tools = self.tools.iter().flatten().enumerate().map(client_tool);
        let tools = tools.collect::<Result<Vec<_>, _>>()?;
        let tool_choice = tool_choice(self.tool_choice.as_ref(), self.parallel_tool_calls)?;
        Ok(MessageDraft { id: None, content, tools, tool_choice, pointer })
    }
}

fn client_tool((index, tool): (usize, &Value)) -> Result<ClientTool, ApiError> {
    let pointer = format!("/tools/{index}");
    let tool = ResponseTool::deserialize(tool);
    let tool = tool.map_err(|error| ApiError::field(&pointer, error.to_string()))?;
    let ResponseTool { r#type, name, description, parameters } = tool;
    if r#type != "function" {
        let problem =
            format!("is {type:?}; only `function` is supported: an agent has its own tools");
        return Err(ApiError::field(&format!("{pointer}/type"), problem));
    }
    let schema = parameters.filter(|it| !it.is_null());
    Ok(ClientTool::new(name, description, schema.unwrap_or_else(|| json!({ "type": "object" }))))
}
