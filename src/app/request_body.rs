//! Regenerates the bodies of recorded requests to the model.

use bytes::Bytes;

use crate::domain::request::RequestForm;
use crate::domain::sampling::{Prompt, SamplingRequest};
use crate::domain::session::Settings;
use crate::domain::title::TitleRequest;
use crate::domain::tool::ToolChoice;
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
    let (tools, cache, platform) = (options.tools.as_deref(), form.prompt_cache, form.platform);
    if form.summary {
        settings = Settings { max_tokens, ..settings.for_summary() };
    }
    let head = match (form.chat_completions, form.summary) {
        (None, false) => Head::Anthropic(anthropic::Head::new(&settings, tools, cache, platform)?),
        (None, true) => {
            Head::Anthropic(anthropic::Head::for_summary(&settings, tools, cache, platform)?)
        }
        (Some(dialect), false) => Head::OpenAi(openai::Head::new(&settings, tools, dialect)?),
        (Some(dialect), true) => {
            Head::OpenAi(openai::Head::for_summary(&settings, tools, dialect)?)
        }
    };
    let mut view = view.clone();
    view.changes.truncate(form.sent_changes);
    let text = if form.summary { sent_before(lines, view) } else { sent_messages(lines, view) };
    let is_compacted = form.compacted.is_some();
    let (far_breakpoint, container) = (form.far_breakpoint, form.container.as_deref());
    let messages = Messages { text: &text, far_breakpoint, is_compacted, container };
    Ok(head.request(messages, &form.tool_choice).body)
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
    let head = match form.chat_completions {
        None => Head::Anthropic(anthropic::Head::new(&settings, None, None, form.platform)?),
        Some(dialect) => Head::OpenAi(openai::Head::new(&settings, None, dialect)?),
    };
    let text = prompt.messages();
    let messages =
        Messages { text: &text, far_breakpoint: None, is_compacted: false, container: None };
    Ok(head.request(messages, &ToolChoice::AUTO).body)
}
