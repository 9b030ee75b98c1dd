//! The model client of the reference service: sends a request, forwards the text and stores the reply.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::json;
use twostep::config::{DEFAULT_SYSTEM, DEFAULT_TOOLS};
use twostep::tools::{Registry, builtin};

use super::turn::{Pieces, pass_on};

#[derive(Debug)]
pub(super) struct Model {
    http: reqwest::Client,
    url: String,
    /// The JSON up to the messages.
    head: String,
}

/// The model's reply.
#[derive(Debug, Default)]
pub(super) struct Reply {
    text: String,
    call: Option<Call>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    name: String,
    input: String,
}

impl Reply {
    /// The id of the call and the path of the file to read.
    pub(super) fn call(&self) -> anyhow::Result<Option<(&str, String)>> {
        #[derive(Deserialize)]
        struct Input {
            path: String,
        }
        let Some(call) = &self.call else {
            return Ok(None);
        };
        let input: Input = serde_json::from_str(&call.input)?;
        Ok(Some((&call.id, input.path)))
    }

    /// The content blocks of the message.
    pub(super) fn content(&self) -> anyhow::Result<String> {
        let mut blocks = Vec::new();
        if !self.text.is_empty() {
            blocks.push(json!({ "type": "text", "text": self.text }));
        }
        if let Some(Call { id, name, input }) = &self.call {
            let input: serde_json::Value = serde_json::from_str(input)?;
            blocks.push(json!({ "type": "tool_use", "id": id, "name": name, "input": input }));
        }
        Ok(serde_json::to_string(&blocks)?)
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    partial_json: Option<Cow<'a, str>>,
}

impl Model {
    pub(super) fn new(base_url: &str) -> anyhow::Result<Self> {
        let names = DEFAULT_TOOLS.map(str::to_owned);
        let tools = Registry::new(builtin::all(&builtin::Options::default()))?
            .definitions(Some(&names))
            .map_err(anyhow::Error::msg)?;
        let head = json!({
            "model": "claude-load", "max_tokens": 8192, "stream": true,
            "cache_control": { "type": "ephemeral" }, "system": DEFAULT_SYSTEM, "tools": tools,
        });
        let mut head = head.to_string();
        head.truncate(head.len() - "}".len());
        head.push_str(r#","messages":["#);
        Ok(Self {
            http: reqwest::Client::builder().build()?,
            url: format!("{}/v1/messages", base_url.trim_end_matches('/')),
            head,
        })
    }

    /// Sends a request and forwards each piece of the reply to the client as SSE frames.
    pub(super) async fn ask(&self, transcript: &str, pieces: &Pieces) -> anyhow::Result<Reply> {
        let request = self
            .http
            .post(&self.url)
            .header("x-api-key", "reference")
            .header("anthropic-version", "2023-06-01")
            .header("content-type", "application/json")
            .body(format!("{}{transcript}]}}", self.head));
        let mut response = request.send().await?.error_for_status()?;
        let mut reply = Reply::default();
        let mut lines = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            lines.extend_from_slice(&chunk);
            let Some(end) = lines.iter().rposition(|byte| *byte == b'\n') else {
                continue;
            };
            let rest = lines.split_off(end + 1);
            let mut frames = String::new();
            for line in std::str::from_utf8(&lines)?.lines() {
                if let Some(data) = line.strip_prefix("data: ") {
                    reply.take(data, &mut frames)?;
                }
            }
            lines = rest;
            if !frames.is_empty() {
                pass_on(pieces, frames.into()).await;
            }
        }
        Ok(reply)
    }
}

impl Reply {
    fn take(&mut self, data: &str, frames: &mut String) -> anyhow::Result<()> {
        let event: Event<'_> = serde_json::from_str(data)?;
        if let Some(Block { id: Some(id), name: Some(name) }) = event.content_block {
            self.call =
                Some(Call { id: id.into_owned(), name: name.into_owned(), input: String::new() });
        }
        let Some(delta) = event.delta else {
            return Ok(());
        };
        if let (Some(json), Some(call)) = (&delta.partial_json, &mut self.call) {
            call.input.push_str(json);
        }
        if let Some(text) = &delta.text {
            self.text.push_str(text);
        }
        if let Some(text) = delta.text.or(delta.partial_json) {
            let text = serde_json::to_string(&text)?;
            let _ = write!(
                frames,
                "event: event_delta\ndata: {{\"type\":\"event_delta\",\"text\":{text}}}\n\n"
            );
        }
        Ok(())
    }
}
