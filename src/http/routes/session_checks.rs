//! What is wrong with members that several bodies have.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::domain::budget::Budget;
use crate::domain::run::Limits;
use crate::http::error::{ApiError, FieldError};
use crate::http::state::Api;

/// What is wrong with a name for people.
pub(super) fn title_problem(title: &str) -> Option<&'static str> {
    if title.chars().count() > 500 {
        return Some("is longer than 500 characters");
    }
    title.contains('\0').then_some("has a NUL")
}

/// The largest metadata of a session, in bytes.
pub(super) const MAX_METADATA: usize = 16 * 1024;
/// How deep the members that are kept as they are may be: what every client can read back.
const MAX_DEPTH: usize = 64;
pub(super) const NOT_READABLE: &str = "is not an object, or is nested deeper than 64";

pub(super) fn is_readable_object(json: &str) -> bool {
    json.trim_start().starts_with('{') && depth(json) <= MAX_DEPTH
}

/// How deep a JSON text is nested.
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

pub(super) fn budget_errors(budget: &Budget) -> Vec<FieldError> {
    let members = [("/budget/tokens", budget.tokens), ("/budget/cost", budget.cost)];
    let is_wrong = |(_, value): &(&str, Option<i64>)| value.is_some_and(|value| value < 1);
    members
        .into_iter()
        .filter(is_wrong)
        .map(|(pointer, _)| FieldError {
            pointer: pointer.to_owned(),
            message: "is less than 1".to_owned(),
        })
        .collect()
}

/// What is wrong with limits.
pub(in crate::http) fn limit_errors(limits: &Limits, pointer: &str) -> Vec<FieldError> {
    let error =
        |name: &str, message: String| FieldError { pointer: format!("{pointer}/{name}"), message };
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

/// The folder that a session is to work in, if it is not one of its own.
pub(super) async fn workspace(
    api: &Api,
    named: Option<String>,
) -> Result<Option<String>, ApiError> {
    let Some(named) = named else { return Ok(api.defaults.workspace.clone()) };
    let (defaults, folder) = (Arc::clone(&api.defaults), named.clone());
    let allowed = spawn_blocking(move || defaults.workspace_roots.allow(&folder)).await;
    if allowed.map_err(|error| ApiError::Internal(error.to_string()))? {
        return Ok(Some(named));
    }
    Err(ApiError::field("/workspace", "is not a folder that sessions may work in"))
}
