//! Decodes one event of the stream from its JSON. Members that are missing or have an unexpected type
//! are absent.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::decode::lenient;
use super::super::error::read_in_stream;
use crate::domain::usage::Usage;
use crate::model::error::{ErrorKind, ModelError};
use crate::model::reply_head::ReplyHead;

/// The maximum token count of one request; higher counts are errors of the server and are clamped.
const MAX_TOKENS: i64 = 1_000_000_000;

/// A decoded event.
#[derive(Debug)]
pub(super) enum StreamEvent {
    /// The reply begins.
    Started(Response),
    /// An item begins.
    ItemAdded { index: usize, item: OutputItem },
    /// More text, reasoning or arguments of an item.
    Delta { index: usize, kind: DeltaKind, part: u64, text: String },
    /// An item as it is complete.
    ItemDone { index: usize, item: OutputItem },
    /// The reply has ended.
    Ended(Response),
    /// An event that this version does not need or know.
    Ignored,
}

/// The kind of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeltaKind {
    Text,
    Refusal,
    Reasoning,
    Arguments,
}

/// An item of the output.
#[derive(Debug, Clone)]
pub(super) struct OutputItem {
    pub(super) fields: ItemFields,
    /// The item as received.
    pub(super) raw: Box<RawValue>,
}

/// The members of an item.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ItemFields {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) call_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) arguments: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) content: Option<Vec<Part>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) summary: Option<Vec<Part>>,
}

/// A part of a message, or of reasoning.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Part {
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) refusal: String,
}

/// The state of a reply.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Response {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    incomplete_details: Option<IncompleteDetails>,
    #[serde(default)]
    error: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<Counts>,
    #[serde(default)]
    output: Vec<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
struct IncompleteDetails {
    #[serde(default, deserialize_with = "lenient")]
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Counts {
    #[serde(default, deserialize_with = "lenient")]
    input_tokens: Option<i64>,
    #[serde(default, deserialize_with = "lenient")]
    input_tokens_details: Option<InputDetails>,
    #[serde(default, deserialize_with = "lenient")]
    output_tokens: Option<i64>,
    #[serde(default, deserialize_with = "lenient")]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Deserialize)]
struct InputDetails {
    #[serde(default, deserialize_with = "lenient")]
    cached_tokens: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct OutputDetails {
    #[serde(default, deserialize_with = "lenient")]
    reasoning_tokens: Option<i64>,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "type", default, deserialize_with = "lenient")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    object: Option<String>,
    #[serde(default)]
    output_index: usize,
    #[serde(default)]
    summary_index: u64,
    #[serde(default, deserialize_with = "lenient")]
    delta: Option<String>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Decodes the data of one event. The `type` member decides, because some servers send no event names.
pub(super) fn decode(data: &str) -> Result<StreamEvent, ModelError> {
    if data.trim().is_empty() || data.trim() == "[DONE]" {
        return Ok(StreamEvent::Ignored);
    }
    let fields: Fields<'_> = read(data)?;
    let index = fields.output_index;
    let delta = |kind| StreamEvent::Delta {
        index,
        kind,
        part: fields.summary_index,
        text: fields.delta.clone().unwrap_or_default(),
    };
    let item = || fields.item.map(OutputItem::read).transpose();
    let response = || fields.response.map_or_else(|| Ok(Response::default()), |it| read(it.get()));
    Ok(match fields.kind.as_deref() {
        Some("response.created" | "response.in_progress") => StreamEvent::Started(response()?),
        Some("response.output_item.added") => match item()? {
            Some(item) => StreamEvent::ItemAdded { index, item },
            None => StreamEvent::Ignored,
        },
        Some("response.output_item.done") => match item()? {
            Some(item) => StreamEvent::ItemDone { index, item },
            None => StreamEvent::Ignored,
        },
        Some("response.output_text.delta") => delta(DeltaKind::Text),
        Some("response.refusal.delta") => delta(DeltaKind::Refusal),
        Some("response.reasoning_summary_text.delta" | "response.reasoning_text.delta") => {
            delta(DeltaKind::Reasoning)
        }
        Some("response.function_call_arguments.delta") => delta(DeltaKind::Arguments),
        Some("response.completed" | "response.incomplete" | "response.failed") => {
            StreamEvent::Ended(response()?)
        }
        // The error is the event itself, or its member `error`.
        Some("error") => return Err(failure(data)),
        // A server that cannot stream sends the whole reply.
        _ if fields.object.as_deref() == Some("response") => StreamEvent::Ended(read(data)?),
        _ if fields.error.is_some() => return Err(failure(data)),
        _ => StreamEvent::Ignored,
    })
}

fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(data)
        .map_err(|error| ModelError::Malformed(format!("an event is not readable: {error}")))
}

impl OutputItem {
    fn read(raw: &RawValue) -> Result<Self, ModelError> {
        Ok(Self { fields: read(raw.get())?, raw: raw.to_owned() })
    }
}

impl Response {
    /// The items of the output.
    pub(super) fn items(&self) -> Result<Vec<OutputItem>, ModelError> {
        self.output.iter().map(|raw| OutputItem::read(raw)).collect()
    }

    /// The reason why the output is incomplete.
    pub(super) fn incomplete_reason(&self) -> Option<&str> {
        self.incomplete_details.as_ref()?.reason.as_deref()
    }

    /// The error of a reply that has failed.
    pub(super) fn failure(&self) -> Option<ModelError> {
        let is_failed = self.status.as_deref() == Some("failed");
        let error = self.error.as_deref();
        (is_failed || error.is_some()).then(|| failure(error.map_or("{}", RawValue::get)))
    }

    /// The counts, if the server has sent them. Those of the input include the tokens read from the cache.
    pub(super) fn usage(&self) -> Option<Usage> {
        let counts = self.usage.as_ref()?;
        let count = |count: Option<i64>| count.unwrap_or(0).clamp(0, MAX_TOKENS);
        let (input, output) = (count(counts.input_tokens), count(counts.output_tokens));
        let details = counts.input_tokens_details.as_ref();
        let cached = count(details.and_then(|details| details.cached_tokens)).min(input);
        let details = counts.output_tokens_details.as_ref();
        let thinking = count(details.and_then(|details| details.reasoning_tokens)).min(output);
        Some(Usage {
            input_tokens: input - cached,
            cache_read_input_tokens: cached,
            output_tokens: output,
            thinking_tokens: thinking,
            ..Usage::default()
        })
    }
}

/// The error inside a stream, by its code. Without a known code it is one of the server.
fn failure(json: &str) -> ModelError {
    let mut report = read_in_stream(json);
    if let ErrorKind::Other(_) = report.kind {
        report.kind = ErrorKind::Api;
    }
    report.error(None, ReplyHead::default())
}
