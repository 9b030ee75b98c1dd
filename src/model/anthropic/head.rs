//! The common beginning of a run's requests: everything that its session pins.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::cache_breakpoint::{CacheBreakpoint, block_of};
use super::tools::tools;
use crate::domain::context::Context;
use crate::domain::generation::SHARED;
use crate::domain::model::Effort;
use crate::domain::model_options::{ModelOptions, ServiceTier};
use crate::domain::platform::Platform;
use crate::domain::prompt_cache::CacheTtl;
use crate::domain::session::Settings;
use crate::model::deferred_tools::{DeferredInHead, DeferredTools};

/// The common beginning of a session's requests, up to the opening of `messages`.
#[derive(Debug, Clone)]
pub struct Head {
    pub(super) text: Bytes,
    /// Names of the beta features, separated by commas.
    betas: Arc<str>,
    /// The same for messages that begin with a compaction summary.
    betas_compacted: Arc<str>,
    pub(super) breakpoint: Option<CacheBreakpoint>,
    /// True if the last block has a breakpoint, because the server places none.
    pub(super) marks_end: bool,
    pub(super) has_tools: bool,
    deferred: Option<DeferredInHead>,
    /// The instructions for a summary, if the request is for a summary instead of an answer.
    pub(super) summary: Option<Box<RawValue>>,
    /// The model, if the server expects it in the URL.
    model_in_url: Option<Arc<str>>,
}

/// The version of the API in the bodies of Google Cloud.
const VERTEX_VERSION: &str = "vertex-2023-10-16";

/// The beta feature of compaction, required to request a summary and to send one back.
const COMPACTION: &str = "compact-2026-09-04";

#[derive(Serialize)]
struct Fields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anthropic_version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    /// Automatic caching, which only Anthropic's own API has: the server places the breakpoint on the last
    /// cacheable block and moves it with the conversation, so no breakpoint changes a block that was sent
    /// before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheBreakpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<ServiceTier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_management: Option<ContextManagement<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "is_empty_array")]
    tools: &'a RawValue,
    /// The members that the client adds.
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
    /// The members that the client adds.
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    schema: &'a RawValue,
}

#[derive(Serialize)]
struct Metadata<'a> {
    user_id: &'a str,
}

#[derive(Serialize)]
struct ContextManagement<'a> {
    edits: &'a RawValue,
}

#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
}

