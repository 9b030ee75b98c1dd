//! Builds the body of a request by translating the stored history.
//!
//! The members that vary follow the input, so servers find the prefix that they cached for the previous
//! request.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::super::head_text::{Definition, HeadText, definitions};
use super::super::options::{reasoning_effort, system_text};
use super::super::parts::Part;
use super::item::Item;
use super::translate::translate;
use crate::domain::session::Settings;
use crate::domain::tool::ToolChoice;
use crate::model::deferred_tools::{DeferredInHead, DeferredTools};

/// The common beginning of a run's requests, up to the first item of the history.
#[derive(Debug, Clone)]
pub struct Head(HeadText);

#[derive(Serialize)]
struct Fields<'a> {
    model: &'a str,
    max_output_tokens: u32,
    stream: bool,
    /// The service keeps the history.
    store: bool,
    /// Reasoning can be sent back only in its encrypted form, because nothing is stored.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    /// The members that the client adds.
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
    /// The members that the client adds.
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    name: &'static str,
    strict: bool,
    schema: &'a RawValue,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a RawValue>,
    /// Without the member the server would treat every tool as strict.
    strict: bool,
}

fn function(definition: Definition<'_>) -> Tool<'_> {
    let Definition { name, description, input_schema: parameters, strict } = definition;
    Tool { r#type: "function", name, description, parameters, strict }
}

/// Removes the object of this name, to which the service adds members.
fn take(extra: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match extra.shift_remove(name) {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

impl Head {
    /// Builds the head of all requests of a run from the session's settings. The tools of the run
    /// follow those of the session. Settings that the protocol lacks are omitted.
    pub fn new(
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
    ) -> Result<Self, serde_json::Error> {
        let deferred = DeferredTools::of(settings)?;
        let loaded = deferred.as_ref().map_or(&settings.tools, |(_, loaded)| loaded);
        let tools = definitions(loaded, tools_of_run)?;
        let has_tools = !tools.is_empty();
        let options = &settings.model_options;
        let format =
            |schema| Format { r#type: "json_schema", name: "output", strict: true, schema };
        let format = options.output_schema.as_deref().map(format);
        let effort = options.effort.map(reasoning_effort);
        let mut extra = options.generation.extra();
        let [of_reasoning, of_text] = ["reasoning", "text"].map(|name| take(&mut extra, name));
        let system = &settings.system;
        let instructions = (!system.is_empty()).then(|| system_text(system)).transpose()?;
        let fields = Fields {
            model: settings.model_ref().name,
            max_output_tokens: settings.max_tokens,
            stream: true,
            store: false,
            include: if settings.disables_thinking() {
                &[]
            } else {
                &["reasoning.encrypted_content"]
            },
            instructions,
            temperature: options.generation.temperature,
            top_p: options.generation.top_p,
            reasoning: (effort.is_some() || !of_reasoning.is_empty())
                .then_some(Reasoning { effort, extra: of_reasoning }),
            text: (format.is_some() || !of_text.is_empty())
                .then_some(Text { format, extra: of_text }),
            tools: tools.into_iter().map(function).collect(),
        };
        let tools = deferred.as_ref().map(|(tools, _)| tools.clone());
        HeadText::new(&fields, &extra, r#","input":["#, has_tools, tools).map(Self)
    }

    /// Builds the head of a request for a summary: a message that asks for it follows the history, and
    /// calls are forbidden.
    pub fn for_summary(
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
    ) -> Result<Self, serde_json::Error> {
        let Self(text) = Self::new(settings, tools_of_run)?;
        Ok(Self(text.for_summary(settings)))
    }

    /// The number of bytes that all requests begin with.
    pub const fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// The deferred tools, if the session has any.
    pub(in crate::model) const fn deferred(&self) -> Option<&DeferredInHead> {
        self.0.deferred()
    }
}

/// Builds the body of one request. `transcript` holds the messages in the format of the Messages
/// API, separated by commas.
pub fn body(head: &Head, transcript: &str, choice: &ToolChoice) -> Bytes {
    let write = |text: &mut Vec<u8>, definition: Definition<'_>| {
        // Writing to a vector cannot fail.
        let _ = serde_json::to_writer(text, &function(definition));
    };
    let (text, transcript) = head.0.with_found(transcript, write);
    let mut items = translate(&format!("[{transcript}]")).unwrap_or_else(|error| {
        tracing::error!(%error, "stored history not readable");
        Vec::new()
    });
    if let Some(text) = head.0.summary() {
        items.push(Item::User(vec![Part::Text(text.to_owned())]));
    }
    let named = |name: &str| json!({ "type": "function", "name": name });
    head.0.body(&text, &items, choice, named)
}

#[cfg(test)]
mod tests;
