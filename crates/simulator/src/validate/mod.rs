//! The rules of the API: the simulator refuses what the API refuses, with the same messages and in
//! the same order.

mod blocks;
mod cache;
mod compaction;
mod context;
mod deferred;
mod fields;
pub(super) mod media;
mod messages;
mod output;
mod pairing;
mod server_tools;
mod strict;
mod thinking;
mod tools;

#[cfg(test)]
mod tests;

use std::fmt::Display;

use serde_json::{Map, Value};

use super::betas::Betas;
use super::headers::Version;
use super::models::Model;
use super::refusal::Refusal;
use super::request::ApiRequest;
use super::signature;

/// The outcome of a rule. The first broken rule is the response.
type Checked = Result<(), Refusal>;

/// The endpoint that received a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/messages/count_tokens`
    CountTokens,
}

/// The inputs of the rules besides the body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) endpoint: Endpoint,
    pub(crate) version: Version,
    pub(crate) betas: Betas,
    pub(crate) refuse_unknown_fields: bool,
    pub(crate) max_input_tokens: u64,
    /// The estimated number of tokens of the body.
    pub(crate) tokens: usize,
}

/// Checks a whole request.
pub(crate) fn check(request: ApiRequest<'_>, rules: &Rules) -> Checked {
    compaction::admit(request, rules)?;
    fields::required(request, rules)?;
    if rules.refuse_unknown_fields {
        fields::known(request, rules)?;
    }
    let name = request.model();
    let Some(model) = Model::find(name) else {
        return Err(Refusal::not_found(format!("model: {name}")));
    };
    fields::max_tokens(request, model)?;
    fields::sampling(request, model, rules)?;
    thinking::check(request, model)?;
    output::check(request, model, rules)?;
    tools::definitions(request, rules)?;
    deferred::definitions(request, model)?;
    strict::check(request, model)?;
    server_tools::callers(request, model)?;
    tools::choice(request, model)?;
    compaction::setting(request, model, rules)?;
    context::check(request, model, rules)?;
    messages::check(request, model, rules)?;
    compaction::history(request, model)?;
    media::whole(request)?;
    let turns = request.turns();
    if request.compaction().is_some() {
        compaction::ending(&turns)?;
        pairing::check(&turns)?;
    } else {
        pairing::check(&turns)?;
        messages::ending(request, &turns)?;
    }
    tools::history(request, &turns)?;
    deferred::history(request)?;
    thinking::history(request, &turns)?;
    signature::check(request, &turns)?;
    cache::check(request)?;
    window(rules)
}

fn window(rules: &Rules) -> Checked {
    let (tokens, most) = (rules.tokens, rules.max_input_tokens);
    if u64::try_from(tokens).is_ok_and(|tokens| tokens > most) {
        return refuse(format!("prompt is too long: {tokens} tokens > {most} maximum"));
    }
    Ok(())
}

/// Refuses members of an object that are not in `known`.
fn only(at: &str, fields: &Map<String, Value>, known: &[&str]) -> Checked {
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => refuse(format!("{at}.{field}: Extra inputs are not permitted")),
        None => Ok(()),
    }
}

/// Refuses a block or a setting with an unknown `type`.
fn unexpected(at: impl Display, tag: &str, tags: &str) -> Checked {
    refuse(format!(
        "{at}: Input tag '{tag}' found using 'type' does not match any of the expected tags: {tags}"
    ))
}

fn refuse(message: impl Into<String>) -> Checked {
    Err(Refusal::invalid(message))
}
