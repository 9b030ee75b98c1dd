//! Decodes one event of the stream from its JSON. Members that are missing or have an unexpected
//! type are absent.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::error::read_in_stream;
use super::provider_state::ThinkingPlace;
use crate::domain::usage::Usage;
use crate::model::error::ModelError;
use crate::model::raw_object::RawObject;
use crate::model::reply_head::ReplyHead;

/// The maximum token count of one request; higher counts are errors of the server and are clamped.
const MAX_TOKENS: i64 = 1_000_000_000;

/// A decoded event.
#[derive(Debug)]
pub(super) enum StreamEvent {
    Chunk(Chunk),
    /// The last event, `[DONE]`.
    Done,
}

/// A chunk of a reply.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    /// `None` or empty in a chunk that carries only the usage.
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<Counts>,
}

/// An addition to the reply. Requests ask for one choice.
#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    #[serde(default, deserialize_with = "lenient")]
    index: Option<u64>,
    /// A server that cannot stream sends the whole message.
    #[serde(default, alias = "message")]
    pub(super) delta: Option<Delta>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(from = "RawObject")]
pub(super) struct Delta {
    pub(super) content: Option<DeltaContent>,
    /// Reasoning, with its place in the message.
    pub(super) thinking: Option<(ThinkingPlace, String)>,
    /// A refusal instead of an answer.
    pub(super) refusal: Option<String>,
    pub(super) tool_calls: Vec<CallPiece>,
    /// Other members, which the server gets back.
    pub(super) members: RawObject,
}

/// The content: text, or a list of parts as Mistral sends it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum DeltaContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// A part of the content.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentPart {
    Text {
        text: String,
    },
    Thinking {
        thinking: Vec<ContentPart>,
    },
    #[serde(other)]
    Other,
}

impl From<RawObject> for Delta {
    fn from(mut members: RawObject) -> Self {
        members.take_raw("role");
        // Some servers send the reasoning under both names.
        let thinking = [ThinkingPlace::ReasoningContent, ThinkingPlace::Reasoning].map(|place| {
            let text = members.take::<String>(place.name()).unwrap_or_default();
            (!text.is_empty()).then_some((place, text))
        });
        let calls: Option<Vec<CallPiece>> = members.take("tool_calls");
        // The older form of a call.
        let function: Option<FunctionPiece> = members.take("function_call");
        let function = function.map(|function| CallPiece {
            index: Some(0),
            function: Some(function),
            ..CallPiece::default()
        });
        Self {
            content: members.take("content"),
            thinking: thinking.into_iter().flatten().next(),
            refusal: members.take("refusal"),
            tool_calls: calls.into_iter().flatten().chain(function).collect(),
            members,
        }
    }
}

impl ContentPart {
    /// The text of a part, and of the parts in it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text { text } => text.clone(),
            Self::Thinking { thinking } => thinking.iter().map(Self::text).collect(),
            Self::Other => String::new(),
        }
    }
}

/// A piece of a call, or a whole call.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "RawObject")]
pub(super) struct CallPiece {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) function: Option<FunctionPiece>,
    /// Other members, which the server gets back.
    pub(super) members: RawObject,
}

impl From<RawObject> for CallPiece {
    fn from(mut members: RawObject) -> Self {
        members.take_raw("type");
        Self {
            index: members.take("index"),
            id: members.take("id"),
            function: members.take("function"),
            members,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionPiece {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) name: Option<String>,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
struct Counts {
    #[serde(default, deserialize_with = "lenient")]
    prompt_tokens: Option<i64>,
    #[serde(default, deserialize_with = "lenient")]
    completion_tokens: Option<i64>,
    #[serde(default, deserialize_with = "lenient")]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default, deserialize_with = "lenient")]
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    #[serde(default, deserialize_with = "lenient")]
    cached_tokens: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct CompletionDetails {
    #[serde(default, deserialize_with = "lenient")]
    reasoning_tokens: Option<i64>,
}

/// Deserializes a member; null or another type reads as absent.
pub(super) fn lenient<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

/// Decodes the data of one event.
pub(super) fn decode(data: &str) -> Result<Option<StreamEvent>, ModelError> {
    #[derive(Deserialize)]
    struct Failed<'a> {
        #[serde(borrow, default)]
        error: Option<&'a RawValue>,
        #[serde(default, deserialize_with = "lenient")]
        object: Option<String>,
    }
    if data.trim().is_empty() {
        return Ok(None);
    }
    if data.trim() == "[DONE]" {
        return Ok(Some(StreamEvent::Done));
    }
    let unreadable = |error| ModelError::Malformed(format!("an event is not readable: {error}"));
    let failed: Failed<'_> = serde_json::from_str(data).map_err(unreadable)?;
    if failed.error.is_some() || failed.object.is_some_and(|object| object == "error") {
        return Err(read_in_stream(data).error(None, ReplyHead::default()));
    }
    Ok(Some(StreamEvent::Chunk(serde_json::from_str(data).map_err(unreadable)?)))
}

impl Chunk {
    /// The choice with index 0, if the chunk has it, and the usage.
    pub(super) fn choice(self) -> (Option<Choice>, Option<Usage>) {
        let usage = self.usage.as_ref().map(Counts::usage);
        let mut choices = self.choices.into_iter().flatten();
        (choices.find(|choice| choice.index.unwrap_or(0) == 0), usage)
    }
}

impl CallPiece {
    pub(super) fn name(&self) -> Option<&str> {
        self.function.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    /// The text of the arguments: the contents of a string, or the JSON text of an object.
    pub(super) fn arguments(&self) -> String {
        let raw = self.function.as_ref().and_then(|function| function.arguments.as_deref());
        match raw.map(RawValue::get) {
            None | Some("null") => String::new(),
            Some(raw) => serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned()),
        }
    }
}

impl Counts {
    /// Converts the counts. In this protocol the prompt count includes tokens read from the cache.
    fn usage(&self) -> Usage {
        let count = |count: Option<i64>| count.unwrap_or(0).clamp(0, MAX_TOKENS);
        let (prompt, output) = (count(self.prompt_tokens), count(self.completion_tokens));
        let prompt_details = self.prompt_tokens_details.as_ref();
        let cached = count(prompt_details.and_then(|details| details.cached_tokens)).min(prompt);
        let details = self.completion_tokens_details.as_ref();
        let thinking = count(details.and_then(|details| details.reasoning_tokens)).min(output);
        Usage {
            input_tokens: prompt - cached,
            cache_read_input_tokens: cached,
            output_tokens: output,
            thinking_tokens: thinking,
            ..Usage::default()
        }
    }
}
