//! Decodes one event of the stream from its JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::error::{ErrorKind, ModelError};
use crate::model::http::ErrorReport;
use crate::model::raw_object::RawObject;
use crate::model::reply_head::ReplyHead;

/// A decoded event.
#[derive(Debug)]
pub(super) enum StreamEvent<'a> {
    MessageStart(RawObject),
    BlockStart {
        index: usize,
        block: RawObject,
    },
    BlockDelta {
        index: usize,
        delta: BlockDelta<'a>,
    },
    BlockStop {
        /// Absent if the server sends none.
        index: Option<usize>,
    },
    MessageDelta {
        delta: RawObject,
        usage: RawObject,
        /// The context edits that the server applied to the request.
        applied_edits: Option<Box<RawValue>>,
    },
    MessageStop,
    /// The whole message, from a server that cannot stream.
    Message(RawObject),
    /// A ping, or an event type that this version does not know.
    Ignored,
}

/// The addition of a delta event to its block.
#[derive(Debug)]
pub(super) enum BlockDelta<'a> {
    Text(Cow<'a, str>),
    InputJson(Cow<'a, str>),
    Thinking(Cow<'a, str>),
    Signature(Box<RawValue>),
    Citation(Box<RawValue>),
    /// Members to merge into the block as they are.
    Compaction(RawObject),
    Unknown,
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct MessageStart {
    message: RawObject,
}

#[derive(Deserialize)]
struct BlockStart {
    index: usize,
    content_block: RawObject,
}

#[derive(Deserialize)]
struct BlockStop {
    #[serde(default)]
    index: Option<usize>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    index: usize,
    #[serde(borrow)]
    delta: &'a RawValue,
}

#[derive(Deserialize)]
struct MessageDelta {
    #[serde(default)]
    delta: RawObject,
    #[serde(default)]
    usage: Option<RawObject>,
    #[serde(default)]
    context_management: Option<RawObject>,
}

/// The body of an error response, also the data of an `error` event.
#[derive(Deserialize)]
pub(super) struct ErrorBody<'a> {
    #[serde(borrow)]
    error: ErrorFields<'a>,
}

#[derive(Deserialize)]
struct ErrorFields<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow, default)]
    details: Option<ErrorDetails<'a>>,
}

#[derive(Deserialize)]
struct ErrorDetails<'a> {
    #[serde(borrow, default)]
    error_code: Option<Cow<'a, str>>,
    /// The paths of blocks, for [`TOO_LARGE`].
    #[serde(borrow, default)]
    paths: Option<&'a RawValue>,
}

/// The error code for images with too many pixels.
const TOO_LARGE: &str = "image_dimensions_too_large";

impl ErrorDetails<'_> {
    fn paths(&self) -> Box<[String]> {
        let names_blocks = self.error_code.as_deref() == Some(TOO_LARGE);
        let paths = self.paths.filter(|_| names_blocks);
        paths.and_then(|paths| serde_json::from_str(paths.get()).ok()).unwrap_or_default()
    }
}

impl ErrorBody<'_> {
    /// True if the error has a type, as all errors of the Messages API have.
    pub(super) fn has_kind(&self) -> bool {
        !self.error.kind.is_empty()
    }
}

impl From<ErrorBody<'_>> for ErrorReport {
    fn from(ErrorBody { error }: ErrorBody<'_>) -> Self {
        let details = error.details.as_ref();
        let code = details.and_then(|details| details.error_code.as_deref());
        Self {
            kind: ErrorKind::parse(&error.kind, code),
            message: error.message.into_owned(),
            paths: details.map(ErrorDetails::paths).unwrap_or_default(),
        }
    }
}

/// Decodes the data of one event. The `type` member decides, because some servers send no event
/// names.
pub(super) fn decode(data: &str) -> Result<StreamEvent<'_>, ModelError> {
    if data.is_empty() || data == "[DONE]" {
        return Ok(StreamEvent::Ignored);
    }
    Ok(match read::<Tag<'_>>(data)?.kind.as_ref() {
        "message_start" => StreamEvent::MessageStart(read::<MessageStart>(data)?.message),
        "content_block_start" => {
            let BlockStart { index, content_block } = read(data)?;
            StreamEvent::BlockStart { index, block: content_block }
        }
        "content_block_delta" => {
            let Delta { index, delta } = read(data)?;
            StreamEvent::BlockDelta { index, delta: decode_delta(delta.get())? }
        }
        "content_block_stop" => {
            // Some servers omit the index, or send another type.
            let index = serde_json::from_str::<BlockStop>(data).ok().and_then(|stop| stop.index);
            StreamEvent::BlockStop { index }
        }
        "message_delta" => {
            let MessageDelta { delta, usage, context_management } = read(data)?;
            let applied_edits =
                context_management.and_then(|management| management.read("applied_edits"));
            StreamEvent::MessageDelta { delta, usage: usage.unwrap_or_default(), applied_edits }
        }
        "message_stop" => StreamEvent::MessageStop,
        "message" => StreamEvent::Message(read(data)?),
        "error" => {
            let report = ErrorReport::from(read::<ErrorBody<'_>>(data)?);
            return Err(report.error(None, ReplyHead::default()));
        }
        _ => StreamEvent::Ignored,
    })
}

fn decode_delta(data: &str) -> Result<BlockDelta<'_>, ModelError> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow, alias = "thinking", alias = "partial_json")]
        text: Cow<'a, str>,
    }
    #[derive(Deserialize)]
    struct Value {
        #[serde(alias = "citation")]
        signature: Box<RawValue>,
    }
    Ok(match read::<Tag<'_>>(data)?.kind.as_ref() {
        "text_delta" => BlockDelta::Text(read::<Fields<'_>>(data)?.text),
        "input_json_delta" => BlockDelta::InputJson(read::<Fields<'_>>(data)?.text),
        "thinking_delta" => BlockDelta::Thinking(read::<Fields<'_>>(data)?.text),
        "signature_delta" => BlockDelta::Signature(read::<Value>(data)?.signature),
        "citations_delta" => BlockDelta::Citation(read::<Value>(data)?.signature),
        "compaction_delta" => BlockDelta::Compaction(read(data)?),
        _ => BlockDelta::Unknown,
    })
}

fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(data)
        .map_err(|error| ModelError::Malformed(format!("an event is not readable: {error}")))
}
