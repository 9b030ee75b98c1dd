//! Builds the body of a request by translating the stored history.
//!
//! The translation of a message does not depend on later messages, and the members that vary follow
//! the messages, so servers find the prefix that they cached for the previous request.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::options::{ResponseFormat, reasoning_effort, system_text};
use super::summary::request_text;
use super::translate::{Message, push_user_text, translate};
use crate::domain::provider::{Dialect, MaxTokensField};
use crate::domain::session::Settings;
use crate::domain::tool::ToolChoice;
use crate::model::deferred_tools::{DeferredInHead, DeferredTools};

/// The common beginning of a run's requests, up to the first message of the history.
#[derive(Debug, Clone)]
pub struct Head {
    text: Bytes,
    has_tools: bool,
    has_system: bool,
    takes_images: bool,
    /// The text that asks for a summary instead of an answer.
    summary: Option<Arc<str>>,
    /// The protocol has no references to deferred tools.
    deferred: Option<DeferredInHead>,
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
    /// The members that the client adds.
    #[serde(flatten)]
    extra: Map<String, Value>,
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

/// A definition in the form of the Messages API.
#[derive(Deserialize)]
struct Definition<'a> {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(borrow, default)]
    input_schema: Option<&'a RawValue>,
    #[serde(default)]
    strict: bool,
}

/// The definitions of tools that the service or its client executes. The protocol cannot express
/// tools that the provider executes.
fn tools(definitions: &RawValue) -> Result<Vec<Tool<'_>>, serde_json::Error> {
    let all: Vec<Definition<'_>> = serde_json::from_str(definitions.get())?;
    Ok(all.into_iter().filter(|tool| tool.input_schema.is_some()).map(function).collect())
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
        let mut tools = tools(loaded)?;
        if let Some(more) = tools_of_run {
            tools.extend(self::tools(more)?);
        }
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
            tools,
            extra: options.generation.extra(),
        };
        let mut text = serde_json::to_string(&fields)?;
        text.truncate(text.len() - "}".len());
        let deferred = match &deferred {
            Some((tools, _)) => {
                // The members of the client follow the tools.
                let up_to_tools = serde_json::to_string(&Fields { extra: Map::new(), ..fields })?;
                Some(DeferredInHead::new(tools.clone().without_references(), &up_to_tools))
            }
            None => None,
        };
        text.push_str(r#","messages":["#);
        let has_system = !settings.system.is_empty();
        if has_system {
            let system = Message::System { content: &system_text(&settings.system)? };
            text.push_str(&serde_json::to_string(&system)?);
        }
        let takes_images = dialect.takes_images;
        let summary = None;
        Ok(Self { text: text.into(), has_tools, has_system, takes_images, summary, deferred })
    }

    /// Builds the head of a request for a summary: a message that asks for it follows the history, and
    /// calls are forbidden.
    pub fn for_summary(
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        dialect: Dialect,
    ) -> Result<Self, serde_json::Error> {
        let instructions = settings.context.compact_instructions.as_deref();
        let head = Self::new(settings, tools_of_run, dialect)?;
        Ok(Self { summary: Some(request_text(instructions).into()), ..head })
    }

    /// The number of bytes that all requests begin with.
    pub const fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns true if the system prompt precedes the history.
    pub(super) const fn has_system(&self) -> bool {
        self.has_system
    }

    /// The deferred tools, if the session has any.
    pub(in crate::model) const fn deferred(&self) -> Option<&DeferredInHead> {
        self.deferred.as_ref()
    }

    /// The head and the messages of a request with these messages, before their translation.
    fn with_found<'m>(&self, messages: &'m str) -> (Cow<'_, [u8]>, Cow<'m, str>) {
        let Some(deferred) = &self.deferred else {
            return (Cow::Borrowed(&self.text), messages.into());
        };
        let write = |text: &mut Vec<u8>, json: &RawValue| {
            // A pinned definition can be read, and writing to a vector cannot fail.
            if let Ok(definition) = serde_json::from_str(json.get()) {
                let _ = serde_json::to_writer(text, &function(definition));
            }
        };
        let (head, messages) = deferred.with_found(&self.text, messages, write);
        (Cow::Owned(head), messages)
    }

    /// Returns true if images are sent.
    pub(super) const fn takes_images(&self) -> bool {
        self.takes_images
    }
}

/// Builds the body of one request. `transcript` holds the messages in the format of the Messages
/// API, separated by commas.
pub fn body(head: &Head, transcript: &str, choice: &ToolChoice) -> Bytes {
    let (head_text, transcript) = head.with_found(transcript);
    let history = format!("[{transcript}]");
    let mut messages = translate(&history, head.takes_images).unwrap_or_else(|error| {
        tracing::error!(%error, "stored history not readable");
        Vec::new()
    });
    if let Some(text) = &head.summary {
        push_user_text(&mut messages, text);
    }
    let mut body = Vec::with_capacity(head_text.len() + transcript.len() + 64);
    body.extend_from_slice(&head_text);
    for (at, message) in messages.iter().enumerate() {
        if at > 0 || head.has_system {
            body.push(b',');
        }
        // Serializing a string cannot fail, nor can writing to a vector.
        let _ = serde_json::to_writer(&mut body, message);
    }
    body.push(b']');
    // The protocol allows these members only together with tools.
    if head.has_tools {
        let choice = if head.summary.is_some() { &ToolChoice::None } else { choice };
        append_choice(&mut body, choice);
    }
    body.push(b'}');
    body.into()
}

fn append_choice(body: &mut Vec<u8>, choice: &ToolChoice) {
    let value = match choice {
        ToolChoice::Auto { .. } => None,
        ToolChoice::Any { .. } => Some(json!("required")),
        ToolChoice::None => Some(json!("none")),
        ToolChoice::Tool { name, .. } => {
            Some(json!({ "type": "function", "function": { "name": name } }))
        }
    };
    if let Some(value) = value {
        body.extend_from_slice(format!(r#","tool_choice":{value}"#).as_bytes());
    }
    if choice.forbids_parallel() {
        body.extend_from_slice(br#","parallel_tool_calls":false"#);
    }
}

#[cfg(test)]
mod tests;
