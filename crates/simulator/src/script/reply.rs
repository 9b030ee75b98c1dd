//! One scripted reply: what it says, how it is paced and how it goes wrong.

use std::collections::BTreeMap;
use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};

use axum::http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Block, ScriptError};

/// One reply of a conversation. Every field may be left out.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    /// The content blocks, in order.
    pub content: Vec<Block>,
    /// The model that the reply names; absent means the one that was asked for.
    pub model: Option<String>,
    /// Absent: `tool_use` with a tool call in `content`, else `stop_sequence` or `end_turn`.
    pub stop_reason: Option<String>,
    /// The stop sequence that was met.
    pub stop_sequence: Option<String>,
    /// Details of a refusal.
    pub stop_details: Option<Value>,
    /// Fields of `usage` that differ from the estimate.
    pub usage: Map<String, Value>,
    /// Said instead of the tool calls when the request forbids them.
    pub when_forbidden: Option<String>,
    /// For how many rounds this reply is used; absent means one.
    pub repeat: Option<NonZeroU32>,
    /// Milliseconds before the response's headers.
    pub delay_ms: u64,
    /// Milliseconds between the events of a stream.
    pub pace_ms: u64,
    /// Characters in one delta; absent means 12.
    pub chunk: Option<NonZeroUsize>,
    /// Bytes in one write; absent means as much as possible.
    pub split: Option<NonZeroUsize>,
    /// Answer with this HTTP status and `error` instead of content.
    pub status: Option<u16>,
    /// The body of `status` in place of an error, as a proxy on the way would send it.
    pub body: Option<String>,
    /// The error of `status` and of `error_after`.
    pub error: Option<Failure>,
    /// Extra response headers.
    pub headers: BTreeMap<String, String>,
    /// Send this many events, then an `error` event.
    pub error_after: Option<usize>,
    /// Send this much, then drop the connection.
    pub cut_after: Option<Cut>,
    /// End the response in order at `cut_after` instead of dropping the connection.
    pub cut_clean: bool,
    /// Send this many events, then nothing more.
    pub hang_after: Option<usize>,
    /// The body of the stream, sent as it is in place of `content`.
    pub raw_sse: Option<String>,
    /// A file with the text of `raw_sse`, relative to the script's file.
    pub raw_sse_file: Option<PathBuf>,
    /// What the first attempts of the very same request get instead of this reply.
    pub fail_first: Vec<Reply>,
}

/// How much of a response is sent before it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Cut {
    /// A number of events.
    Events(usize),
    /// A number of bytes of the body.
    Bytes {
        /// How many.
        bytes: usize,
    },
}

/// The `error` object of an error response or an `error` event.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Such as `overloaded_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// For people.
    pub message: String,
    /// May hold `error_code`.
    #[serde(default)]
    pub details: Option<Value>,
}

impl Reply {
    /// A reply of these blocks and nothing special.
    pub(crate) fn of(content: Vec<Block>) -> Self {
        Self { content, ..Self::default() }
    }

    /// For how many rounds this reply is used.
    pub(crate) fn rounds(&self) -> usize {
        self.repeat.map_or(1, |repeat| usize::try_from(repeat.get()).unwrap_or(usize::MAX))
    }

    /// The block of a summary.
    pub(crate) fn summary(&self) -> Option<&Map<String, Value>> {
        self.content.iter().find_map(|block| match block {
            Block::Raw(block) => Some(block)
                .filter(|block| block.get("type").is_some_and(|kind| kind == "compaction")),
            Block::Text { .. } | Block::Thinking { .. } | Block::Call { .. } => None,
        })
    }

    /// Whether it may be a summary and nothing else.
    pub(crate) fn may_be_a_summary(&self) -> bool {
        self.raw_sse.is_some() || (self.content.len() == 1 && self.summary().is_some())
    }

    /// Refuses what is no reply to a request for a summary.
    pub(super) fn settle_summary(&self, at: &str) -> Result<(), ScriptError> {
        for (nth, failure) in self.fail_first.iter().enumerate() {
            failure.settle_summary(&format!("{at}.fail_first[{nth}]"))?;
        }
        let text = self.summary().and_then(|block| block.get("content"));
        let problem = if self.content.len() > usize::from(self.summary().is_some()) {
            "may hold one `compaction` block and nothing else"
        } else if text.is_some_and(|text| !text.is_string()) {
            "the `content` of a `compaction` block must be a string"
        } else {
            return Ok(());
        };
        Err(ScriptError::field(format!("{at}.content"), problem))
    }

    /// Loads `raw_sse_file` and refuses what can be read but not played.
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
                    format!("bad header `{name}`"),
                ));
            }
        }
        self.load_raw_sse(at, folder)?;
        for (nth, failure) in self.fail_first.iter_mut().enumerate() {
            let at = format!("{at}.fail_first[{nth}]");
            if !failure.fail_first.is_empty() {
                return Err(ScriptError::field(at, "a failure cannot have `fail_first` itself"));
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
            return Err(ScriptError::field(at, "works only in a script that is a file"));
        };
        let path = folder.join(file);
        let text = fs::read_to_string(&path).map_err(|source| ScriptError::file(&path, source))?;
        self.raw_sse = Some(text);
        Ok(())
    }
}
