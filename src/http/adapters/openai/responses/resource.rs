//! The response as a document.

use serde::Serialize;
use serde_json::{Value, json};

use super::body::ResponseBody;
use super::id::ResponseId;
use super::mapper::ResponseMapper;
use super::usage::ResponseUsage;
use crate::domain::ids::SessionId;
use crate::domain::run::Run;
use crate::domain::run_status::RunStatus;
use crate::domain::session::Session;
use crate::http::adapters::openai::completion::FinishReason;
use crate::http::adapters::openai::ending::Ending;

/// A response of an agent. Members of the request, such as `tools` and `instructions`, are those of the
/// request in the response to it, and have default values in a response that is read later.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct OpenAiResponse {
    /// `resp_` and digits.
    id: String,
    /// `response`.
    object: &'static str,
    /// The time when the run was accepted, in seconds since 1970.
    created_at: i64,
    /// The state.
    status: ResponseStatus,
    /// True if the run goes on when the client closes the connection.
    background: bool,
    /// The error of a failed response.
    #[schema(required)]
    error: Option<ResponseFailure>,
    /// The reason for which the response is incomplete.
    #[schema(required)]
    incomplete_details: Option<IncompleteDetails>,
    /// The `instructions` of the request.
    #[schema(required)]
    instructions: Option<String>,
    /// `null`.
    #[schema(required)]
    max_output_tokens: Option<u32>,
    /// The model of the request; the agent or the model of a response that is read later.
    model: String,
    /// The items: `message`, `reasoning`, `function_call`, `mcp_call` and `mcp_approval_request`.
    #[schema(value_type = Vec<Object>)]
    output: Vec<Value>,
    parallel_tool_calls: bool,
    /// The `previous_response_id` of the request.
    #[schema(required)]
    previous_response_id: Option<String>,
    /// The session of the response.
    conversation: ResponseConversation,
    /// `null`.
    #[schema(value_type = Object)]
    reasoning: Value,
    /// `true`.
    store: bool,
    /// `null`.
    #[schema(required)]
    temperature: Option<f64>,
    /// `null`.
    #[schema(required)]
    top_p: Option<f64>,
    /// Plain text.
    #[schema(value_type = Object)]
    text: Value,
    /// The `tool_choice` of the request.
    tool_choice: Value,
    /// The `tools` of the request.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Value>,
    /// `disabled`.
    truncation: &'static str,
    /// The tokens; `null` while the response is in progress.
    #[schema(required)]
    usage: Option<ResponseUsage>,
    /// The `user` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The `metadata` of the request.
    #[schema(value_type = Object)]
    metadata: Value,
}

/// The state of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum ResponseStatus {
    Queued,
    InProgress,
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

/// The session of a response.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ResponseConversation {
    /// The id of the session.
    #[schema(value_type = String)]
    id: SessionId,
}

/// The error of a failed response.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ResponseFailure {
    /// `server_error`.
    code: &'static str,
    /// A description for people.
    message: String,
}

/// The reason for which a response is incomplete.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct IncompleteDetails {
    /// `max_output_tokens` or `content_filter`.
    reason: &'static str,
}

impl OpenAiResponse {
    /// A response that is in progress.
    fn new(run: &Run, after: i64, model: String) -> Self {
        let id = ResponseId { run_id: run.id, after }.to_string();
        Self {
            id,
            object: "response",
            created_at: run.created_at.as_second(),
            status: ResponseStatus::InProgress,
            background: false,
            error: None,
            incomplete_details: None,
            instructions: None,
            max_output_tokens: None,
            model,
            output: Vec::new(),
            parallel_tool_calls: true,
            previous_response_id: None,
            conversation: ResponseConversation { id: run.session_id },
            reasoning: json!({ "effort": null, "summary": null }),
            store: true,
            temperature: None,
            top_p: None,
            text: json!({ "format": { "type": "text" } }),
            tool_choice: json!("auto"),
            tools: Vec::new(),
            truncation: "disabled",
            usage: None,
            user: None,
            metadata: json!({}),
        }
    }

    /// The response to a request.
    pub(super) fn of_request(body: &ResponseBody, run: &Run, after: i64) -> Self {
        let given = |value: &Option<Value>| value.clone().filter(|value| !value.is_null());
        Self {
            background: body.background.unwrap_or(false),
            instructions: body.instructions.clone(),
            parallel_tool_calls: body.parallel_tool_calls.unwrap_or(true),
            previous_response_id: body.previous_response_id.clone(),
            tool_choice: given(&body.tool_choice).unwrap_or_else(|| json!("auto")),
            tools: body.tools.clone().unwrap_or_default(),
            user: body.user.clone(),
            metadata: given(&body.metadata).unwrap_or_else(|| json!({})),
            ..Self::new(run, after, body.model().to_owned())
        }
    }

    /// A stored response.
    pub(super) fn stored(session: &Session, run: &Run, after: i64) -> Self {
        let settings = &session.settings;
        let agent = settings.agent.as_ref().map(|agent| agent.name.to_string());
        Self::new(run, after, agent.unwrap_or_else(|| settings.model.clone()))
    }

    pub(super) const fn status(&self) -> ResponseStatus {
        self.status
    }

    /// The response while its run goes on.
    pub(super) fn so_far(&self, mapper: &ResponseMapper, run: &Run) -> Self {
        let is_queued = run.status == RunStatus::Queued;
        let status = if is_queued { ResponseStatus::Queued } else { ResponseStatus::InProgress };
        Self { status, output: mapper.output(), ..self.clone() }
    }

    /// The response at its end.
    pub(super) fn ended(&self, mapper: &ResponseMapper, ending: Ending) -> Self {
        let (mut error, mut incomplete_details) = (None, None);
        let mut incomplete = |reason| {
            incomplete_details = Some(IncompleteDetails { reason });
            ResponseStatus::Incomplete
        };
        let status = match ending {
            Ending::Failed(message) => {
                error = Some(ResponseFailure { code: "server_error", message });
                ResponseStatus::Failed
            }
            Ending::Finished(_) if mapper.is_cancelled() => ResponseStatus::Cancelled,
            Ending::Finished(FinishReason::Stop | FinishReason::ToolCalls) => {
                ResponseStatus::Completed
            }
            Ending::Finished(FinishReason::Length) => incomplete("max_output_tokens"),
            Ending::Finished(FinishReason::ContentFilter) => incomplete("content_filter"),
        };
        let (output, usage) = (mapper.output(), Some(mapper.usage.into()));
        Self { status, error, incomplete_details, output, usage, ..self.clone() }
    }
}

impl ResponseStatus {
    /// The type of the last event of a stream. The protocol has none for a cancelled response.
    pub(super) const fn last_event(self) -> &'static str {
        match self {
            Self::Failed => "response.failed",
            Self::Incomplete | Self::Cancelled => "response.incomplete",
            Self::Queued | Self::InProgress | Self::Completed => "response.completed",
        }
    }

    pub(super) const fn is_ended(self) -> bool {
        !matches!(self, Self::Queued | Self::InProgress)
    }
}
