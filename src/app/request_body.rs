//! Regenerates the bodies of recorded requests to the model.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::domain::request::RequestForm;
use crate::domain::sampling::{Prompt, SamplingRequest};
use crate::domain::session::Settings;
use crate::domain::title::TitleRequest;
use crate::domain::tool::ToolChoice;
use crate::model::openai::responses;
use crate::model::{Head, Messages, anthropic, openai};
use crate::store::requests::RequestSources;
use crate::worker::{sent_before, sent_messages};

/// Regenerates the body of a request from its sources.
pub(super) fn assemble(
    sources: &RequestSources,
    form: &RequestForm,
) -> Result<Bytes, serde_json::Error> {
    let RequestSources { settings, options, lines, view } = sources;
    let settings = &settings_of(settings, form);
    let fallback = form.fallback.and_then(|index| settings.fallback_models.get(index));
    let of_fallback = fallback.map(|fallback| settings.with_fallback(fallback));
    let settings = of_fallback.as_ref().unwrap_or(settings);
    let question = form.question.as_ref().map(SamplingRequest::prompt);
    if let Some(prompt) = question.or(form.title.as_ref().map(TitleRequest::prompt)) {
        return put(prompt, settings, form);
    }
    let max_tokens = form.max_tokens.unwrap_or(settings.max_tokens);
    let mut settings = Settings { max_tokens, ..settings.clone() };
    settings.apply(options);
    if form.summary {
        settings = Settings { max_tokens, ..settings.for_summary() };
    }
    let head = head_of(&settings, options.tools.as_deref(), form)?;
    let mut view = view.clone();
    view.changes.truncate(form.sent_changes);
    let text = if form.summary { sent_before(lines, view) } else { sent_messages(lines, view) };
    let is_compacted = form.compacted.is_some();
    let (far_breakpoint, container) = (form.far_breakpoint, form.container.as_deref());
    let messages = Messages { text: &text, far_breakpoint, is_compacted, container };
    Ok(head.request(messages, &form.tool_choice).body)
}

/// Regenerates the head in the protocol of the request.
fn head_of(
    settings: &Settings,
    tools: Option<&RawValue>,
    form: &RequestForm,
) -> Result<Head, serde_json::Error> {
    if form.responses {
        let new = if form.summary { responses::Head::for_summary } else { responses::Head::new };
        return new(settings, tools).map(Head::Responses);
    }
    if let Some(dialect) = form.chat_completions {
        let new = if form.summary { openai::Head::for_summary } else { openai::Head::new };
        return new(settings, tools, dialect).map(Head::OpenAi);
    }
    let new = if form.summary { anthropic::Head::for_summary } else { anthropic::Head::new };
    new(settings, tools, form.prompt_cache, form.platform).map(Head::Anthropic)
}

/// The settings of the session when the request was sent.
fn settings_of(pinned: &Settings, form: &RequestForm) -> Settings {
    let mut settings = pinned.clone();
    if let Some(model_settings) = &form.model_settings {
        settings.set_model(model_settings);
    }
    settings
}

/// Regenerates the body of a request outside the conversation.
fn put(
    prompt: Prompt<'_>,
    settings: &Settings,
    form: &RequestForm,
) -> Result<Bytes, serde_json::Error> {
    let settings = settings.for_prompt(prompt);
    let head = head_of(&settings, None, form)?;
    let text = prompt.messages();
    let messages =
        Messages { text: &text, far_breakpoint: None, is_compacted: false, container: None };
    Ok(head.request(messages, &ToolChoice::AUTO).body)
}
