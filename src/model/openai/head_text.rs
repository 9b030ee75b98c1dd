//! The common beginning of a run's requests, and the members that follow the history. Chat Completions and
//! Responses differ in the form of their members only.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::summary::request_text;
use crate::domain::session::Settings;
use crate::domain::tool::ToolChoice;
use crate::model::deferred_tools::{DeferredInHead, DeferredTools};

/// The serialized beginning, up to the first item of the history.
#[derive(Debug, Clone)]
pub(super) struct HeadText {
    text: Bytes,
    has_tools: bool,
    /// The text that asks for a summary instead of an answer.
    summary: Option<Arc<str>>,
    /// Neither protocol has references to deferred tools.
    deferred: Option<DeferredInHead>,
}

/// A definition in the form of the Messages API.
#[derive(Deserialize)]
pub(super) struct Definition<'a> {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(borrow, default)]
    pub(super) input_schema: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) strict: bool,
}

/// The definitions of tools that the service or its client executes. The protocols cannot express
/// those of another provider's servers.
pub(super) fn definitions<'a>(
    loaded: &'a RawValue,
    tools_of_run: Option<&'a RawValue>,
) -> Result<Vec<Definition<'a>>, serde_json::Error> {
    let mut all: Vec<Definition<'a>> = serde_json::from_str(loaded.get())?;
    if let Some(more) = tools_of_run {
        all.extend(serde_json::from_str::<Vec<Definition<'a>>>(more.get())?);
    }
    all.retain(|tool| tool.input_schema.is_some());
    Ok(all)
}

impl HeadText {
    /// Serializes `fields`, whose last member are the tools, and the members that the client adds.
    /// `opening` begins the history.
    pub(super) fn new(
        fields: &impl Serialize,
        extra: &Map<String, Value>,
        opening: &str,
        has_tools: bool,
        deferred: Option<DeferredTools>,
    ) -> Result<Self, serde_json::Error> {
        let mut text = serde_json::to_string(fields)?;
        let deferred = deferred.map(|tools| DeferredInHead::new(tools.without_references(), &text));
        text.truncate(text.len() - "}".len());
        for (name, value) in extra {
            // Writing to a string cannot fail.
            let _ = write!(text, ",{}:{value}", json!(name));
        }
        text.push_str(opening);
        Ok(Self { text: text.into(), has_tools, summary: None, deferred })
    }

    /// The same for a request for a summary: a text of the user that asks for it follows the history, and
    /// calls are forbidden.
    pub(super) fn for_summary(self, settings: &Settings) -> Self {
        let instructions = settings.context.compact_instructions.as_deref();
        Self { summary: Some(request_text(instructions).into()), ..self }
    }

    /// The number of bytes that all requests begin with.
    pub(super) const fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The text that asks for a summary instead of an answer.
    pub(super) fn summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }

    /// The deferred tools, if the session has any.
    pub(super) const fn deferred(&self) -> Option<&DeferredInHead> {
        self.deferred.as_ref()
    }

    /// The head and the history of a request with these messages, before their translation. `write`
    /// appends a definition in the form of the protocol.
    pub(super) fn with_found<'m>(
        &self,
        messages: &'m str,
        write: impl Fn(&mut Vec<u8>, Definition<'_>),
    ) -> (Cow<'_, [u8]>, Cow<'m, str>) {
        let Some(deferred) = &self.deferred else {
            return (Cow::Borrowed(&self.text), messages.into());
        };
        let write = |text: &mut Vec<u8>, json: &RawValue| {
            // A pinned definition can be read.
            if let Ok(definition) = serde_json::from_str(json.get()) {
                write(text, definition);
            }
        };
        let (head, messages) = deferred.with_found(&self.text, messages, write);
        (Cow::Owned(head), messages)
    }

    /// Builds a body from the head with its found tools and the items of the history. `named` is the
    /// choice of the tool with this name in the form of the protocol.
    pub(super) fn body(
        &self,
        head: &[u8],
        items: &[impl Serialize],
        choice: &ToolChoice,
        named: impl Fn(&str) -> Value,
    ) -> Bytes {
        let mut body = head.to_vec();
        for item in items {
            if !body.ends_with(b"[") {
                body.push(b',');
            }
            // Serializing a string cannot fail, nor can writing to a vector.
            let _ = serde_json::to_writer(&mut body, item);
        }
        body.push(b']');
        // The protocols allow these members only together with tools.
        if self.has_tools {
            let choice = if self.summary.is_some() { &ToolChoice::None } else { choice };
            append_choice(&mut body, choice, named);
        }
        body.push(b'}');
        body.into()
    }
}

fn append_choice(body: &mut Vec<u8>, choice: &ToolChoice, named: impl Fn(&str) -> Value) {
    let value = match choice {
        ToolChoice::Auto { .. } => None,
        ToolChoice::Any { .. } => Some(json!("required")),
        ToolChoice::None => Some(json!("none")),
        ToolChoice::Tool { name, .. } => Some(named(name)),
    };
    if let Some(value) = value {
        body.extend_from_slice(format!(r#","tool_choice":{value}"#).as_bytes());
    }
    if choice.forbids_parallel() {
        body.extend_from_slice(br#","parallel_tool_calls":false"#);
    }
}