impl<'a> OutputConfig<'a> {
    fn of(options: &'a ModelOptions, extra: Map<String, Value>) -> Option<Self> {
        let ModelOptions { effort, output_schema, .. } = options;
        let format =
            output_schema.as_deref().map(|schema| Format { r#type: "json_schema", schema });
        let is_set = effort.is_some() || format.is_some() || !extra.is_empty();
        is_set.then_some(Self { effort: *effort, format, extra })
    }
}

fn is_empty_array(tools: &&RawValue) -> bool {
    tools.get() == "[]"
}

impl Head {
    /// Builds the head of all requests of a run from the session's settings. The tools of the run
    /// follow those of the session.
    pub fn new(
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        prompt_cache: Option<CacheTtl>,
        platform: Option<Platform>,
    ) -> Result<Self, serde_json::Error> {
        let breakpoint = prompt_cache.map(CacheBreakpoint::new);
        let (tools, deferred) = tools(settings, tools_of_run, breakpoint)?;
        let system = system(settings, breakpoint)?;
        let options = &settings.model_options;
        let mut extra = options.generation.extra();
        let shared = match extra.shift_remove(SHARED) {
            Some(Value::Object(shared)) => shared,
            _ => Map::new(),
        };
        let counted = Fields::counted(settings, &tools, platform);
        let model_in_url = counted.anthropic_version.and(counted.model).map(Arc::from);
        let fields = Fields {
            model: counted.model.filter(|_| model_in_url.is_none()),
            max_tokens: Some(settings.max_tokens),
            stream: Some(true),
            cache_control: breakpoint.filter(|_| platform.is_none()),
            stop_sequences: &settings.stop_sequences,
            temperature: options.generation.temperature,
            top_p: options.generation.top_p,
            top_k: options.generation.top_k,
            output_config: OutputConfig::of(options, shared),
            extra,
            metadata: options.user_id.as_deref().map(|user_id| Metadata { user_id }),
            service_tier: options.service_tier,
            context_management: settings
                .context
                .edits
                .as_deref()
                .map(|edits| ContextManagement { edits }),
            system: system.as_deref(),
            ..counted
        };
        let marks_end = breakpoint.is_some() && platform.is_some();
        let head = Self::of(fields, settings, deferred)?;
        Ok(Self { breakpoint, marks_end, model_in_url, ..head })
    }

    /// Builds the head of a request for a summary, with the session's instructions for it.
    pub fn for_summary(
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        prompt_cache: Option<CacheTtl>,
        platform: Option<Platform>,
    ) -> Result<Self, serde_json::Error> {
        let instructions = settings.context.compact_instructions.as_deref();
        let summary = to_raw_value(&Summary { r#type: "summarize", instructions })?;
        let head = Self::new(settings, tools_of_run, prompt_cache, platform)?;
        let betas = Arc::clone(&head.betas_compacted);
        Ok(Self { summary: Some(summary), betas, ..head })
    }

    /// Builds the head of a token count request, which counts the prompt before any context edit.
    pub fn for_count(
        settings: &Settings,
        tools_of_run: Option<&RawValue>,
        platform: Option<Platform>,
    ) -> Result<Self, serde_json::Error> {
        let (tools, deferred) = tools(settings, tools_of_run, None)?;
        Self::of(Fields::counted(settings, &tools, platform), settings, deferred)
    }

    fn of(
        fields: Fields<'_>,
        settings: &Settings,
        deferred: Option<DeferredTools>,
    ) -> Result<Self, serde_json::Error> {
        let mut text = serde_json::to_string(&fields)?;
        text.truncate(text.len() - "}".len());
        let has_tools = !is_empty_array(&fields.tools);
        let deferred = match deferred {
            Some(tools) => {
                // The members of the client follow the tools.
                let up_to_tools = serde_json::to_string(&Fields { extra: Map::new(), ..fields })?;
                Some(DeferredInHead::new(tools, &up_to_tools))
            }
            None => None,
        };
        text.push_str(r#","messages":["#);
        let mut betas: Vec<&str> =
            settings.model_options.betas.iter().map(String::as_str).collect();
        betas.extend(edit_betas(&settings.context)?);
        let mut known = HashSet::new();
        betas.retain(|name| known.insert(*name));
        let joined = betas.join(",").into();
        if !betas.contains(&COMPACTION) {
            betas.push(COMPACTION);
        }
        let betas_compacted = betas.join(",").into();
        Ok(Self {
            text: text.into(),
            betas: joined,
            betas_compacted,
            breakpoint: None,
            marks_end: false,
            has_tools,
            deferred,
            summary: None,
            model_in_url: None,
        })
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The number of bytes before the messages, unless the last of these gets a breakpoint.
    pub fn messages_start(&self) -> Option<usize> {
        (!self.marks_end).then_some(self.text.len())
    }

    /// The model, if the server expects it in the URL instead of the body.
    pub fn model_in_url(&self) -> Option<Arc<str>> {
        self.model_in_url.clone()
    }

    /// The deferred tools, if the session has any.
    pub(in crate::model) const fn deferred(&self) -> Option<&DeferredInHead> {
        self.deferred.as_ref()
    }

    /// The head and the messages of a request with these messages, as they are sent.
    pub(super) fn with_found<'m>(&self, messages: &'m str) -> (Cow<'_, [u8]>, Cow<'m, str>) {
        let Some(deferred) = &self.deferred else {
            return (Cow::Borrowed(&self.text), messages.into());
        };
        let write = |text: &mut Vec<u8>, json: &RawValue| text.extend(json.get().bytes());
        let (head, messages) = deferred.with_found(&self.text, messages, write);
        (Cow::Owned(head), messages)
    }

    /// Names of the beta features that requests use, separated by commas; `is_compacted` is true
    /// if their messages begin with a compaction summary.
    pub fn betas(&self, is_compacted: bool) -> Arc<str> {
        Arc::clone(if is_compacted { &self.betas_compacted } else { &self.betas })
    }
}

impl<'a> Fields<'a> {
    /// The fields that belong to the prompt.
    fn counted(settings: &'a Settings, tools: &'a RawValue, platform: Option<Platform>) -> Self {
        let system = &settings.system;
        Self {
            model: Some(settings.model_ref().name),
            anthropic_version: (platform == Some(Platform::Vertex)).then_some(VERTEX_VERSION),
            max_tokens: None,
            stream: None,
            cache_control: None,
            thinking: settings.thinking.as_deref(),
            stop_sequences: &[],
            temperature: None,
            top_p: None,
            top_k: None,
            extra: Map::new(),
            output_config: OutputConfig::of(&settings.model_options, Map::new()),
            metadata: None,
            service_tier: None,
            context_management: None,
            system: (!system.is_empty()).then(|| system.json()),
            tools,
        }
    }
}

/// The beta features that the session's context edits need.
fn edit_betas(context: &Context) -> Result<Vec<&'static str>, serde_json::Error> {
    let Some(edits) = &context.edits else { return Ok(Vec::new()) };
    let edits: Vec<Typed<'_>> = serde_json::from_str(edits.get())?;
    let compacts = |edit: &Typed<'_>| edit.r#type.starts_with("compact_");
    let clears =
        edits.iter().any(|edit| !compacts(edit)).then_some("context-management-2025-06-27");
    let compacts = edits.iter().any(compacts).then_some("compact-2026-01-12");
    Ok([clears, compacts].into_iter().flatten().collect())
}

#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
}

/// The system prompt, if there is one. A cache breakpoint needs the form of a block list; a string
/// is shorthand for one block.
fn system(
    settings: &Settings,
    breakpoint: Option<CacheBreakpoint>,
) -> Result<Option<Box<RawValue>>, serde_json::Error> {
    let system = &settings.system;
    let Some(breakpoint) = breakpoint.filter(|_| !system.is_empty()) else {
        return Ok((!system.is_empty()).then(|| system.json().to_owned()));
    };
    let blocks = if system.is_text() { block_of(system.json())? } else { system.json().to_owned() };
    breakpoint.at_the_end(&blocks).map(Some)
}
