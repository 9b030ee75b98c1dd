//! One scripted reply: its content, its delivery and its failures.

use std::collections::BTreeMap;
use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};

use axum::http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Block, ScriptError};

/// One reply of a conversation. All fields are optional.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    /// The content blocks, in order.
    pub content: Vec<Block>,
    /// The model name in the reply; absent means the requested one.
    pub model: Option<String>,
    /// Absent: `tool_use` with a tool call in `content`, else `stop_sequence` or `end_turn`.
    pub stop_reason: Option<String>,
    /// The stop sequence that ended the reply.
    pub stop_sequence: Option<String>,
    /// Details of a refusal.
    pub stop_details: Option<Value>,
    /// Members of `usage` that override the estimate.
    pub usage: Map<String, Value>,
    /// The text that replaces the tool calls when the request forbids tools.
    pub when_forbidden: Option<String>,
    /// The number of rounds that this reply serves; absent means one.
    pub repeat: Option<NonZeroU32>,
    /// Milliseconds before the headers of the response.
    pub delay_ms: u64,
    /// Milliseconds between the events of a stream.
    pub pace_ms: u64,
    /// The number of events before the first pause of `pace_ms`; absent means one.
    pub pace_after: Option<NonZeroUsize>,
    /// Characters in one delta; absent means 12.
    pub chunk: Option<NonZeroUsize>,
    /// Bytes in one write; absent means as many as possible.
    pub split: Option<NonZeroUsize>,
    /// Responds with this HTTP status and `error` instead of content.
    pub status: Option<u16>,
    /// The body for `status` instead of an error, as a proxy would send it.
    pub body: Option<String>,
    /// The error for `status` and `error_after`.
    pub error: Option<Failure>,
    /// The report on the container, if the reply runs code.
    pub container: ContainerReport,
    /// Additional response headers.
    pub headers: BTreeMap<String, String>,
    /// Sends this many events, then an `error` event.
    pub error_after: Option<usize>,
    /// Sends this much, then aborts the connection.
    pub cut_after: Option<Cut>,
    /// Ends the response regularly at `cut_after` instead of aborting the connection.
    pub cut_clean: bool,
    /// Sends this many events, then leaves the stream open without data.
    pub hang_after: Option<usize>,
    /// Milliseconds between the pings of a stream that `hang_after` leaves open; 0 for no pings.
    pub ping_ms: u64,
    /// The body of the stream, sent unchanged instead of `content`.
    pub raw_sse: Option<String>,
    /// A file with the text of `raw_sse`, relative to the script's file.
    pub raw_sse_file: Option<PathBuf>,
    /// The replies to the first identical requests, before this reply.
    pub fail_first: Vec<Reply>,
}

/// The report of a reply that runs code on its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerReport {
    /// The reply names the container.
    #[default]
    Reported,
    /// The reply does not name the container, as some streams of the API.
    Hidden,
    /// The reply names the container, which is lost at once.
    Lost,
}

/// The part of a response that is sent before a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Cut {
    /// A number of events.
    Events(usize),
    /// A number of bytes of the body.
    Bytes {
        /// The number of bytes.
        bytes: usize,
    },
}

/// The `error` object of an error response or an `error` event.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The type, such as `overloaded_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The message for people.
    pub message: String,
    /// Additional members, such as `error_code`.
    #[serde(default)]
    pub details: Option<Value>,
}

impl Reply {
    /// A reply with these blocks and defaults for the rest.
    pub(crate) fn of(content: Vec<Block>) -> Self {
        Self { content, ..Self::default() }
    }

    /// The number of rounds that this reply serves.
    pub(crate) fn rounds(&self) -> usize {
        self.repeat.map_or(1, |repeat| usize::try_from(repeat.get()).unwrap_or(usize::MAX))
    }

    /// The summary block, if the content has one.
    pub(crate) fn summary(&self) -> Option<&Map<String, Value>> {
        self.content.iter().find_map(|block| match block {
            Block::Raw(block) => Some(block)
                .filter(|block| block.get("type").is_some_and(|kind| kind == "compaction")),
            Block::Text { .. } | Block::Thinking { .. } | Block::Call { .. } => None,
        })
    }

    /// True if the content is a summary only.
    pub(crate) fn may_be_a_summary(&self) -> bool {
        self.raw_sse.is_some() || (self.content.len() == 1 && self.summary().is_some())
    }

    /// Validates a reply to a request for a summary.
    pub(super) fn settle_summary(&self, at: &str) -> Result<(), ScriptError> {
        for (nth, failure) in self.fail_first.iter().enumerate() {
            failure.settle_summary(&format!("{at}.fail_first[{nth}]"))?;
        }
        let text = self.summary().and_then(|block| block.get("content"));
        let problem = if self.content.len() > usize::from(self.summary().is_some()) {
            "must be at most one `compaction` block and nothing else"
        } else if text.is_some_and(|text| !text.is_string()) {
            "the `content` of a `compaction` block must be a string"
        } else {
            return Ok(());
        };
        Err(ScriptError::field(format!("{at}.content"), problem))
    }

    /// Loads `raw_sse_file` and validates the reply.
    pub(super) fn settle(&mut self, at: &str, folder: Option<&Path>) -> Result<(), ScriptError> {
        if let Some(status) = self.status
            && !(300..=599).contains(&status)
        {
            return Err(ScriptError::field(format!("{at}.status"), "must be from 300 to 599"));
        }
        for (name, value) in &self.headers {
            if name.parse::<HeaderName>().is_err() || value.parse::<HeaderValue>().is_err() {
                return Err(ScriptError::field(
                    format!("{at}.headers"),
                    format!("invalid header `{name}`"),
                ));
            }
        }
        self.load_raw_sse(at, folder)?;
        for (nth, failure) in self.fail_first.iter_mut().enumerate() {
            let at = format!("{at}.fail_first[{nth}]");
            if !failure.fail_first.is_empty() {
                return Err(ScriptError::field(
                    at,
                    "a reply in `fail_first` cannot have `fail_first`",
                ));
            }
            failure.settle(&at, folder)?;
        }
        Ok(())
    }

    fn load_raw_sse(&mut self, at: &str, folder: Option<&Path>) -> Result<(), ScriptError> {
        let Some(file) = self.raw_sse_file.take() else {
            return Ok(());
        };
        let at = format!("{at}.raw_sse_file");
        if self.raw_sse.is_some() {
            return Err(ScriptError::field(at, "give `raw_sse` or `raw_sse_file`, not both"));
        }
        let Some(folder) = folder else {
            return Err(ScriptError::field(at, "is allowed only in a script file"));
        };
        let path = folder.join(file);
        let text = fs::read_to_string(&path).map_err(|source| ScriptError::file(&path, source))?;
        self.raw_sse = Some(text);
        Ok(())
    }
}
