//! The fallback models of a new session.

use crate::domain::fallback_model::FallbackModel;
use crate::domain::session::Settings;
use crate::service::error::{Error, FieldError};
use crate::service::state::Service;

/// Maximum number of fallback models of a session.
const MAX_FALLBACKS: usize = 3;
/// Maximum length of the name of a model, in characters.
const MAX_NAME: usize = 200;

/// Pins the requested fallback models. Each is checked as the model of the session would be; thinking,
/// effort and parameters of generation that it does not accept are left out of its requests.
pub(super) fn pin_fallbacks(
    service: &Service,
    requested: Vec<String>,
    settings: &mut Settings,
) -> Result<(), Error> {
    if requested.len() > MAX_FALLBACKS {
        let message = format!("names more than {MAX_FALLBACKS} models");
        return Err(Error::field("/fallback_models", message));
    }
    let mut errors = Vec::new();
    let mut pinned: Vec<FallbackModel> = Vec::new();
    for (index, model) in requested.into_iter().enumerate() {
        let pointer = format!("/fallback_models/{index}");
        let is_repeated =
            model == settings.model || pinned.iter().any(|earlier| earlier.model == model);
        if is_repeated {
            errors.push(FieldError::new(pointer, "is the name of an earlier model"));
            continue;
        }
        match pin(service, model, &pointer, settings) {
            Ok(fallback) => pinned.push(fallback),
            Err(error) => errors.push(error),
        }
    }
    settings.fallback_models = pinned;
    Error::if_any(errors)
}

fn pin(
    service: &Service,
    model: String,
    pointer: &str,
    settings: &Settings,
) -> Result<FallbackModel, FieldError> {
    let refused = |message: String| FieldError::new(pointer, message);
    let characters = model.chars().count();
    if model.trim().is_empty() || characters > MAX_NAME || model.contains('\0') {
        return Err(refused(format!("is not a name of 1 to {MAX_NAME} characters")));
    }
    let rules = &service.defaults.model_rules;
    let provider = rules.provider_of(&model, pointer)?;
    let price = service.defaults.prices.current().get(&model).copied();
    if price.is_none() && settings.limits.cost.or(settings.budget.cost).is_some() {
        return Err(refused(format!("has no price, but cost is limited: {model}")));
    }
    let located = rules.models.locate(&model);
    let max_tokens = rules.models.find(located).max_tokens;
    let tool_search = settings.deferred_tools.is_some() && rules.has_tool_search(located);
    let is_plain = false;
    let fallback = FallbackModel { model, provider, price, max_tokens, is_plain, tool_search };
    if rules.problems(&settings.with_fallback(&fallback)).is_empty() {
        return Ok(fallback);
    }
    let fallback = FallbackModel { is_plain: true, ..fallback };
    match rules.problems(&settings.with_fallback(&fallback)).into_iter().next() {
        None => Ok(fallback),
        Some(problem) => Err(refused(format!(
            "does not accept {} of the session, which {}",
            problem.pointer, problem.message
        ))),
    }
}
