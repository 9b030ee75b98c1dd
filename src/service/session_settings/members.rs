//! Checks of members that several request bodies have.

use tokio::task::spawn_blocking;

use crate::domain::budget::Budget;
use crate::domain::generation::{Generation, InvalidParameter};
use crate::domain::limits::Limits;

use crate::service::error::{Error, FieldError};
use crate::service::state::Service;

/// Maximum size of the metadata of a session, in bytes.
pub(crate) const MAX_METADATA: usize = 16 * 1024;
/// Maximum nesting depth of members that are stored unchanged: every client can parse it.
const MAX_DEPTH: usize = 64;
/// The message for a member that fails [`is_readable_object`].
pub(crate) const NOT_READABLE: &str = "is not an object, or is nested deeper than 64";

/// The errors in parameters of generation that no model accepts.
pub(crate) fn generation_errors(generation: &Generation) -> Vec<FieldError> {
    let errors = generation.problems().into_iter();
    errors.map(|InvalidParameter { pointer, reason }| FieldError::new(pointer, reason)).collect()
}

/// The problem with the name of a model, if any.
pub(super) fn model_problem(model: &str) -> Option<&'static str> {
    if model.is_empty() {
        return Some("is empty");
    }
    if model.chars().count() > 200 {
        return Some("is longer than 200 characters");
    }
    model.chars().any(char::is_control).then_some("has a control character")
}

/// The problem with the title of a session, if any.
pub(crate) fn title_problem(title: &str) -> Option<&'static str> {
    if title.chars().count() > 500 {
        return Some("is longer than 500 characters");
    }
    title.contains('\0').then_some("has a NUL character")
}

/// Returns true if the JSON text is an object of at most [`MAX_DEPTH`] levels.
pub(crate) fn is_readable_object(json: &str) -> bool {
    json.trim_start().starts_with('{') && depth(json) <= MAX_DEPTH
}

/// The nesting depth of a JSON text.
fn depth(json: &str) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => {
                open += 1;
                deepest = deepest.max(open);
            }
            b']' | b'}' if !is_text => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The members of a budget that are not valid.
pub(super) fn budget_errors(budget: &Budget) -> Vec<FieldError> {
    [("/budget/tokens", budget.tokens), ("/budget/cost", budget.cost)]
        .into_iter()
        .filter(|(_, value)| value.is_some_and(|value| value < 1))
        .map(|(pointer, _)| FieldError::new(pointer, "is less than 1"))
        .collect()
}

/// The members of limits at this pointer that are not valid.
pub(crate) fn limit_errors(limits: &Limits, pointer: &str) -> Vec<FieldError> {
    let error = |name: &str, message: String| FieldError::new(format!("{pointer}/{name}"), message);
    let mut errors = Vec::new();
    if limits.rounds.is_some_and(|rounds| rounds > Limits::MAX_ROUNDS) {
        errors.push(error("rounds", format!("is more than {}", Limits::MAX_ROUNDS)));
    }
    if limits.tokens.is_some_and(|tokens| tokens < 1) {
        errors.push(error("tokens", "is less than 1".to_owned()));
    }
    if limits.cost.is_some_and(|cost| cost < 1) {
        errors.push(error("cost", "is less than 1".to_owned()));
    }
    if limits.seconds == Some(0) {
        errors.push(error("seconds", "is less than 1".to_owned()));
    }
    errors
}

/// The working directory of a new session; none for a directory of its own.
pub(super) async fn workspace(
    service: &Service,
    requested: Option<String>,
) -> Result<Option<String>, Error> {
    let Some(requested) = requested else { return Ok(service.defaults.workspace.clone()) };
    let (roots, folder) = (service.defaults.workspace_roots.clone(), requested.clone());
    let is_allowed = spawn_blocking(move || roots.allow(&folder)).await;
    if is_allowed.map_err(Error::internal)? {
        return Ok(Some(requested));
    }
    Err(Error::field("/workspace", "is not a folder that the operator allows for sessions"))
}
