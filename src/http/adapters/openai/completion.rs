//! Completions and their chunks.

use serde::Serialize;
use serde_json::Value;

use crate::domain::run::Run;

/// A complete answer.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ChatCompletion {
    #[serde(flatten)]
    pub(super) head: CompletionHead,
    /// `chat.completion`.
    pub(super) object: &'static str,
    /// One choice.
    pub(super) choices: [CompletionChoice; 1],
    pub(super) usage: CompletionUsage,
}

/// The members that all chunks of a completion share.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct CompletionHead {
    /// `chatcmpl-` and the id of the run.
    id: String,
    /// The time when the run was accepted, in seconds since 1970.
    created: i64,
    /// The model of the request.
    model: String,
}

impl CompletionHead {
    pub(super) fn of(run: &Run, model: String) -> Self {
        let created = run.created_at.as_second();
        Self { id: format!("chatcmpl-{}", run.id), created, model }
    }
}

/// The choice of a completion.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct CompletionChoice {
    /// 0.
    pub(super) index: u32,
    pub(super) message: CompletionReply,
    pub(super) finish_reason: FinishReason,
    /// `null`.
    #[schema(required)]
    pub(super) logprobs: Option<Value>,
}

/// The message of a completion.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct CompletionReply {
    /// `assistant`.
    pub(super) role: &'static str,
    /// The text; `null` if there is none.
    #[schema(required)]
    pub(super) content: Option<String>,
    /// `null`.
    #[schema(required)]
    pub(super) refusal: Option<String>,
    /// Calls of tools of the client.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall>,
}

/// A call of a tool of the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ToolCall {
    pub(super) id: String,
    /// `function`.
    pub(super) r#type: &'static str,
    pub(super) function: CalledFunction,
}

/// The function of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct CalledFunction {
    pub(super) name: String,
    /// The input as JSON text.
    pub(super) arguments: String,
}

/// The reason why a completion ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum FinishReason {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
}

/// The tokens of all model requests of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct CompletionUsage {
    /// The tokens of the input, with those that were cached.
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptTokensDetails,
}

/// Tokens of the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct PromptTokensDetails {
    /// The tokens that were read from the cache.
    cached_tokens: u64,
}

impl CompletionUsage {
    /// Reads the usage of a `session.usage` event.
    pub(super) fn of(usage: &Value) -> Self {
        let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
        let cached_tokens = count("cache_read_input_tokens");
        let prompt_tokens =
            count("input_tokens") + count("cache_creation_input_tokens") + cached_tokens;
        let completion_tokens = count("output_tokens");
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptTokensDetails { cached_tokens },
        }
    }
}

/// A chunk of a stream.
#[derive(Debug, Serialize)]
pub(super) struct Chunk<'a> {
    #[serde(flatten)]
    pub(super) head: &'a CompletionHead,
    pub(super) object: &'static str,
    pub(super) choices: Vec<ChunkChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<CompletionUsage>,
}

/// The choice of a chunk.
#[derive(Debug, Serialize)]
pub(super) struct ChunkChoice {
    pub(super) index: u32,
    pub(super) delta: Delta,
    pub(super) finish_reason: Option<FinishReason>,
}

/// What a chunk adds to the message.
#[derive(Debug, Default, Serialize)]
pub(super) struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<IndexedCall>,
}

/// A call with its position.
#[derive(Debug, Serialize)]
pub(super) struct IndexedCall {
    pub(super) index: usize,
    #[serde(flatten)]
    pub(super) call: ToolCall,
}
