//! Builds the body of a request by translating the stored history.
//!
//! The translation of a message does not depend on later messages, and the members that vary follow
//! the messages, so servers find the prefix that they cached for the previous request.

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::head_text::{Definition, HeadText, definitions};
use super::options::{ResponseFormat, reasoning_effort, system_text};
use super::translate::{Message, push_user_text, translate};
use crate::domain::provider::{Dialect, MaxTokensField};
use crate::domain::session::Settings;
use crate::domain::tool::ToolChoice;
use crate::model::deferred_tools::{DeferredInHead, DeferredTools};

/// The common beginning of a run's requests, up to the first message of the history.
#[derive(Debug, Clone)]
pub struct Head {
    text: HeadText,
    has_system: bool,
    takes_images: bool,
}

#[derive(Serialize)]
struct Fields<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

fn function(definition: Definition<'_>) -> Tool<'_> {
    let Definition { name, description, input_schema: parameters, strict } = definition;
    let function = Function { name, description, parameters, strict };
    Tool { r#type: "function", function }
}

impl Head {
    /// Builds the head of all requests of a run from the session's settings. The tools of the run
    /// follow those of the session. Settings that the protocol lacks are omitted.
    pub fn new(
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        dialect: Dialect,
    ) -> Result<Self, serde_json::Error> {
        let deferred = DeferredTools::of(settings)?;
        let loaded = deferred.as_ref().map_or(&settings.tools, |(_, loaded)| loaded);
        let tools = definitions(loaded, tools_of_run)?;
        let has_tools = !tools.is_empty();
        let options = &settings.model_options;
        let budget = |field| (dialect.max_tokens_field == field).then_some(settings.max_tokens);
        let fields = Fields {
            model: settings.model_ref().name,
            max_tokens: budget(MaxTokensField::MaxTokens),
            max_completion_tokens: budget(MaxTokensField::MaxCompletionTokens),
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            stop: &settings.stop_sequences,
            temperature: options.generation.temperature,
            top_p: options.generation.top_p,
            seed: options.generation.seed,
            reasoning_effort: options.effort.map(reasoning_effort),
            response_format: options.output_schema.as_deref().map(ResponseFormat::of),
            tools: tools.into_iter().map(function).collect(),
        };
        let mut opening = r#","messages":["#.to_owned();
        let has_system = !settings.system.is_empty();
        if has_system {
            let system = Message::System { content: &system_text(&settings.system)? };
            opening.push_str(&serde_json::to_string(&system)?);
        }
        let extra = options.generation.extra();
        let tools = deferred.as_ref().map(|(tools, _)| tools.clone());
        let text = HeadText::new(&fields, &extra, &opening, has_tools, tools)?;
        Ok(Self { text, has_system, takes_images: dialect.takes_images })
    }

    /// Builds the head of a request for a summary: a message that asks for it follows the history, and
    /// calls are forbidden.
    pub fn for_summary(
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        dialect: Dialect,
    ) -> Result<Self, serde_json::Error> {
        let head = Self::new(settings, tools_of_run, dialect)?;
        Ok(Self { text: head.text.for_summary(settings), ..head })
    }

    /// The number of bytes that all requests begin with.
    pub const fn bytes(&self) -> usize {
        self.text.bytes()
    }

    /// Returns true if the system prompt precedes the history.
    pub(super) const fn has_system(&self) -> bool {
        self.has_system
    }

    /// The deferred tools, if the session has any.
    pub(in crate::model) const fn deferred(&self) -> Option<&DeferredInHead> {
        self.text.deferred()
    }

    /// Returns true if images are sent.
    pub(super) const fn takes_images(&self) -> bool {
        self.takes_images
    }
}

/// Builds the body of one request. `transcript` holds the messages in the format of the Messages
/// API, separated by commas.
pub fn body(head: &Head, transcript: &str, choice: &ToolChoice) -> Bytes {
    let write = |text: &mut Vec<u8>, definition: Definition<'_>| {
        // Writing to a vector cannot fail.
        let _ = serde_json::to_writer(text, &function(definition));
    };
    let (text, transcript) = head.text.with_found(transcript, write);
    let history = format!("[{transcript}]");
    let mut messages = translate(&history, head.takes_images).unwrap_or_else(|error| {
        tracing::error!(%error, "stored history not readable");
        Vec::new()
    });
    if let Some(text) = head.text.summary() {
        push_user_text(&mut messages, text);
    }
    let named = |name: &str| json!({ "type": "function", "function": { "name": name } });
    head.text.body(&text, &messages, choice, named)
}

#[cfg(test)]
mod tests;
